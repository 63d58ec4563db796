"""What an earlier run of the same job made before it failed: taken over instead of being made again.

A file is taken over only if it would be made of the same source, by the same settings and by the same build
of ffmpeg; then its bytes would be the same.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from takeup.core.ids import digest
from takeup.media import audio, encode
from takeup.media.binaries import Binaries
from takeup.media.plan import Segment
from takeup.stages.planned import Stored

RECIPES = "recipes"
"""Where the result of a stage tells of what each file was made, and how."""
RECIPE_CHARS = 32


def pictures(binaries: Binaries, stored: Stored, names: list[str], segment: Segment) -> dict[str, str]:
    """The recipes of these rungs of a segment, by their files."""
    picture = stored.of_rungs(names).picture
    if picture is None:
        return {}
    common = replace(picture, rungs=(), segments=(segment,))
    return {
        encode.name_of(rung): _recipe(binaries, stored, encode.VERSION, common, rung)
        for rung in picture.rungs
    }


def sounds(binaries: Binaries, stored: Stored) -> dict[str, str]:
    """The recipes of the sound tracks, by their files."""
    time = (stored.plan.start_s, stored.plan.length_s)
    return {
        audio.name_of(sound): _recipe(binaries, stored, audio.VERSION, time, sound)
        for sound in stored.plan.sounds
    }


def _recipe(binaries: Binaries, stored: Stored, version: int, *settings: object) -> str:
    """All that the bytes of a file depend on, in short."""
    build = binaries.ffmpeg.stat()
    made_by = (version, build.st_size, build.st_mtime_ns, sorted(stored.source.items()), stored.is_copied)
    return digest(repr((*made_by, *settings)))[:RECIPE_CHARS]


def keep(ctx: Any, recipes: Mapping[str, str]) -> dict[str, Path]:
    """Take over the files that were made by the same recipe; hashes and copies them, so it takes a moment."""
    if ctx.generation <= 1 or ctx.former is None:
        return {}
    known = ctx.former.result.get(RECIPES, {})
    same = [name for name, recipe in recipes.items() if known.get(name) == recipe]
    kept = {name: ctx.keep(ctx.former.files[name], name) for name in same if name in ctx.former.files}
    if kept:
        ctx.log.info("taken over from a run that failed", files=", ".join(kept))
    return kept
