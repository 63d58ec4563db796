"""The poster: one picture that stands for the whole, upright and not black if there is any other."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path

from takeup.media.encode import pictures_of, seek_to
from takeup.media.encoders import SOFTWARE
from takeup.media.errors import MediaError
from takeup.media.plan import Picture, Plan, Segment
from takeup.media.source import Source
from takeup.media.stills import fitted, one_jpeg
from takeup.media.tools import Tools

NAME = "poster.jpg"
LONG_SIDE = 1280
PLACES = (Fraction(1, 10), Fraction(3, 10), Fraction(1, 2), Fraction(3, 4))
"""Where in the length a picture is looked for, one after the other until one is not black."""
WINDOW_S = 4
CANDIDATES = 12
"""Of so many the most usual one is taken: not the one in the middle of a cut or a flash."""
DARK, DARK_PERCENT = 32, 90
"""A picture is black if so many of its dots are darker than this."""


async def make(tools: Tools, source: Source, plan: Plan, folder: Path) -> Path | None:
    """Write the poster; a source of sound alone has one only if it brings a cover."""
    file = folder / NAME
    picture = plan.picture
    if picture is None:
        if plan.cover is None:
            return None
        fit = f"scale='min({LONG_SIDE},iw)':'min({LONG_SIDE},ih)':force_original_aspect_ratio=decrease"
        await tools.ffmpeg(source, [], one_jpeg(f"[0:{plan.cover}]{fit}", file), writes=[folder])
        return file
    windows = list(_windows(picture))
    for window, may_be_black in [*((window, False) for window in windows), (windows[0], True)]:
        filters = _filters(picture, window, may_be_black=may_be_black)
        await tools.ffmpeg(source, seek_to(picture, window), one_jpeg(filters, file), writes=[folder])
        if file.exists() and file.stat().st_size:
            return file
    raise MediaError("no picture of the source can be decoded for its poster")


def _windows(picture: Picture) -> Iterator[Segment]:
    """Some frames at each place; in a long source those after a frame at which decoding can begin."""
    most = ceil(WINDOW_S * picture.rate)
    seen: set[int] = set()
    for place in PLACES:
        frame = int(picture.frames * place)
        segment = max((s for s in picture.segments if s.first <= frame), key=lambda s: s.first)
        first = frame if len(picture.segments) == 1 else segment.first
        if first not in seen:
            seen.add(first)
            yield replace(segment, first=first, count=min(most, picture.frames - first))


def _filters(picture: Picture, window: Segment, *, may_be_black: bool) -> str:
    largest = max(picture.rungs, key=lambda rung: rung.width * rung.height)
    width, height = fitted(largest.width, largest.height, LONG_SIDE)
    shown = replace(largest, width=width, height=height, encoder=SOFTWARE["h264"].name, range="sdr")
    chain = [f"[v0]framestep={max(window.count // CANDIDATES, 1)}"]
    if not may_be_black:
        chain += [
            f"blackframe=amount=0:threshold={DARK}",
            f"metadata=select:key=lavfi.blackframe.pblack:value={DARK_PERCENT}:function=less",
        ]
    chain.append(f"thumbnail=n={CANDIDATES}")
    return f"{pictures_of(picture, window, (shown,))};{','.join(chain)}"
