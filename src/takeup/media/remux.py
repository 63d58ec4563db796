"""Copies a source into a container that can be cut exactly; the pictures and the sound stay as they are."""

from collections.abc import Sequence
from pathlib import Path

from takeup.media.probe import Text
from takeup.media.source import Source, look_at
from takeup.media.tools import Tools


async def into_matroska(tools: Tools, source: Source, texts: Sequence[Text], file: Path) -> Source:
    """The same tracks in Matroska, every packet with a time of its own; of subtitles only these."""
    tracks = ["0:v?", "0:a?", *(f"0:{text.stream}" for text in texts)]
    after = [
        *(word for track in tracks for word in ("-map", track)), "-c", "copy", "-map_metadata:g", "-1",
        "-f", "matroska", f"file:{file}",
    ]  # fmt: skip
    await tools.ffmpeg(source, ["-fflags", "+genpts"], after, writes=[file.parent])
    return look_at(file)
