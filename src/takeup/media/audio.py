"""Encodes one sound track, whole: cut into pieces it would click at every joint."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from takeup.media import fmp4, loudness
from takeup.media.errors import MediaError, ToolFailed
from takeup.media.fmp4 import Movie
from takeup.media.loudness import Loudness
from takeup.media.plan import Plan, Sound
from takeup.media.source import Source
from takeup.media.tools import OnProgress, Tools

VERSION = 3
"""Raised when the same plan would give other bytes."""
SAMPLE_RATE = 48_000
PACKET = 1024
"""Samples in one packet of AAC; the encoder puts one packet of silence before the sound."""
FRAGMENT_US = 500_000
LAYOUTS = {1: "mono", 2: "stereo", 3: "3.0", 4: "4.0", 5: "5.0", 6: "5.1"}


@dataclass(frozen=True, slots=True)
class SoundFile:
    """A track as it was encoded."""

    path: Path
    loudness: Loudness
    gain_db: float
    """How much louder than the source it was made."""


@dataclass(frozen=True, slots=True)
class Track:
    """An encoded track and where its sound begins in it."""

    movie: Movie
    silence: int
    """Ticks before the first sample of the source."""


async def encode(
    tools: Tools,
    source: Source,
    plan: Plan,
    sound: Sound,
    folder: Path,
    *,
    on_progress: OnProgress | None = None,
) -> SoundFile:
    """Make the file of one track: as long as the picture, to the sample, whatever the source has."""
    file = folder / name_of(sound)
    chain = samples_of(plan, sound)
    gain_db = 0.0
    with tempfile.TemporaryDirectory(dir=folder) as notes:
        meter = loudness.meter(Path(notes))
        if sound.loudness_lufs is not None:
            look = ["-filter_complex", f"[0:{sound.stream}]{chain},{meter}[m]", "-map", "[m]", "-f", "null"]
            await tools.ffmpeg(source, ["-copyts"], [*look, "-"], writes=[folder])
            gain_db = loudness.take(Path(notes)).gain_to(sound.loudness_lufs)
            chain += f",volume={gain_db:.3f}dB:precision=float"
        after = [
            "-filter_complex", f"[0:{sound.stream}]{chain},asplit[a][m];[m]{meter},anullsink", "-map", "[a]",
            "-c:a", "aac", "-b:a", f"{sound.kbps}k", "-ar", str(SAMPLE_RATE),
            "-threads", "1", "-map_metadata", "-1", "-map_chapters", "-1",
            "-f", "mp4", "-use_editlist", "0", "-movflags", "+empty_moov+default_base_moof+skip_trailer",
            "-frag_duration", str(FRAGMENT_US),
            f"file:{file}",
        ]  # fmt: skip
        await tools.ffmpeg(source, ["-copyts"], after, writes=[folder], on_progress=on_progress)
        found = loudness.take(Path(notes))
    packets, wanted = fmp4.load(file).count, -(-length(plan) // PACKET) + 1
    if abs(packets - wanted) > 1:
        raise ToolFailed(f"sound track {sound.stream} has {packets} packets instead of {wanted}")
    return SoundFile(file, found, gain_db)


def name_of(sound: Sound) -> str:
    """The file of a track."""
    return f"sound-{sound.stream}.mp4"


def load(file: Path) -> Track:
    """A track that was encoded before."""
    movie = fmp4.load(file)
    if movie.timescale != SAMPLE_RATE:
        raise MediaError(f"{file.name} counts {movie.timescale} ticks a second instead of {SAMPLE_RATE}")
    return Track(movie, PACKET)


def length(plan: Plan) -> int:
    """How many samples the result has."""
    return round(plan.length_s * SAMPLE_RATE)


def samples_of(plan: Plan, sound: Sound) -> str:
    """The filters: from the picture's first moment to its last, silence where the source has nothing."""
    start = plan.start_s
    chain = [
        f"asetpts=PTS-({start.numerator}/{start.denominator})/TB",
        f"aresample={SAMPLE_RATE}:async=1:first_pts=0:min_hard_comp=0.1",
        f"aformat=sample_fmts=fltp:channel_layouts={LAYOUTS[sound.channels]}",
        f"apad=whole_len={length(plan)}",
        f"atrim=end_sample={length(plan)}",
        "asetpts=N/SR/TB",
    ]
    return ",".join(chain)
