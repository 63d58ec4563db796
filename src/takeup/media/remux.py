"""Copies a source into a container that can be cut exactly; the pictures and the sound stay as they are."""

from pathlib import Path

from takeup.media.source import Source, look_at
from takeup.media.tools import Tools


async def into_matroska(tools: Tools, source: Source, file: Path) -> Source:
    """The same tracks in Matroska, every packet with a time of its own."""
    after = [
        "-map", "0:v?", "-map", "0:a?", "-map", "0:s?", "-c", "copy", "-map_metadata", "-1",
        "-f", "matroska", f"file:{file}",
    ]  # fmt: skip
    await tools.ffmpeg(source, ["-fflags", "+genpts"], after, writes=[file.parent])
    return look_at(file)
