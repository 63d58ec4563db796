"""Copies a source into a container that can be cut exactly; pictures and sound stay as they are."""

from pathlib import Path

from takeup.media.probe import Audio, Probe, Text
from takeup.media.source import Source, look_at
from takeup.media.tools import Tools

TIMES_THE_SOURCE = 2
BYTES_FREE = 64 << 20
PLAIN = {"pcm_bluray": "pcm_s24le", "pcm_dvd": "pcm_s24le"}
"""Samples that Matroska has no name for, and what holds them without loss."""


async def into_matroska(tools: Tools, source: Source, facts: Probe, file: Path) -> Source:
    """The tracks that are known of it in Matroska, every packet with a time, and no other words."""
    video = [facts.video.stream] if facts.video else []
    tracks: list[Audio | Text] = [*facts.audio, *facts.texts]
    after = [word for stream in (*video, *(t.stream for t in tracks)) for word in ("-map", f"0:{stream}")]
    after += ["-c", "copy", "-map_metadata", "-1", "-map_chapters", "-1"]
    for number, track in enumerate(tracks, len(video)):
        after += [f"-metadata:s:{number}", f"language={track.language}"]
        after += [f"-metadata:s:{number}", f"title={track.title}"]
        after += [f"-c:{number}", PLAIN[track.codec]] if track.codec in PLAIN else []
    await tools.ffmpeg(
        source,
        ["-fflags", "+genpts"],
        [*after, "-f", "matroska", f"file:{file}"],
        writes=[file.parent],
        bytes_max=TIMES_THE_SOURCE * source.size + BYTES_FREE,
    )
    return look_at(file)
