"""Copies a source into a container that can be cut exactly; the pictures and the sound stay as they are."""

from pathlib import Path

from takeup.media.probe import Audio, Probe, Text
from takeup.media.source import Source, look_at
from takeup.media.tools import Tools

TIMES_THE_SOURCE = 2
BYTES_FREE = 64 << 20


async def into_matroska(tools: Tools, source: Source, facts: Probe, file: Path) -> Source:
    """The tracks that are known of it in Matroska, every packet with a time, and no other words."""
    video = [facts.video.stream] if facts.video else []
    tracks: list[Audio | Text] = [*facts.audio, *facts.texts]
    after = [word for stream in (*video, *(t.stream for t in tracks)) for word in ("-map", f"0:{stream}")]
    after += ["-c", "copy", "-map_metadata", "-1", "-map_chapters", "-1"]
    for number, track in enumerate(tracks, len(video)):
        after += [f"-metadata:s:{number}", f"language={track.language}"]
        after += [f"-metadata:s:{number}", f"title={track.title}"]
    await tools.ffmpeg(
        source,
        ["-fflags", "+genpts"],
        [*after, "-f", "matroska", f"file:{file}"],
        writes=[file.parent],
        bytes_max=TIMES_THE_SOURCE * source.size + BYTES_FREE,
    )
    return look_at(file)
