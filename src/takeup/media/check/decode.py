"""Decodes every track once, with every error fatal, and counts what comes out."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from takeup.media.check.access import Access
from takeup.media.check.joined import chunks, join
from takeup.media.check.tracks import Track
from takeup.media.errors import MediaError
from takeup.media.source import Source
from takeup.media.tools import Progress, Tools

NOT_THE_SOURCE = "the source cannot be decoded: "
"""What the tools say of any file; here it is a piece."""
SOFTWARE = {"av1": ("libdav1d", "libaom-av1")}
"""Codecs that ffmpeg's own decoder hands to the hardware: without one of these it decodes nothing."""
STRICT = ("-xerror", "-err_detect", "explode")
SILENCE_DB, SILENCE_S = -70, 0.010
"""A hole as an encoder leaves it when sound is encoded in parts: deeper and longer than any soft moment."""
SILENT = re.compile(r"lavfi\.silence_(start|end)=(-?[\d.]+)")
SILENCES_MAX = 10_000


@dataclass(slots=True)
class Decoded:
    """What came out of one track."""

    frames: int = 0
    wanted: int = 0
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Where, and what the decoder said."""
    silences: list[tuple[float, float]] = field(default_factory=list)
    """From when to when nothing is heard, in seconds from the start of the track."""
    skipped: str = ""
    """Why it was not decoded."""


async def decode(
    access: Access, tools: Tools, track: Track, folder: Path, *, on_frames: Callable[[int], None]
) -> Decoded:
    """Decode a track, some pieces at a time."""
    found = Decoded()
    is_picture = track.kind == "picture"
    since_s = 0.0
    for pieces in chunks(track):
        file, heard = folder / "decoded", folder / "silences"
        count = sum(piece.count for piece in pieces)
        try:
            source = await join(access, track, pieces, file)
            if is_picture:
                frames = await count_pictures(tools, source)
                found.frames, found.wanted = found.frames + frames, found.wanted + count
            else:
                await _listen(tools, source, heard)
                found.silences += _silences(heard, since_s)
        except MediaError as error:
            message = str(error).removeprefix(NOT_THE_SOURCE)
            found.faults.append((access.name(pieces[0].address), message))
        finally:
            file.unlink(missing_ok=True)
            heard.unlink(missing_ok=True)
        since_s += sum(piece.duration for piece in pieces) / track.timescale
        on_frames(count)
    return found


def lacking(track: Track, decoders: Collection[str]) -> str:
    """Why these decoders cannot decode a track; empty if they can."""
    codec = str(track.told.get("codec_name", ""))
    if codec in SOFTWARE and not any(name in decoders for name in SOFTWARE[codec]):
        return f"this ffmpeg has no decoder for {codec}"
    return ""


async def count_pictures(tools: Tools, source: Source) -> int:
    """How many pictures come out."""
    last = 0

    def remember(progress: Progress) -> None:
        nonlocal last
        last = progress.frames

    after = ["-map", "0:v:0", "-fps_mode", "passthrough", "-f", "null", "-"]
    await tools.ffmpeg(source, STRICT, after, on_progress=remember)
    return last


async def _listen(tools: Tools, source: Source, heard: Path) -> None:
    listen = f"silencedetect=n={SILENCE_DB}dB:d={SILENCE_S},ametadata=mode=print:file={_escaped(str(heard))}"
    after = ["-map", "0:a:0", "-af", listen, "-f", "null", "-"]
    await tools.ffmpeg(source, STRICT, after, writes=[heard.parent])


def _escaped(text: str) -> str:
    """A path in the options of a filter, which are read twice."""
    once = "".join(f"\\{letter}" if letter in "\\':" else letter for letter in text)
    return "".join(f"\\{letter}" if letter in "\\'[],;" else letter for letter in once)


def _silences(heard: Path, since_s: float) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    start: float | None = None
    if not heard.exists():  # it was never silent
        return []
    with heard.open() as lines:
        for line in lines:
            if match := SILENT.search(line):
                at = float(match[2]) + since_s
                if match[1] == "start":
                    start = at
                elif start is not None and len(found) < SILENCES_MAX:
                    found.append((start, at))
    return found
