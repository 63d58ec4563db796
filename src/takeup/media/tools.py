"""The one place that runs ffmpeg and ffprobe: confined, limited, and deaf to whatever a file may name."""

import errno
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from takeup.child.guard import Guard, Limits
from takeup.child.run import Ended, Watch, run_child
from takeup.media.binaries import Binaries
from takeup.media.errors import MediaError, ToolFailed
from takeup.media.source import Source

DEMUXERS = (
    "mov", "matroska", "mpegts", "mpeg", "avi", "flv", "asf", "mxf", "ogg", "wav", "mp3", "aac", "flac",
    "h264", "hevc", "ivf", "obu", "dv", "nut", "y4m", "yuv4mpegpipe", "aiff", "caf", "w64", "gif",
)  # fmt: skip
"""Containers that hold their own media; no playlist, script, image list or device is among them."""
DECODERS = (
    "h264", "hevc", "av1", "libdav1d", "vp8", "vp9", "mpeg1video", "mpeg2video", "mpeg4", "msmpeg4v2",
    "msmpeg4v3", "wmv1", "wmv2", "wmv3", "vc1", "prores", "dnxhd", "mjpeg", "ffv1", "rawvideo", "v210",
    "theora", "h263", "flv", "svq3", "cinepak", "dvvideo", "cfhd", "huffyuv", "ffvhuff", "utvideo",
    "gif", "qtrle", "v410", "aac", "aac_latm", "mp3", "mp3float", "mp2", "mp2float", "mp1float", "ac3",
    "eac3", "dca", "truehd", "mlp", "opus", "libopus", "vorbis", "flac", "alac", "wmav1", "wmav2",
    "wmapro", "pcm_s16le", "pcm_s16be", "pcm_s24le", "pcm_s24be", "pcm_s32le", "pcm_s32be", "pcm_f32le",
    "pcm_f32be", "pcm_f64le", "pcm_u8", "pcm_s8", "pcm_alaw", "pcm_mulaw", "pcm_bluray", "pcm_dvd",
    "adpcm_ms", "adpcm_ima_wav", "adpcm_ima_qt", "amrnb", "amrwb", "gsm", "speex", "libspeex",
    "mov_text", "subrip", "srt", "ass", "ssa", "webvtt", "text", "dvd_subtitle", "dvdsub", "pgssub",
    "hdmv_pgs_subtitle",
)  # fmt: skip
PIXELS_MAX = 8192 * 8192
STREAMS_MAX = 64
STALL_S = 60.0
WORDS_LINES = 3
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "AV_LOG_FORCE_NOCOLOR": "1", "SVT_LOG": "1"}

Run = Callable[..., Awaitable[Ended]]
OnProgress = Callable[["Progress"], None]

PROGRESS_LINE = re.compile(r"([a-z_0-9]+)=\s*(\S+)\s*\Z")
MAY_PASS = ("Cannot allocate memory", "Resource temporarily unavailable", "Input/output error")
"""Words of the tools after which another try may end better; whatever else they say would be said again."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one ffmpeg is."""

    frames: int
    bytes: int
    is_done: bool


@dataclass(frozen=True, slots=True)
class Tools:
    """The binaries, and what runs them: alone, or through the context of a stage, which records each."""

    binaries: Binaries
    run: Run = field(default=run_child)
    limits: Limits = field(default_factory=Limits)

    async def ffprobe(self, source: Source, *arguments: str, stdout: IO[bytes], wall_s: float) -> Ended:
        """Look into a source; what is found goes to a file, for it may be long."""
        argv = ("-v", "error", "-hide_banner", *opening(), *arguments, "-i", source.argument)
        return await self._run(self.binaries.ffprobe, argv, source, stdout=stdout, watch=Watch(wall_s=wall_s))

    async def ffmpeg(
        self,
        source: Source,
        before: Sequence[str],
        after: Sequence[str],
        *,
        writes: Sequence[Path] = (),
        on_progress: OnProgress | None = None,
        stall_s: float = STALL_S,
        wall_s: float | None = None,
    ) -> Ended:
        """Make something of a source: options before the input, then filters, encoders and outputs."""
        watch = Watch(stall_s=stall_s, wall_s=wall_s)
        reader = ProgressReader(watch, on_progress)
        argv = (
            "-v", "error", "-hide_banner", "-nostdin", "-y", "-progress", "pipe:1", *before, *opening(),
            "-i", source.argument, *after,
        )  # fmt: skip
        return await self._run(
            self.binaries.ffmpeg, argv, source, writes=writes, watch=watch, on_line=reader.line
        )

    async def _run(
        self,
        tool: Path,
        arguments: Sequence[str],
        source: Source,
        *,
        writes: Sequence[Path] = (),
        **options: Any,
    ) -> Ended:
        guard = Guard(self.limits, reads=(source.path,), writes=tuple(writes))
        ended = await self.run((tool, *arguments), guard=guard, env=ENVIRONMENT, **options)
        if ended.exit_code != 0 or ended.stopped:
            raise failure(ended)
        return ended


def opening() -> tuple[str, ...]:
    """Options for every input: what may be opened, and how much of it."""
    return (
        "-protocol_whitelist", "file,pipe", "-format_whitelist", ",".join(DEMUXERS),
        "-codec_whitelist", ",".join(DECODERS), "-max_streams", str(STREAMS_MAX),
        "-max_pixels", str(PIXELS_MAX),
    )  # fmt: skip


def failure(ended: Ended) -> MediaError | ToolFailed | OSError:
    """Why a tool failed, in one line, and whether it is the source's fault, the disk's or the tool's."""
    tool = Path(ended.command[0]).name
    words = " / ".join(ended.stderr.strip().splitlines()[-WORDS_LINES:])
    if os.strerror(errno.ENOSPC) in ended.stderr:
        return OSError(errno.ENOSPC, f"{tool} found no space: {words}")
    if ended.stopped:
        what = "made no progress" if ended.stopped == "stalled" else "took too long"
        return ToolFailed(f"{tool} {what}: {words}")
    if ended.exit_code < 0:
        return ToolFailed(f"{tool} was killed by signal {-ended.exit_code}: {words}")
    if any(sign in ended.stderr for sign in MAY_PASS):
        return ToolFailed(f"{tool} ended with {ended.exit_code}: {words}")
    return MediaError(f"the source cannot be decoded: {words}")


class ProgressReader:
    """Reads the lines of `-progress pipe:1`; only what gets on keeps a child alive."""

    def __init__(self, watch: Watch, on_progress: OnProgress | None) -> None:
        """Nothing was read yet."""
        self._watch = watch
        self._on_progress = on_progress
        self._values: dict[str, str] = {}
        self._best = (-1, -1, -1)

    def line(self, text: str) -> None:
        """One line of either output."""
        match = PROGRESS_LINE.match(text)
        if match is None:
            return
        self._values[match[1]] = match[2]
        if match[1] != "progress":
            return
        frames, time_us, size = (
            _number(self._values.get(name)) for name in ("frame", "out_time_us", "total_size")
        )
        if (frames, time_us, size) > self._best or match[2] == "end":
            self._best = frames, time_us, size
            self._watch.beat()
        if self._on_progress is not None:
            self._on_progress(Progress(frames, size, match[2] == "end"))


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
