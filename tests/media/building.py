"""Builds a package as the stages of a transcode do, without a job."""

from pathlib import Path

from takeup.media import audio, encode, package, plan, poster, profile, storyboard, texts
from takeup.media.choice import choose
from takeup.media.plan import Plan
from takeup.media.profile import Profile
from takeup.media.source import look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools


async def build(
    tools: Tools,
    file: Path,
    folder: Path,
    wanted: Profile | None = None,
    *,
    segment_s: float | None = None,
    with_stills: bool = False,
) -> Plan:
    """All that the stages do, in a row; the package is `out` in this folder."""
    work, out = folder / "work", folder / "out"
    work.mkdir(parents=True)
    out.mkdir()
    found = await survey(tools, look_at(file), work / "copy.mkv")
    source = found.source  # which may be a copy that can be cut
    chosen = await choose(tools.binaries, wanted or profile.load("web-h264"))
    whole = plan.plan(found.probe, found.index, chosen, segment_s=segment_s)
    made = []
    for segment in whole.picture.segments if whole.picture else ():
        (work / str(segment.number)).mkdir()
        made.append(await encode.encode(tools, source, whole, segment, work / str(segment.number)))
    sounds = {s.stream: (await audio.encode(tools, source, whole, s, work)).path for s in whole.sounds}
    words = {t.stream: await texts.encode(tools, source, whole, t, work) for t in whole.texts}
    package.package(whole, [one.files for one in made], sounds, out, texts=words)
    if with_stills:
        await poster.cover(tools, source, whole, out)
        await poster.make(tools, whole, out)
        await storyboard.make(tools, whole, out)
    return whole
