"""Every kind of good source becomes a package that passes the check, picture by picture."""

import subprocess
from pathlib import Path

import pytest

from takeup.media import plan
from takeup.media.check.access import open_access
from takeup.media.check.judge import Against, check
from takeup.media.source import look_at
from takeup.media.tools import Tools
from tests.media.building import build
from tests.media.kinds import KINDS, made

SEGMENT_S = 1


@pytest.mark.parametrize("name", KINDS)
async def test_it_is_cut_and_becomes_a_package_that_passes(
    tools: Tools, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plan, "KEY_EVERY_S", SEGMENT_S)
    monkeypatch.setattr(plan, "KEYS_A_FRAGMENT", 1)
    file = made(tools.binaries.ffmpeg, name, tmp_path)
    whole = await build(tools, file, tmp_path, segment_s=SEGMENT_S, with_stills=True)
    assert whole.picture
    assert len(whole.picture.segments) > 1 or name == "one frame"
    against = Against(look_at(file), is_thorough=True)
    report = await check(open_access(str(tmp_path / "out")), tools, against)
    assert report.findings == [], "\n".join(f"{f.rule} {f.where}: {f.message}" for f in report.findings)


def told(tools: Tools, file: Path, *wanted: str) -> list[str]:
    """What ffprobe says of a file."""
    command = [tools.binaries.ffprobe, "-v", "error", "-of", "csv=p=0", "-show_entries", *wanted, file]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split()


def test_the_edit_list_cuts_pictures_away(tools: Tools, tmp_path: Path):
    file = made(tools.binaries.ffmpeg, "edit list", tmp_path)
    flags = told(tools, file, "packet=flags", "-select_streams", "v")
    cut = [one for one in flags if "D" in one]
    assert "K" in cut[0], "its one key frame is among them"
    assert (len(cut), sum("K" in one for one in flags)) == (18, 1), "all that begin before 0.7 s"


async def test_three_front_speakers_stay_three(tools: Tools, tmp_path: Path):
    """Browsers refuse the layout that ffmpeg takes for three channels by itself: it has no number in AAC."""
    await build(tools, made(tools.binaries.ffmpeg, "front speakers", tmp_path), tmp_path)
    (playlist,) = (tmp_path / "out").glob("sound-*/index.m3u8")
    assert set(told(tools, playlist, "stream=channel_layout")) == {"3.0"}
