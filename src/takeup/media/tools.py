"""The one place that runs ffmpeg and ffprobe: confined, limited, and deaf to whatever a file may name."""

import math
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from takeup.child.guard import BEST_EFFORT, GIB, Guard, Limits
from takeup.child.run import Ended, Watch, run_child
from takeup.config import Settings
from takeup.media.binaries import Binaries, find
from takeup.media.errors import MediaError
from takeup.media.failures import failure
from takeup.media.source import Source, look_at

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
STREAMS_MAX = 128
PROBE_BYTES, PROBE_US = 16 << 20, 20_000_000
ALLOC_BYTES_MAX = 512 << 20
"""One piece of memory; a picture of the largest size in ten bits needs less."""
STALL_S = 60.0
WALL_S_MAX = 24 * 3600.0
FILE_BYTES_MAX = 1 << 40
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "AV_LOG_FORCE_NOCOLOR": "1", "SVT_LOG": "1"}

Run = Callable[..., Awaitable[Ended]]
OnProgress = Callable[["Progress"], None]

PROGRESS_LINE = re.compile(r"([a-z_0-9]+)=\s*(\S+)\s*\Z")


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
    sandbox: str = BEST_EFFORT

    async def ffprobe(
        self,
        source: Source,
        *arguments: str,
        stdout: IO[bytes],
        wall_s: float,
        bytes_max: int = FILE_BYTES_MAX,
    ) -> Ended:
        """Look into a source; what is found goes to a file, for it may be long."""
        argv = ("-v", "error", "-hide_banner", *opening(), *arguments, "-i", source.argument)
        return await self._run(
            self.binaries.ffprobe,
            argv,
            source,
            watch=Watch(wall_s=wall_s),
            bytes_max=bytes_max,
            stdout=stdout,
        )

    async def ffmpeg(  # noqa: PLR0913 - each limit has a name
        self,
        source: Source,
        before: Sequence[str],
        after: Sequence[str],
        *,
        writes: Sequence[Path] = (),
        on_progress: OnProgress | None = None,
        stall_s: float = STALL_S,
        wall_s: float = WALL_S_MAX,
        bytes_max: int = FILE_BYTES_MAX,
        devices: tuple[Path, ...] = (),
        cwd: Path | None = None,
    ) -> Ended:
        """Make something of a source: options before the input, then filters, encoders and outputs.

        It may take `wall_s` in all, and none of its files may become larger than `bytes_max`.
        Names in filters are those of the folder `cwd`.
        """
        watch = Watch(stall_s=stall_s, wall_s=wall_s)
        reader = ProgressReader(watch, on_progress)
        argv = (
            "-v", "error", "-hide_banner", "-nostdin", "-y", "-progress", "pipe:1", *before, *opening(),
            "-i", source.argument, *after,
        )  # fmt: skip
        return await self._run(
            self.binaries.ffmpeg,
            argv,
            source,
            watch=watch,
            bytes_max=bytes_max,
            writes=writes,
            devices=devices,
            on_line=reader.line,
            cwd=cwd,
        )

    async def _run(
        self,
        tool: Path,
        arguments: Sequence[str],
        source: Source,
        *,
        watch: Watch,
        bytes_max: int,
        writes: Sequence[Path] = (),
        devices: tuple[Path, ...] = (),
        **options: Any,
    ) -> Ended:
        cpu_s = math.ceil((watch.wall_s or WALL_S_MAX) * (os.cpu_count() or 1))
        limits = replace(self.limits, cpu_s=cpu_s, file_bytes=bytes_max)
        guard = Guard(limits, (source.path,), tuple(writes), devices, self.sandbox, source.sparse)
        ended = await self.run((tool, *arguments), guard=guard, env=ENVIRONMENT, watch=watch, **options)
        if ended.exit_code != 0 or ended.stopped:
            raise failure(ended, file_bytes=bytes_max)
        if not source.is_still(look_at(source.path)):
            raise MediaError(f"{source.path.name} was changed while it was read; submit it again")
        return ended


def tools_of(settings: Settings, run: Run = run_child) -> Tools:
    """The tools that the settings name, confined as they say."""
    found = find(settings.ffmpeg_path, settings.ffprobe_path)
    limits = Limits(memory_bytes=settings.ffmpeg_memory_gb * GIB)
    return Tools(found, run, limits, settings.sandbox)


def opening() -> tuple[str, ...]:
    """Options for every input: what may be opened, and how much of it."""
    return (
        "-max_alloc", str(ALLOC_BYTES_MAX),
        "-protocol_whitelist", "file", "-format_whitelist", ",".join(DEMUXERS),
        "-codec_whitelist", ",".join(DECODERS), "-max_streams", str(STREAMS_MAX),
        "-max_pixels", str(PIXELS_MAX), "-probesize", str(PROBE_BYTES), "-analyzeduration", str(PROBE_US),
    )  # fmt: skip


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
