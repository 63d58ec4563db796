"""The poster: one picture that stands for the whole, not black if there is any other.

Like the storyboard it is made of key frames that are encoded already: they are upright and of the right
colours, and each can be decoded alone.
"""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from pathlib import Path

from takeup.media import fmp4
from takeup.media.errors import MediaError
from takeup.media.hls import INIT, PIECE
from takeup.media.ladder import Rung
from takeup.media.plan import Picture, Plan
from takeup.media.source import Source
from takeup.media.stills import Still, draw, fitted, key_frames, one_jpeg, shown
from takeup.media.tools import Tools

NAME = "poster.jpg"
LONG_SIDE = 1280
PLACES = (Fraction(1, 10), Fraction(3, 10), Fraction(1, 2), Fraction(3, 4))
"""Where in the length a picture is looked for, one after the other until one is not black."""
PIECES = 2
"""Of the key frames in so many pieces the most usual one is taken: not one in a cut or a flash."""
DARK, DARK_PERCENT = 32, 90
"""A picture is black if so many of its dots are darker than this."""


async def cover(tools: Tools, source: Source, plan: Plan, folder: Path) -> Path | None:
    """Write the poster of sound alone: its cover, if it brings one."""
    if plan.cover is None:
        return None
    file = folder / NAME
    fit = f"scale='min({LONG_SIDE},iw)':'min({LONG_SIDE},ih)':force_original_aspect_ratio=decrease"
    await tools.ffmpeg(source, [], one_jpeg(f"[0:{plan.cover}]{fit}", file), writes=[folder])
    return file


async def make(tools: Tools, plan: Plan, folder: Path) -> Path | None:
    """Write the poster of the pictures in a package."""
    file = folder / NAME
    picture = plan.picture
    if picture is None:
        return None
    rung = rung_of([rung for rung in picture.rungs if (folder / rung.name / INIT).is_file()])
    windows = [list(window) for window in _windows(picture, folder / rung.name)]
    for window, may_be_black in [*((window, False) for window in windows), (windows[0], True)]:
        filters = _filters(rung, len(window), may_be_black=may_be_black)
        await draw(tools, window, filters, file)
        if file.exists() and file.stat().st_size:
            return file
    raise MediaError("no picture can be decoded for the poster")


def rung_of(rungs: list[Rung]) -> Rung:
    """The rung that a poster is made of: the best that is not larger, of what every machine can decode."""
    if not rungs:
        raise MediaError("a poster is made of a package, and there is no rung in it")
    return min(
        rungs, key=lambda r: (r.range != "sdr", r.codec != "h264", abs(max(r.width, r.height) - LONG_SIDE))
    )


def _windows(picture: Picture, folder: Path) -> Iterator[Iterator[Still]]:
    """Some key frames at each place."""
    pieces = ceil(picture.frames / picture.fragment)
    init = (folder / INIT).read_bytes()
    for first in dict.fromkeys(int(pieces * place) + 1 for place in PLACES):
        files = [folder / PIECE.format(n) for n in range(first, min(first + PIECES, pieces + 1))]
        yield key_frames(fmp4.read(init + file.read_bytes()) for file in files)


def _filters(rung: Rung, count: int, *, may_be_black: bool) -> str:
    chain = [shown(rung, *fitted(rung.width, rung.height, LONG_SIDE))]
    if not may_be_black:
        chain += [
            f"blackframe=amount=0:threshold={DARK}",
            f"metadata=select:key=lavfi.blackframe.pblack:value={DARK_PERCENT}:function=less",
        ]
    return f"[0:0]{','.join([*chain, f'thumbnail=n={max(count, 2)}'])}"
