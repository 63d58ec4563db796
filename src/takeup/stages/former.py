"""What an earlier run of the same job made before it failed: taken over instead of being made again.

A file is taken over only if it would be made of the same source, by the same settings and by the same build
of ffmpeg; then its bytes would be the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from takeup.core.ids import digest
from takeup.media import encode
from takeup.media.binaries import Binaries
from takeup.media.plan import Picture, Segment

RECIPES = "recipes"
"""Where the result of a segment tells of what each rung was made, and how."""


def recipes(
    binaries: Binaries, source: Mapping[str, int], picture: Picture, segment: Segment
) -> dict[str, str]:
    """All that the bytes of each rung depend on, in short."""
    build = binaries.ffmpeg.stat()
    made_by = (encode.VERSION, build.st_size, build.st_mtime_ns, sorted(source.items()))
    common = replace(picture, rungs=(), segments=(segment,))
    return {rung.name: digest(repr((*made_by, common, rung))) for rung in picture.rungs}


def keep(ctx: Any, wanted: Mapping[str, str]) -> dict[str, Path]:
    """Take over the rungs that were made by the same recipe."""
    if ctx.generation <= 1 or ctx.former is None:
        return {}
    known = ctx.former.result.get(RECIPES, {})
    names = [name for name, recipe in wanted.items() if known.get(name) == recipe]
    kept = {
        name: ctx.keep(ctx.former.files[f"{name}.mp4"], f"{name}.mp4")
        for name in names
        if f"{name}.mp4" in ctx.former.files
    }
    if kept:
        ctx.log.info("taken over from a run that failed", rungs=", ".join(kept))
    return kept
