"""`takeup demo`, as the README tells newcomers to run it, with a shorter sample."""

import re
import subprocess
import sys
from pathlib import Path

from takeup.artifacts.versions import Versions
from tests.cli.conftest import environment


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
