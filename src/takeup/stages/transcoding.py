"""The stages of transcoding: plan, encode each segment, encode the sound, package."""

import json
import os
from pathlib import Path
from typing import Any

from takeup.child.run import Ended
from takeup.config import load as load_settings
from takeup.core.errors import InvalidSpec
from takeup.media import audio, binaries, encode, package, profile
from takeup.media.abilities import maps_colours
from takeup.media.choice import choose
from takeup.media.errors import MediaError
from takeup.media.plan import Plan, plan
from takeup.media.source import Source, look_at
from takeup.media.survey import survey
from takeup.media.tools import Progress, Tools

PLAN = "plan.json"
COPY = "source.mkv"
DEFAULT_PROFILE = "web-h264"


async def make_plan(ctx: Any) -> dict[str, Any]:
    """Look into the source and lay out all that is to be made of it."""
    wanted = profile.load(_text(ctx, "profile", DEFAULT_PROFILE))
    source = look_at(Path(_text(ctx, "source")))
    tools = tools_for(ctx)
    found = await survey(tools, source, ctx.output(COPY))
    whole = plan(found.probe, found.index, await choose(tools.binaries, wanted))
    if whole.picture and whole.picture.tone_map and not await maps_colours(tools.binaries):
        raise MediaError("an HDR source needs FFmpeg 8 or newer, which `takeup[ffmpeg]` brings")
    stored = {"plan": whole.to_json(), "source": source.version, "is_copied": found.is_copied}
    ctx.output(PLAN).write_text(json.dumps(stored))
    picture = whole.picture
    return {
        "segments": len(picture.segments) if picture else 0,
        "rungs": [rung.name for rung in picture.rungs] if picture else [],
        "frames": picture.frames if picture else 0,
        "seconds": float(whole.length_s),
    }


async def encode_segment(ctx: Any) -> dict[str, Any]:
    """Make one segment in every size."""
    whole, source = _planned(ctx)
    picture = whole.picture
    if picture is None:
        raise MediaError("the plan has no picture to encode")
    segment = picture.segments[ctx.segment]
    folder = ctx.output(f"{picture.rungs[0].name}.mp4").parent

    def tell(progress: Progress) -> None:
        done = min(progress.frames, segment.count)
        ctx.progress(100 * done / segment.count, f"{done} of {segment.count} frames")

    made = await encode.encode(tools_for(ctx), source, whole, segment, folder, on_progress=tell)
    sizes = {name: file.stat().st_size for name, file in made.files.items()}
    return {"bytes": sizes, "failed": made.failed}


async def encode_sound(ctx: Any) -> dict[str, Any]:
    """Make every sound track, each in one piece."""
    whole, source = _planned(ctx)
    for number, sound in enumerate(whole.sounds):
        folder = ctx.output(audio.name_of(sound)).parent
        await audio.encode(tools_for(ctx), source, whole, sound, folder)
        ctx.progress(100 * (number + 1) / len(whole.sounds))
    return {"tracks": len(whole.sounds)}


def make_package(ctx: Any) -> dict[str, Any]:
    """Join everything to streams, and write the playlists that lead to them."""
    whole = Plan.from_json(json.loads(ctx.inputs["plan"].path(PLAN).read_text())["plan"])
    segments = [
        {name.removesuffix(".mp4"): path for name, path in made.files.items()}
        for made in ctx.inputs["encode"].made
    ]
    sounds = {sound.stream: ctx.inputs["sound"].path(audio.name_of(sound)) for sound in whole.sounds}
    folder = ctx.output(package.MASTER).parent
    package.package(whole, segments, sounds, folder)
    return {"bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())}


def tools_for(ctx: Any) -> Tools:
    """The tools of this machine, each run recorded as a step of the task."""
    settings = load_settings(os.environ, {})

    async def run(command: tuple[object, ...], **options: Any) -> Ended:
        ended: Ended = await ctx.step(*command, kind="media", check=False, **options)
        return ended

    return Tools(binaries.find(settings.ffmpeg_path, settings.ffprobe_path), run)


def _planned(ctx: Any) -> tuple[Plan, Source]:
    """The plan, and the source if it is still what was planned for."""
    made = ctx.inputs["plan"]
    stored = json.loads(made.path(PLAN).read_text())
    source = look_at(made.path(COPY) if stored["is_copied"] else Path(_text(ctx, "source")))
    if not stored["is_copied"] and stored["source"] != source.version:
        raise MediaError(f"{source.path.name} was changed after its plan was made; submit it again")
    return Plan.from_json(stored["plan"]), source


def _text(ctx: Any, name: str, default: str | None = None) -> str:
    value = ctx.spec.get(name, default)
    if not isinstance(value, str) or not value:
        raise InvalidSpec(f"the spec of a transcode needs {name!r}: a text")
    return value
