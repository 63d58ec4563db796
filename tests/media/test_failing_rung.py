"""A rung that cannot be made: the others are published without it, unless nothing may be without it."""

from dataclasses import replace
from pathlib import Path

import pytest

from takeup.child.run import Ended, run_child
from takeup.media import encode, package, profile
from takeup.media.choice import choose
from takeup.media.plan import plan
from takeup.media.source import look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools
from takeup.stages import former
from tests.media.conftest import PICTURE, Make
from tests.media.jobs import run_jobs
from tests.media.packages import ffmpeg

PROFILE = """
name = "two codecs"
audio = { codec = "aac", kbps_a_channel = 64 }

[[families]]
codec = "h264"
encoder = "libx264"
preset = "ultrafast"
range = "sdr"
critical = true
rungs = [{ short = 90, crf = 30, max_kbps = 300 }]

[[families]]
codec = "av1"
encoder = "libsvtav1"
preset = "12"
range = "sdr"
critical = CRITICAL
rungs = [{ short = 90, crf = 40, max_kbps = 300 }]
"""
FRAMES_BEFORE_DEATH = 10


@pytest.fixture
def dots(tools: Tools, tmp_path: Path) -> Path:
    """A picture so small that the encoder of AV1 refuses it, after its file was opened."""
    file = tmp_path / "dots.mkv"
    ffmpeg(tools, *PICTURE, "testsrc2=size=2x2:rate=25:duration=1", "-c:v", "ffv1", file)
    return file


def written(folder: Path, *, critical: bool) -> Path:
    file = folder / "two.toml"
    file.write_text(PROFILE.replace("CRITICAL", str(critical).lower()))
    return file


async def test_the_stream_is_published_without_it(dots: Path, tmp_path: Path):
    spec = {"profile": str(written(tmp_path, critical=False)), "check": "full"}
    (done,) = await run_jobs(tmp_path / "data", [dots], spec=spec)
    assert done.job.status == "completed", {name: task.error for name, task in done.tasks.items()}
    made = done.tasks["encode"].result
    assert (list(made["bytes"]), list(made["failed"])) == (["2p"], ["2p-av1"])
    assert list(made[former.RECIPES]) == ["2p.mp4"], "a later run does not take over what was not made"
    assert done.tasks["check"].result["verdict"].startswith("checked: ")
    stream = tmp_path / "streams" / "0" / "v1"
    assert [folder.name for folder in stream.glob("*p*") if folder.is_dir()] == ["2p"]
    assert "av01" not in (stream / package.MASTER).read_text() + (stream / package.MANIFEST).read_text()


async def test_nothing_is_published_without_one_that_is_critical(dots: Path, tmp_path: Path):
    spec = {"profile": str(written(tmp_path, critical=True))}
    (done,) = await run_jobs(tmp_path / "data", [dots], spec=spec)
    assert (done.job.status, done.tasks["encode"].status) == ("failed", "FAILED")
    assert not (tmp_path / "streams").exists()


async def dies(command: tuple[object, ...], **options: object) -> Ended:
    """AV1 is written for some frames, and then its encoder dies; everything else runs as ever."""
    if "libsvtav1" not in command:
        return await run_child(command, **options)  # type: ignore[arg-type]
    *before, output = command
    command = (*before, "-frames:v", str(FRAMES_BEFORE_DEATH), output)
    ended = await run_child(command, **options)  # type: ignore[arg-type]
    assert Path(str(output).removeprefix("file:")).stat().st_size > 0
    return replace(ended, exit_code=1, stderr="the encoder died")


async def test_no_half_of_a_file_is_left(tools: Tools, make: Make, tmp_path: Path):
    source = look_at(make("plain"))
    found = await survey(tools, source)
    wanted = profile.load(str(written(tmp_path, critical=False)))
    whole = plan(found.probe, found.index, await choose(tools.binaries, wanted))
    assert whole.picture
    out = tmp_path / "out"
    out.mkdir()
    dying = replace(tools, run=dies)
    made = await encode.encode(dying, source, whole, whole.picture.segments[0], out)
    assert list(made.files) == ["90p"]
    assert made.failed == {"90p-av1": "the source cannot be decoded: the encoder died"}
    assert [file.name for file in out.iterdir()] == ["90p.mp4"]
