"""Killed at any moment, the stream comes out the same, and hardly any work is done twice."""

import subprocess
from pathlib import Path

import pytest

from takeup.media.tools import Tools
from tests.media.conftest import PICTURE
from tests.media.killing import CUT_SHORT, Storm, ask
from tests.media.test_transcode import contents, count_frames, takeup
from tests.processes import left_after

RATE = 25
WITHIN_S = 5.0


def source(tools: Tools, folder: Path, seconds: int) -> Path:
    file = folder / "source.mp4"
    picture = f"testsrc2=size=320x180:rate={RATE}:duration={seconds}"
    options = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "100", "-c:a", "aac", "-shortest"]
    made = [*PICTURE, picture, *PICTURE, f"sine=duration={seconds}", *options, file]
    subprocess.run([tools.binaries.ffmpeg, "-v", "error", *made], check=True, timeout=120)
    return file


def survive(tools: Tools, folder: Path, *, seconds: int, kills: int, seed: int) -> None:
    film = source(tools, folder, seconds)
    calm, storm = folder / "calm", folder / "storm"
    calm.mkdir()
    storm.mkdir()
    arguments = ["transcode", str(film), "-o", "out", "--segment", "6"]
    assert takeup(calm, *arguments).returncode == 0
    raging = Storm(storm, arguments, seed)
    raging.rage(kills, tasks=seconds // 6)
    print("killed:", *raging.killed, "- begun again:", raging.repeated(), "of at most", raging.cut_short)
    assert len(raging.killed) == kills
    assert set(raging.killed) == set(CUT_SHORT)
    assert contents(storm / "out") == contents(calm / "out")
    (playlist,) = (storm / "out").glob("v1/180p/index.m3u8")
    assert count_frames(tools, playlist) == seconds * RATE
    assert takeup(storm, "verify").returncode == 0
    assert ask(storm, "SELECT status FROM jobs") == [("completed",)]
    assert raging.repeated() <= raging.cut_short
    assert left_after(storm, WITHIN_S) == []
    assert not list((storm / "takeup-data" / "scratch").glob("*"))


def test_killed_again_and_again_the_stream_has_the_same_bytes(tools: Tools, tmp_path: Path):
    survive(tools, tmp_path, seconds=60, kills=5, seed=1)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [2, 3])
def test_killed_twenty_times_the_stream_has_the_same_bytes(tools: Tools, tmp_path: Path, seed: int):
    survive(tools, tmp_path, seconds=600, kills=20, seed=seed)
