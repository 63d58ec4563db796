"""Pictures that stand still: their size, and how one becomes a JPEG file."""

from pathlib import Path

TO_JPEG = "scale=out_color_matrix=bt601:out_range=pc,format=yuvj420p"
"""JPEG files do not say how their colours are to be read; everybody takes this for granted."""
QUALITY = 4


def fitted(width: int, height: int, long_side: int) -> tuple[int, int]:
    """The size with this long side at most, the shape kept, both sides even."""
    longest = max(width, height)
    share = min(long_side, longest)
    return max(width * share // longest // 2 * 2, 2), max(height * share // longest // 2 * 2, 2)


def one_jpeg(filters: str, file: Path) -> list[str]:
    """What ffmpeg is told to write one picture; an image format of its own would read signs in the name."""
    return [
        "-filter_complex", f"{filters},{TO_JPEG}[still]", "-map", "[still]", "-frames:v", "1",
        "-map_metadata", "-1", "-c:v", "mjpeg", "-q:v", str(QUALITY), "-threads", "1",
        "-f", "mjpeg", f"file:{file}",
    ]  # fmt: skip
