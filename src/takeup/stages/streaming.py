"""The stages that make a stream of encoded files: texts, package, publication."""

import asyncio
from collections.abc import Awaitable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from takeup.artifacts.versions import Versions
from takeup.core.steps import DRAWING
from takeup.media import audio, entry, package, poster, storyboard, texts
from takeup.media.errors import MediaError, ToolFailed
from takeup.media.ladder import Rung
from takeup.media.plan import Plan
from takeup.stages.checking import hold_to_rules
from takeup.stages.planned import PLAN, Stored, planned_source, stored_plan, text_of, tools_for
from takeup.stages.transcoding import FIRST, REST

VERSIONS_KEPT = 2
"""So many earlier versions stay to roll back to."""


async def make_package(ctx: Any) -> dict[str, Any]:
    """Join everything to streams, and write the playlists that lead to them."""
    stored = stored_plan(ctx)
    made = [name for stage in stored.stages.values() for name in stage]
    return await _package(ctx, stored, made, ctx.output(package.MASTER).parent)


def publish(ctx: Any) -> dict[str, Any]:
    """Serve the package as the newest version; whoever plays an older one goes on with it."""
    return _publish(ctx, ctx.inputs["package"].path(package.MASTER).parent, ctx.job_id)


async def publish_early(ctx: Any) -> dict[str, Any]:
    """Serve what is there before the rest is made, once it passed the check."""
    stored = stored_plan(ctx)
    folder = ctx.scratch / "early"
    folder.mkdir()
    summary = await _package(ctx, stored, stored.stages[FIRST], folder)
    summary |= await hold_to_rules(ctx, stored, folder)
    return summary | await asyncio.to_thread(_publish, ctx, folder, f"{ctx.job_id} early")


async def _package(ctx: Any, stored: Stored, made: list[str], folder: Path) -> dict[str, Any]:
    """The package of the rungs that were made, and of those that the version before has, if some are kept."""
    former = _former(ctx, stored)
    rungs = stored.plan.picture.rungs if stored.plan.picture else ()
    kept = {rung.name: former / rung.name for rung in rungs if former and _is_kept(rung, made, former)}
    whole = stored.of_rungs([*made, *kept])
    streams = await asyncio.to_thread(
        package.package,
        whole,
        _segments(ctx),
        {one.stream: ctx.inputs["sound"].path(audio.name_of(one)) for one in whole.sounds},
        folder,
        kept=kept,
        texts={one.stream: ctx.inputs["texts"].path(texts.name_of(one)) for one in whole.texts},
        title=text_of(ctx, "title", Path(text_of(ctx, "source")).stem),
    )
    await _draw(ctx, stored, whole, folder)
    (folder / PLAN).write_text(stored.to_json())
    return {"streams": streams, **_count(folder)}


async def _draw(ctx: Any, stored: Stored, whole: Plan, folder: Path) -> None:
    """Poster and storyboard; a stream without them is better than none."""
    tools = tools_for(ctx)
    ctx.progress(note=DRAWING)

    async def drawn(what: str, drawing: Awaitable[object]) -> None:
        try:
            await drawing
        except (MediaError, ToolFailed) as error:
            ctx.log.warning("the stream lacks a picture beside it", which=what, error=str(error))

    if whole.picture is None:
        await drawn("cover", poster.cover(tools, planned_source(ctx, stored), whole, folder))
    await asyncio.gather(
        drawn("poster", poster.make(tools, whole, folder)),
        drawn("storyboard", storyboard.make(tools, whole, folder)),
    )


def _count(folder: Path) -> dict[str, int]:
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return {"files": len(sizes), "bytes": sum(sizes)}


def _former(ctx: Any, stored: Stored) -> Path | None:
    """The version that rungs are taken from, if only some are made anew."""
    if stored.kept_from is None:
        return None
    former = Versions(Path(text_of(ctx, "publish_to"))).path(stored.kept_from)
    if not (former / PLAN).exists():
        raise MediaError(f"v{stored.kept_from}, which rungs are kept of, is gone; make all rungs again")
    return former


def _is_kept(rung: Rung, made: list[str], former: Path) -> bool:
    return rung.name not in made and (former / rung.name).is_dir()


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


async def make_texts(ctx: Any) -> dict[str, Any]:
    """Every text track as WebVTT."""
    stored = stored_plan(ctx)
    for text in stored.plan.texts:
        folder = ctx.output(texts.name_of(text)).parent
        await texts.encode(tools_for(ctx), planned_source(ctx, stored), stored.plan, text, folder)
    return {"tracks": len(stored.plan.texts)}
