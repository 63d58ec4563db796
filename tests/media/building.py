"""Builds a package as the stages of a transcode do, without a job."""

from pathlib import Path

from takeup.media import audio, encode, package, plan, poster, profile, storyboard, texts
from takeup.media.choice import choose
from takeup.media.plan import Plan
from takeup.media.source import Source
from takeup.media.survey import survey
from takeup.media.tools import Tools


async def build(tools: Tools, source: Source, folder: Path) -> tuple[Source, Plan]:
    """All that the stages do, in a row; the source may be a copy that can be cut."""
    work, out = folder / "work", folder / "package"
    work.mkdir()
    out.mkdir()
    found = await survey(tools, source, work / "copy.mkv")
    whole = plan.plan(found.probe, found.index, await choose(tools.binaries, profile.load("web-h264")))
    segments = []
    for segment in whole.picture.segments if whole.picture else ():
        place = work / str(segment.number)
        place.mkdir()
        segments.append((await encode.encode(tools, found.source, whole, segment, place)).files)
    for sound in whole.sounds:
        await audio.encode(tools, found.source, whole, sound, work)
    for text in whole.texts:
        await texts.encode(tools, found.source, whole, text, work)
    sounds = {sound.stream: work / audio.name_of(sound) for sound in whole.sounds}
    words = {text.stream: work / texts.name_of(text) for text in whole.texts}
    package.package(whole, segments, sounds, out, texts=words)
    await poster.cover(tools, found.source, whole, out)
    await poster.make(tools, whole, out)
    await storyboard.make(tools, whole, out)
    return found.source, whole
