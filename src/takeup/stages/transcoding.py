"""The stages that turn a source into encoded files: validate, plan, encode each segment, encode the sound."""

import asyncio
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from takeup.artifacts.versions import Versions
from takeup.config import load as load_settings
from takeup.core.errors import InvalidSpec
from takeup.media import audio, encode, profile
from takeup.media.abilities import maps_colours
from takeup.media.bounds import check_work
from takeup.media.choice import choose
from takeup.media.errors import MediaError
from takeup.media.ladder import early_rungs
from takeup.media.plan import Picture, Plan, plan
from takeup.media.probe import Probe, probe
from takeup.media.source import Source
from takeup.media.survey import survey
from takeup.media.tools import Progress
from takeup.stages import former
from takeup.stages.planned import (
    COPY,
    FRAMES,
    PLAN,
    Stored,
    handed_in,
    names_of,
    planned_source,
    seconds_of,
    source_in_parts,
    stored_plan,
    text_of,
    tools_for,
)

DEFAULT_PROFILE = "web-h264"
FIRST, REST = "first", "encode"
"""The stages that encode: what is published early, and what follows."""


async def validate(ctx: Any) -> dict[str, Any]:
    """Refuse at once what nothing can be made of; what the source is stands in the result."""
    profile.load(text_of(ctx, "profile", DEFAULT_PROFILE))
    if not Path(text_of(ctx, "publish_to")).is_absolute():
        raise InvalidSpec("the spec of a transcode needs 'publish_to': the absolute path of a folder")
    names_of(ctx, "rungs")
    seconds_of(ctx, "segment_s")
    source = handed_in(ctx)
    return about(source, await probe(tools_for(ctx), source))


def about(source: Source, found: Probe) -> dict[str, Any]:
    """The facts of a source that people ask for."""
    video = found.video
    picture = video and {
        "codec": video.codec,
        "size": f"{video.width}x{video.height}",
        "rate": str(video.rate) if video.rate else None,
        "hdr": video.hdr,
        "is_interlaced": video.is_interlaced,
    }
    return {
        "bytes": source.size,
        "container": found.container,
        "seconds": float(found.duration_s),
        "picture": picture,
        "sounds": [
            {"codec": one.codec, "channels": one.channels, "language": one.language} for one in found.audio
        ],
        "texts": [{"codec": one.codec, "language": one.language} for one in found.texts],
    }


async def make_plan(ctx: Any) -> dict[str, Any]:
    """Look into the source and lay out all that is to be made of it."""
    wanted = profile.load(text_of(ctx, "profile", DEFAULT_PROFILE))
    source = handed_in(ctx)
    tools = tools_for(ctx)
    found = await survey(tools, source, ctx.output(COPY))
    chosen_profile = await choose(tools.binaries, wanted)
    whole = plan(found.probe, found.index, chosen_profile, segment_s=seconds_of(ctx, "segment_s"))
    check_work(whole, load_settings(os.environ, {}).transcode_max_gigapixels)
    picture = whole.picture
    if picture and picture.tone_map and not await maps_colours(tools.binaries):
        raise MediaError("an HDR source needs FFmpeg 8 or newer, which `takeup[ffmpeg]` brings")
    chosen, kept_from = choose_rungs(ctx, whole, source)
    early = [name for name in early_rungs(picture.rungs if picture else ()) if name in chosen]
    stages = {REST: chosen}
    if ctx.spec.get("early"):
        stages = {FIRST: early, REST: [name for name in chosen if name not in early]}
    stored = Stored(whole, source.version, found.is_copied, stages, kept_from)
    ctx.output(PLAN).write_text(stored.to_json())
    if found.index is not None:
        ctx.output(FRAMES).write_text(json.dumps(found.index.to_json()))
    return {
        "segments": len(picture.segments) if picture else 0,
        "rungs": {stage: batch_names(picture, names) for stage, names in stages.items()},
        "frames": picture.frames if picture else 0,
        "rate": str(picture.rate) if picture else None,
        "seconds": float(whole.length_s),
    }


