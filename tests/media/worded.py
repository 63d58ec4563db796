"""Sources with words: subtitles of every kind in two languages, chapters, a cover."""

import subprocess
from pathlib import Path

import pytest

from takeup.media.tools import Tools
from tests.media.conftest import H264, PICTURE

LATE_S = "5.3"
SMALL = "testsrc2=size=160x90:rate=25:duration=8"
SRT = """1
00:00:00,500 --> 00:00:01,500
<i>Hello</i> & goodbye

2
00:00:01,750 --> 00:00:04,250
across two edges

3
00:00:07,000 --> 00:00:20,000
until the end

4
00:00:12,000 --> 00:00:14,000
after the end
"""
ASS = r"""[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, Bold, Italic, Alignment
Style: Default,Arial,16,&Hffffff,0,0,2

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:01.00,0:00:03.00,Default,,0,0,0,,{\pos(10,10)\an8}une ligne\N\N{\b1}grasse{\b0} --> fin
Dialogue: 0,0:00:04.00,0:00:05.00,Default,,0,0,0,,{\p1}m 0 0 l 10 10 20 0{\p0}
"""
VTT = """WEBVTT

STYLE
::cue { color: red }

first
00:02.000 --> 00:03.000 position:10% align:start
<v Bob>Sign: <c.big>EXIT</c> &lt;now&gt;
"""
CHAPTERS = """;FFMETADATA1
[CHAPTER]
TIMEBASE=1/1000
START={}
END={}
title=First "part" <b>
[CHAPTER]
TIMEBASE=1/1000
START={}
END={}
"""


def make_with(tools: Tools, *arguments: str | Path) -> None:
    command = [tools.binaries.ffmpeg, "-v", "error", "-nostdin", "-y", *arguments]
    subprocess.run(command, check=True, timeout=60)


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the tracks are made of."""
    folder = tmp_path_factory.mktemp("words")
    parts = {"a.srt": SRT, "a.ass": ASS, "a.vtt": VTT, "chapters.txt": CHAPTERS.format(0, 3000, 3000, 20000)}
    parts["short.srt"] = SRT.partition("\n4\n")[0].replace("20,000", "08,000")
    parts["short.txt"] = CHAPTERS.format(0, 3000, 3000, 8000)
    parts["late.txt"] = CHAPTERS.format(5300, 8300, 8300, 20000)  # ffmpeg does not move chapters
    for name, text in parts.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="session")
def film(tools: Tools, words: Path) -> Path:
    """Three text tracks, two of them English, and chapters; everything begins late."""
    file = words / "film.mkv"
    make_with(
        tools, *PICTURE, SMALL, "-i", words / "a.srt", "-i", words / "a.ass", "-i", words / "a.vtt",
        "-i", words / "late.txt", "-map", "0", "-map", "1", "-map", "2", "-map", "3",
        "-map_chapters", "4", *H264, "-c:s:0", "srt", "-c:s:1", "ass", "-c:s:2", "copy",
        "-metadata:s:s:0", "language=eng", "-metadata:s:s:1", "language=fra",
        "-metadata:s:s:2", "language=eng", "-disposition:s:0", "default", "-disposition:s:1", "0",
        "-disposition:s:2", "forced", "-output_ts_offset", LATE_S, file,
    )  # fmt: skip
    return file


@pytest.fixture(scope="session")
def phone(tools: Tools, words: Path) -> Path:
    """The same words as MP4 holds them."""
    file = words / "phone.mp4"
    make_with(
        tools, *PICTURE, SMALL, "-i", words / "a.srt", "-i", words / "chapters.txt", "-map", "0",
        "-map", "1", "-map_chapters", "2", *H264, "-c:s", "mov_text", "-metadata:s:s:0", "language=deu", file,
    )  # fmt: skip
    return file


@pytest.fixture(scope="session")
def record(tools: Tools, words: Path) -> Path:
    """Sound with words, chapters and a cover."""
    file, cover = words / "record.mka", words / "cover.jpg"
    make_with(tools, *PICTURE, "testsrc2=size=600x500", "-frames:v", "1", "-pix_fmt", "yuvj420p", cover)
    make_with(
        tools, *PICTURE, "sine=duration=8", "-i", words / "short.srt", "-i", words / "short.txt", "-map", "0",
        "-map", "1", "-map_chapters", "2", "-c:a", "aac", "-c:s", "srt", "-attach", cover,
        "-metadata:s:t", "mimetype=image/jpeg", file,
    )  # fmt: skip
    return file
