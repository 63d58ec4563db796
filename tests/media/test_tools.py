"""Hostile and broken sources: refused in one line, nothing followed, nothing retried that cannot help."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from takeup.child.run import Ended, Watch
from takeup.media import probe
from takeup.media.binaries import Binaries, find
from takeup.media.errors import (
    LimitReached,
    MediaError,
    NotMedia,
    NoTools,
    ToolCrashed,
    ToolFailed,
    ToolStarved,
)
from takeup.media.source import look_at
from takeup.media.tools import Progress, ProgressReader, Tools
from tests.media.conftest import Make

CANARY = "canary-of-the-test"


def playlist(target: str) -> str:
    return f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{target}\n#EXT-X-ENDLIST\n"


HOSTILE = {
    "playlist to a file": playlist("file://{secret}"),
    "playlist to a network": playlist("http://127.0.0.1:9/x.ts"),
    "playlist with a key": '#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI="file://{secret}"\n' + playlist("x.ts"),
    "concat script": "ffconcat version 1.0\nfile '{secret}'\n",
    "session description": "v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=video 9 RTP/AVP 96\n",
    "presentation": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>file://{secret}'
    "</BaseURL></MPD>",
    "text": "just some words, and a few more of them",
    "page": "<html><body>hello</body></html>",
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_file_that_names_others_is_refused(tools: Tools, tmp_path: Path, name: str):
    secret = tmp_path / "secret.ts"
    secret.write_text(CANARY)
    file = tmp_path / "movie.mp4"
    file.write_text(HOSTILE[name].replace("{secret}", str(secret)))
    with pytest.raises(MediaError) as told:
        await probe.probe(tools, look_at(file))
    assert CANARY not in str(told.value)
    assert "\n" not in str(told.value)
    assert not told.value.retryable


async def test_what_is_no_file_is_not_opened(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "empty").touch()
    for name, says in (
        ("pipe", "not a regular file"),
        ("link", "not a regular file"),
        ("", "not a regular file"),
        ("empty", "is empty"),
        ("missing", "cannot be read"),
    ):
        with pytest.raises(NotMedia, match=says):
            look_at(tmp_path / name)


async def test_a_source_that_is_swapped_is_noticed(make: Make, tmp_path: Path):
    file = tmp_path / "movie.mp4"
    file.write_bytes(make("plain").read_bytes())
    before = look_at(file).version
    assert look_at(file).version == before
    file.write_bytes(make("ntsc").read_bytes())
    assert look_at(file).version != before


@pytest.mark.parametrize(
    "name",
    [
        "-y.mp4",
        "http:x.mp4",
        "%03d.mp4",
        "a b'c\n.mp4",
        "é-日本.mp4",
        "concat:a|b",
        "subfile,,start,0,end,9,,:x",
        "data:video;base64,AAAA",
        "crypto:x",
        "lavfi",
        "pipe:0",
    ],
)
async def test_a_name_is_only_a_name(tools: Tools, make: Make, tmp_path: Path, name: str):
    file = tmp_path / name
    file.write_bytes(make("plain").read_bytes())
    found = await probe.probe(tools, look_at(file))
    assert found.video


async def test_truncated_and_garbled_sources(tools: Tools, make: Make, tmp_path: Path):
    whole = make("plain").read_bytes()
    for name, data in (("cut", whole[:3000]), ("noise", os.urandom(50_000)), ("zeros", bytes(50_000))):
        file = tmp_path / f"{name}.mp4"
        file.write_bytes(data)
        with pytest.raises(MediaError) as told:
            await probe.probe(tools, look_at(file))
        assert not told.value.retryable, name


@pytest.fixture
def huge(tools: Tools, tmp_path: Path) -> Path:
    file = tmp_path / "huge.mkv"
    make_it = [
        "-v",
        "error",
        "-f",
        "lavfi",
        "-i",
        "color=size=16000x16000:rate=1",
        "-frames:v",
        "1",
        "-c:v",
        "mjpeg",
    ]
    subprocess.run([tools.binaries.ffmpeg, *make_it, file], check=True, timeout=60)
    return file


async def test_a_huge_picture_is_refused(tools: Tools, huge: Path):
    with pytest.raises(MediaError):
        await probe.probe(tools, look_at(huge))


@pytest.mark.parametrize(
    ("ended", "kind", "says"),
    [
        (("x: Invalid data found when processing input", 1, ""), MediaError, "cannot be decoded"),
        (("Error muxing a packet", 234, ""), MediaError, "cannot be decoded"),
        (("malloc: Cannot allocate memory", 1, ""), ToolStarved, "limits: ffmpeg got no more memory"),
        (("", -9, ""), ToolFailed, "killed by signal 9"),
        (("", -9, "stalled"), ToolStarved, "limits: ffmpeg made no progress"),
        (("", -9, "overdue"), ToolStarved, "limits: ffmpeg took too long"),
        (("", -25, ""), LimitReached, "limits: ffmpeg wrote a file of more than"),
        (("", -24, ""), LimitReached, "limits: ffmpeg used more time"),
        (("x: File too large", 1, ""), LimitReached, "limits: ffmpeg wrote a file of more than"),
        (("", -11, ""), ToolCrashed, r"ffmpeg crashed \(SIGSEGV\): it said nothing"),
        (("[x @ 0x1] a\x1b[31m\x00b\u202ec", 1, ""), MediaError, r"decoded: a \[31m b c$"),
        (("av_interleaved_write_frame(): No space left on device", 1, ""), OSError, "found no space"),
    ],
)
async def test_how_a_tool_ended_decides_whether_to_try_again(make: Make, ended, kind, says):
    stderr, code, stopped = ended

    async def run(command: Sequence[object], **_options: object) -> Ended:
        return Ended(tuple(map(str, command)), code, "", stderr, 1, stopped)

    tools = Tools(Binaries(Path("ffmpeg"), Path("ffprobe"), "a test"), run)
    with pytest.raises(kind, match=says) as told:
        await tools.ffmpeg(look_at(make("plain")), [], ["out"])
    assert getattr(told.value, "retryable", True) == (not issubclass(kind, MediaError))
    assert getattr(told.value, "fails_twice", False) == (kind in (ToolCrashed, ToolStarved))


def test_only_progress_that_gets_on_counts():
    now = [0.0]
    watch = Watch(stall_s=10, clock=lambda: now[0])
    heard: list[Progress] = []
    reader = ProgressReader(watch, heard.append)

    def report(frame: int, at: float, word: str = "continue") -> None:
        now[0] = at
        for line in (f"frame= {frame}", "fps=25.0", "total_size=N/A", f"progress={word}", "some other words"):
            reader.line(line)

    report(5, 5.0)
    report(5, 14.0)
    assert watch.verdict() == ""
    report(5, 16.0)
    assert watch.verdict() == "stalled"
    report(6, 17.0, "end")
    assert watch.verdict() == ""
    assert heard[-1] == Progress(6, 0, is_done=True)


def test_tools_are_found_by_name_on_the_path_or_in_the_wheel(tmp_path: Path):
    for name in ("ffmpeg", "ffprobe"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert find(path=str(tmp_path)) == Binaries(tmp_path / "ffmpeg", tmp_path / "ffprobe", "PATH")
    assert find(str(tmp_path / "ffmpeg"), str(tmp_path / "ffprobe")).origin == "the settings"
    (tmp_path / "ffprobe").unlink()
    assert "wheel" in find(path=str(tmp_path)).origin, "both come from one place"
    with pytest.raises(NoTools, match="is not a program"):
        find(str(tmp_path / "gone"))
