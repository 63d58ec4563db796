"""The stages that make a stream of encoded files: package it, check it, publish it."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from takeup.artifacts.versions import Versions
from takeup.media import audio, entry, package
from takeup.stages.planned import PLAN, Stored, stored_plan, text_of
from takeup.stages.transcoding import FIRST, REST

VERSIONS_KEPT = 2
"""So many earlier versions stay to roll back to."""


def make_package(ctx: Any) -> dict[str, Any]:
    """Join everything to streams, and write the playlists that lead to them."""
    stored = stored_plan(ctx)
    folder = ctx.output(package.MASTER).parent
    summary = _package(ctx, stored, [name for stage in stored.stages.values() for name in stage], folder)
    ctx.output(PLAN).write_text(stored.to_json())
    return summary


def publish(ctx: Any) -> dict[str, Any]:
    """Serve the package as the newest version; whoever plays an older one goes on with it."""
    made = ctx.inputs["package"].path(package.MASTER).parent
    return _publish(ctx, made, ctx.job_id)


def publish_early(ctx: Any) -> dict[str, Any]:
    """Serve what is there before the rest is made."""
    stored = stored_plan(ctx)
    folder = ctx.scratch / "early"
    folder.mkdir()
    summary = _package(ctx, stored, stored.stages[FIRST], folder)
    return summary | _publish(ctx, folder, f"{ctx.job_id} early")


def _package(ctx: Any, stored: Stored, rungs: list[str], folder: Path) -> dict[str, Any]:
    whole = stored.plan
    kept: dict[str, Path] = {}
    if stored.kept_from is not None and whole.picture is not None:
        former = Versions(Path(text_of(ctx, "publish_to"))).path(stored.kept_from)
        others = [rung.name for rung in whole.picture.rungs if rung.name not in rungs]
        kept = {name: former / name for name in others if (former / name).is_dir()}
    sounds = {sound.stream: ctx.inputs["sound"].path(audio.name_of(sound)) for sound in whole.sounds}
    made = package.package(stored.of_rungs([*rungs, *kept]), _segments(ctx), sounds, folder, kept=kept)
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {"streams": made, "files": len(files), "bytes": sum(file.stat().st_size for file in files)}


def _segments(ctx: Any) -> list[Mapping[str, Path]]:
    """The files of each segment by the name of their rung, whichever stage made them."""
    found: dict[int, dict[str, Path]] = {}
    for stage in (FIRST, REST):
        for made in ctx.inputs[stage].made if stage in ctx.inputs else ():
            files = {name.removesuffix(".mp4"): path for name, path in made.files.items()}
            found.setdefault(made.segment, {}).update(files)
    return [found[number] for number in sorted(found)]


def _publish(ctx: Any, made: Path, origin: str) -> dict[str, Any]:
    versions = Versions(Path(text_of(ctx, "publish_to")))
    number = versions.publish(made, origin, partial(entry.entries, made), keep=VERSIONS_KEPT)
    return {"version": number, "folder": str(versions.folder)}