def choose_rungs(ctx: Any, whole: Plan, source: Source) -> tuple[list[str], int | None]:
    """The rungs to make; if only some are wanted, the others are taken from the version that is served."""
    there = [rung.name for rung in whole.picture.rungs] if whole.picture else []
    wanted = names_of(ctx, "rungs")
    if not wanted:
        return there, None
    if unknown := [name for name in wanted if name not in there]:
        raise InvalidSpec(f"there is no rung {', '.join(unknown)}; there are: {', '.join(there)}")
    versions = Versions(Path(text_of(ctx, "publish_to")))
    current = versions.current()
    if current is None:
        raise MediaError("only some rungs are wanted, but no version is published to take the others from")
    try:
        former = Stored.load(versions.path(current) / PLAN)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MediaError("the published version is one of another Takeup; make all rungs again") from error
    if former.source != source.version or timeline(former.plan) != timeline(whole):
        raise MediaError("the published version was made of another source or plan; make all rungs again")
    return [name for name in there if name in wanted], current


def timeline(whole: Plan) -> tuple[object, ...]:
    """What two plans must share for their rungs to stand in one package."""
    picture = whole.picture
    if picture is None:
        return (whole.version,)
    return (whole.version, picture.rate, picture.frames, picture.keys_every, picture.fragment, picture.zero)


def batch_names(picture: Picture | None, names: list[str]) -> list[list[str]]:
    """The rungs of these names in the batches in which every segment makes them."""
    rungs = [rung for rung in (picture.rungs if picture else ()) if rung.name in names]
    return [[rung.name for rung in batch] for batch in encode.batches(rungs)]


async def encode_segment(ctx: Any) -> dict[str, Any]:
    """Make one segment in every size that this stage makes."""
    stored = stored_plan(ctx)
    whole = stored.of_rungs(stored.stages[ctx.stage])
    picture = whole.picture
    if picture is None or not picture.rungs:
        return {}
    segment = picture.segments[ctx.segment]
    folder = ctx.output(encode.name_of(picture.rungs[0])).parent

    def tell(progress: Progress) -> None:
        done = min(progress.frames, segment.count)
        ctx.progress(100 * done / segment.count, f"{done} of {segment.count} frames")

    tools = tools_for(ctx)
    source = await source_in_parts(ctx, stored, tools)
    recipes = former.pictures(tools.binaries, stored, stored.stages[ctx.stage], segment)
    kept = await asyncio.to_thread(former.keep, ctx, recipes)
    missing = [rung.name for rung in picture.rungs if encode.name_of(rung) not in kept]
    made = await encode.encode(tools, source, stored.of_rungs(missing), segment, folder, on_progress=tell)
    files = {rung.name: folder / encode.name_of(rung) for rung in picture.rungs}
    sizes = {name: file.stat().st_size for name, file in files.items() if name not in made.failed}
    whole_ones = {file.name: recipes[file.name] for name, file in files.items() if name in sizes}
    return {"bytes": sizes, "failed": made.failed, former.RECIPES: whole_ones}


async def encode_sound(ctx: Any) -> dict[str, Any]:
    """Make every sound track, each in one piece."""
    stored = stored_plan(ctx)
    tools, whole = tools_for(ctx), stored.plan
    if not whole.sounds:
        return {"tracks": 0, "loudness": {}, former.RECIPES: {}}  # a source that nobody reads is not fetched
    source = planned_source(ctx, stored)
    recipes = former.sounds(tools.binaries, stored)
    kept = await asyncio.to_thread(former.keep, ctx, recipes)
    loudness = {name: ctx.former.result["loudness"][name] for name in kept}
    for number, sound in enumerate(whole.sounds):
        name = audio.name_of(sound)
        if name not in kept:
            made = await audio.encode(tools, source, whole, sound, ctx.output(name).parent)
            loudness[name] = asdict(made.loudness)
        ctx.progress(100 * (number + 1) / len(whole.sounds))
    return {"tracks": len(whole.sounds), "loudness": loudness, former.RECIPES: recipes}
