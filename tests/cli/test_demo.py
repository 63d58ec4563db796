"""`takeup demo`, as the README tells newcomers to run it, with a shorter sample."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from takeup.artifacts.versions import Versions
from takeup.cli.demo_work import Show
from takeup.media import binaries
from takeup.media.sample import make_sample
from tests.cli.conftest import environment
from tests.processes import environment_mark, left_of


def demo(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "takeup.cli.main", "demo", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=170, check=False
    )


def test_it_is_made_checked_killed_and_made_to_its_end(tmp_path: Path):
    ran = demo(tmp_path, "here", "--seconds", "12", "--size", "320x180")
    assert ran.returncode == 0, ran.stderr
    assert "ok: " in ran.stdout
    assert re.search("killed when [12] of 2 segments were made", ran.stderr)
    assert "are the same, byte for byte" in ran.stderr
    assert "Watch it: takeup watch here/stream" in ran.stderr
    assert Versions(tmp_path / "here" / "stream").numbers() == [1, 2]
    assert (tmp_path / "here" / "stream" / "master.m3u8").read_text().startswith("#EXTM3U")


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path):
    (tmp_path / "letter").touch()
    ran = demo(tmp_path, ".")
    assert (ran.returncode, "holds something else" in ran.stderr) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


async def test_after_the_kill_no_process_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in environment_mark(tmp_path).items():
        monkeypatch.setenv(name, value)
    show = Show(tmp_path / "here")
    show.clear()
    await make_sample(binaries.find(), show.sample, 12, "320x180")
    show.takeup(*show.transcode)
    await show.kill_half_way()
    assert left_of(tmp_path) == []
