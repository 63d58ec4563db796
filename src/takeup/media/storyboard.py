"""The storyboard: small pictures of the whole on a few sheets, for players to show while somebody seeks.

It is made of the key frames of a rung that is packaged already: they stand at even distances, each can be
decoded alone, and no other frame is touched, so it costs next to nothing.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import islice
from math import ceil
from pathlib import Path

from takeup.media import webvtt
from takeup.media.errors import MediaError
from takeup.media.hls import INIT
from takeup.media.ladder import Rung
from takeup.media.package import packaged
from takeup.media.plan import Plan
from takeup.media.stills import Still, draw, fitted, key_frames, shown
from takeup.media.tools import Tools
from takeup.media.webvtt import Cue

VTT = "storyboard.vtt"
SHEET = "storyboard-{:02d}.jpg"
LONG_SIDE = 160
COLUMNS, ROWS = 10, 10
PICTURES_MAX = 1000
"""A longer source has them farther apart."""


async def make(tools: Tools, plan: Plan, folder: Path) -> list[Path]:
    """Write the sheets, and the list of what is where on them, into a package that has its streams."""
    picture = plan.picture
    if picture is None:
        return []
    rung = rung_of([rung for rung in picture.rungs if (folder / rung.name / INIT).is_file()])
    keys = ceil(picture.frames / picture.keys_every)
    every = ceil(keys / PICTURES_MAX)
    wanted = ceil(keys / every)
    found = key_frames(packaged(folder / rung.name), every)
    made: list[Path] = []
    for first in range(0, wanted, COLUMNS * ROWS):
        count = min(wanted - first, COLUMNS * ROWS)
        stills = list(islice(found, count))
        if len(stills) < count:
            raise MediaError(f"a storyboard of {wanted} pictures ends after {first + len(stills)}")
        made.append(await _sheet(tools, rung, stills, folder / SHEET.format(len(made) + 1)))
    step_s = every * picture.keys_every / picture.rate
    (folder / VTT).write_bytes(webvtt.write(_cues(rung, step_s, plan.length_s)))
    return [*made, folder / VTT]


def rung_of(rungs: Sequence[Rung]) -> Rung:
    """The rung that a storyboard is made of: the smallest of what every machine can decode."""
    if not rungs:
        raise MediaError("a storyboard is made of a package, and there is no rung in it")
    return min(rungs, key=lambda r: (r.range != "sdr", r.codec != "h264", r.width * r.height))


async def _sheet(tools: Tools, rung: Rung, stills: Sequence[Still], file: Path) -> Path:
    width, height = fitted(rung.width, rung.height, LONG_SIDE)
    columns = min(len(stills), COLUMNS)
    rows = ceil(len(stills) / columns)
    await draw(tools, stills, f"[0:0]{shown(rung, width, height)},tile={columns}x{rows}", file)
    return file


def _cues(rung: Rung, step_s: Fraction, length_s: Fraction) -> Iterator[Cue]:
    width, height = fitted(rung.width, rung.height, LONG_SIDE)
    for number in range(ceil(length_s / step_s)):
        sheet, place = divmod(number, COLUMNS * ROWS)
        row, column = divmod(place, COLUMNS)
        where = f"{column * width},{row * height},{width},{height}"
        end_s = min((number + 1) * step_s, length_s)
        text = f"{SHEET.format(sheet + 1)}#xywh={where}"
        yield Cue(round(number * step_s * 1000), round(end_s * 1000), text)
