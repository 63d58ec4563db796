"""Makes small packages for tests, with the media library itself or with ffmpeg's own muxers."""

import subprocess
from pathlib import Path

from takeup.media import profile
from takeup.media.profile import Profile
from takeup.media.tools import Tools
from tests.media.building import build

TINY = """
name = "tiny"

[audio]
codec = "aac"
kbps_a_channel = 64

[[families]]
codec = "h264"
encoder = "libx264"
preset = "ultrafast"
range = "sdr"
critical = true
rungs = [{ short = 90, crf = 26, max_kbps = 600 }, { short = 72, crf = 28, max_kbps = 400 }]
"""
LENGTH_S = 9
PICTURE = f"testsrc2=size=160x90:rate=25:duration={LENGTH_S}"
H264 = ("-c:v", "libx264", "-preset", "ultrafast", "-g", "50", "-keyint_min", "50", "-sc_threshold", "0")


def tiny_profile(folder: Path) -> Profile:
    """Two small rungs."""
    file = folder / "tiny.toml"
    file.write_text(TINY)
    return profile.load(str(file))


def ffmpeg(tools: Tools, *arguments: str | Path, cwd: Path | None = None) -> None:
    command = [tools.binaries.ffmpeg, "-v", "error", "-nostdin", "-y", *arguments]
    subprocess.run(command, check=True, timeout=60, cwd=cwd)


def make_source(tools: Tools, file: Path, *filters: str) -> Path:
    """Moving pictures and a tone."""
    vf = ("-vf", ",".join(filters)) if filters else ()
    ffmpeg(
        tools, "-f", "lavfi", "-i", PICTURE, "-f", "lavfi", "-i", f"sine=duration={LENGTH_S}", *vf, *H264,
        "-crf", "18", "-c:a", "aac", file,
    )  # fmt: skip
    return file


async def make_package(tools: Tools, file: Path, folder: Path, name: str = "") -> Path:
    """A package of this source, as `takeup transcode` makes it with a profile, or with two small rungs."""
    folder.mkdir(parents=True, exist_ok=True)
    await build(tools, file, folder, profile.load(name) if name else tiny_profile(folder))
    return folder / "out"
