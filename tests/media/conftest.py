"""The real tools, and sources that they make when a test needs them: no media is kept in the repository."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from takeup.media.binaries import find
from takeup.media.tools import Tools
from tests.media.packages import make_package, make_source

PICTURE = ("-f", "lavfi", "-i")
SMALL = "testsrc2=size=320x180:rate=25:duration=8"
H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-bf", "2", "-g", "40")

BRIGHT = (
    "-vf",
    "format=yuv420p10le,setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc:range=tv",
)

RECIPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "plain": ("mp4", (*PICTURE, SMALL, *PICTURE, "sine=duration=8", *H264, "-c:a", "aac", "-shortest")),
    "480 lines": ("mp4", (*PICTURE, "testsrc2=size=854x480:rate=25:duration=1", *H264)),
    "ntsc": ("mp4", (*PICTURE, "testsrc2=size=320x180:rate=30000/1001:duration=8", *H264)),
    "film": ("mkv", (*PICTURE, "testsrc2=size=320x180:rate=24000/1001:duration=8", *H264)),
    "fast": ("mp4", (*PICTURE, "testsrc2=size=320x180:rate=120:duration=4", *H264)),
    "open gop": (
        "mp4",
        (*PICTURE, SMALL, *H264, "-preset", "medium", "-x264-params", "open-gop=1:bframes=3:keyint=30"),
    ),
    "long gop": ("mp4", (*PICTURE, SMALL, *H264, "-g", "500", "-keyint_min", "500", "-sc_threshold", "0")),
    "uneven": (
        "mkv",
        (*PICTURE, SMALL, "-vf", "select='not(eq(mod(n,7),3))',setpts=PTS+0.011*mod(N\\,3)/TB",
         "-fps_mode", "vfr", *H264),
    ),
    "late start": ("mkv", (*PICTURE, SMALL, *H264, "-output_ts_offset", "5.3")),
    "webm": (
        "webm",
        (*PICTURE, SMALL, "-c:v", "libvpx-vp9", "-b:v", "200k", "-cpu-used", "8", "-g", "40"),
    ),
    "wide pixels": (
        "mp4",
        (*PICTURE, "testsrc2=size=360x288:rate=25:duration=2", "-vf", "setsar=16/11", *H264),
    ),
    "fields": (
        "mp4",
        (*PICTURE, "testsrc2=size=320x180:rate=50:duration=2", "-vf",
         "tinterlace=interleave_top,fieldorder=tff", *H264, "-flags", "+ildct+ilme"),
    ),
    "one frame": ("mp4", (*PICTURE, "testsrc2=size=320x180:rate=25", "-frames:v", "1", *H264)),
    "languages": (
        "mkv",
        (*PICTURE, SMALL, *PICTURE, "sine=duration=8", *PICTURE, "sine=f=880:duration=8",
         "-map", "0", "-map", "1", "-map", "2", "-map", "1",
         "-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=fra",
         "-metadata:s:a:2", "language=deu", "-disposition:a:1", "default", *H264, "-c:a", "aac"),
    ),
    "avi": ("avi", (*PICTURE, SMALL, "-c:v", "mpeg4", "-bf", "2", "-g", "30")),
    "ts": ("ts", (*PICTURE, SMALL, *PICTURE, "sine=duration=8", *H264, "-c:a", "aac", "-shortest")),
    "sound": ("wav", (*PICTURE, "sine=duration=2", "-ac", "1", "-ar", "44100")),
    "ten bit": (
        "mkv",
        (*PICTURE, "testsrc2=size=320x180:rate=25:duration=1", "-vf",
         "format=yuv420p10le,setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc",
         *H264),
    ),
    "hdr10": (
        "mp4",
        (*PICTURE, "testsrc2=size=320x180:rate=25:duration=1", *BRIGHT, *H264, "-x264-params",
         "mastering-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,50):cll=1000,400"),
    ),
    "2160p hdr10": ("mp4", (*PICTURE, "testsrc2=size=3840x2160:rate=25:duration=0.2", *BRIGHT, *H264)),
    "noisy": (
        "mp4",
        (*PICTURE, "testsrc2=size=320x180:rate=25:duration=12", "-vf", "noise=alls=40:allf=t", *H264,
         "-crf", "12"),
    ),
    "old colours": (
        "mkv",
        (*PICTURE, "color=red:size=320x180:rate=25:duration=1", "-vf",
         "format=rgb24,scale=out_color_matrix=bt601,format=yuv420p,setparams=colorspace=unknown", *H264),
    ),
    "uneven loudness": (
        "wav", (*PICTURE, "aevalsrc='0.5*sin(2*PI*440*t)*lt(t,0.5)+0.05*sin(2*PI*440*t)*gte(t,0.5)':d=4"),
    ),
}  # fmt: skip

Make = Callable[[str], Path]


@pytest.fixture(scope="session")
def tools() -> Tools:
    return Tools(find())


@pytest.fixture(scope="session")
def make(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """A source by its name, made once a session."""
    folder = tmp_path_factory.mktemp("sources")

    def made(name: str) -> Path:
        ending, recipe = RECIPES[name]
        file = folder / f"{name.replace(' ', '-')}.{ending}"
        if not file.exists():
            command = [tools.binaries.ffmpeg, "-v", "error", "-nostdin", "-y", *recipe, file]
            subprocess.run(command, check=True, timeout=60)
        return file

    return made


@pytest.fixture(scope="session")
def source(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small source of nine seconds."""
    return make_source(tools, tmp_path_factory.mktemp("source") / "source.mp4")


@pytest.fixture(scope="session")
def good(tools: Tools, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of it, with two rungs of two pieces each."""
    return asyncio.run(make_package(tools, source, tmp_path_factory.mktemp("good")))


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    """The same package, to be damaged."""
    return shutil.copytree(good, tmp_path / "copy")


def frame_hashes(tools: Tools, *arguments: str) -> list[str]:
    """One hash a picture of what ffmpeg makes of these arguments."""
    command = [tools.binaries.ffmpeg, "-v", "error", "-nostdin", *arguments, "-f", "framemd5", "-"]
    lines = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60
    ).stdout.splitlines()
    return [line.rpartition(",")[2].strip() for line in lines if not line.startswith("#")]
