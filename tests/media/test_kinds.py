"""Every kind of good source becomes a package that passes the check, picture by picture."""

import subprocess
from pathlib import Path

import pytest

from takeup.media import audio, encode, package, poster, profile, storyboard, texts
from takeup.media.check.access import open_access
from takeup.media.check.judge import check
from takeup.media.choice import choose
from takeup.media.plan import Plan, plan
from takeup.media.source import Source, look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools
from tests.media.kinds import FILES, KINDS, TURNS


def made(tools: Tools, name: str, folder: Path) -> Path:
    """The source of this kind."""
    for file, text in FILES.items():
        (folder / file).write_text(text)
    ending, recipe = KINDS[name]
    steps: list[tuple[object, ...]] = [(*recipe, f"source.{ending}")]
    if name in TURNS:
        steps.append(
            ("-display_rotation", TURNS[name], "-i", f"source.{ending}", "-c", "copy", f"turned.{ending}")
        )
    for step in steps:
        command = [tools.binaries.ffmpeg, "-v", "error", "-nostdin", "-y", *map(str, step)]
        subprocess.run(command, check=True, timeout=60, cwd=folder)
    return folder / str(steps[-1][-1])


async def build(tools: Tools, source: Source, folder: Path) -> tuple[Source, Plan]:
    """All that the stages do, in a row; the source may be a copy that can be cut."""
    work, out = folder / "work", folder / "package"
    work.mkdir()
    out.mkdir()
    found = await survey(tools, source, work / "copy.mkv")
    whole = plan(found.probe, found.index, await choose(tools.binaries, profile.load("web-h264")))
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
    await poster.make(tools, found.source, whole, out)
    await storyboard.make(tools, whole, out)
    return found.source, whole


@pytest.mark.parametrize("name", KINDS)
async def test_it_becomes_a_package_that_passes(tools: Tools, tmp_path: Path, name: str):
    file = made(tools, name, tmp_path)
    await build(tools, look_at(file), tmp_path)
    report = await check(open_access(str(tmp_path / "package")), tools, look_at(file), is_thorough=True)
    assert report.findings == [], "\n".join(f"{f.rule} {f.where}: {f.message}" for f in report.findings)
