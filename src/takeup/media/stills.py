"""Pictures that stand still: taken from key frames that are encoded already, and made JPEG files."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from takeup.media import fmp4
from takeup.media.encode import TO_SDR
from takeup.media.fmp4 import Fragment, Movie, Sample
from takeup.media.ladder import Rung
from takeup.media.source import look_at
from takeup.media.tools import Tools

TO_JPEG = "scale=out_color_matrix=bt601:out_range=pc,format=yuvj420p"
"""JPEG files do not say how their colours are to be read; everybody takes this for granted."""
QUALITY = 4

Still = tuple[Movie, Fragment]


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


def key_frames(movies: Iterable[Movie], every: int = 1) -> Iterator[Still]:
    """The first picture of every so many fragments, each in a fragment of its own."""
    fragments = ((movie, fragment) for movie in movies for fragment in movie.fragments)
    for movie, fragment in islice(fragments, None, None, every):
        key = fragment.samples[0]
        alone = Sample(fragment.duration, key.size, key.flags, 0)
        yield movie, Fragment((alone,), fragment.data[: key.size])


async def draw(tools: Tools, stills: Sequence[Still], filters: str, file: Path) -> None:
    """Make one JPEG file of some key frames; there is none if the filters leave nothing."""
    film = file.with_suffix(".mp4")
    try:
        _write(stills, film)
        await tools.ffmpeg(look_at(film), [], one_jpeg(filters, file), writes=[file.parent])
    finally:
        film.unlink(missing_ok=True)


def _write(stills: Sequence[Still], file: Path) -> None:
    """A film of these pictures alone, one after the other."""
    place = 0
    with file.open("wb") as written:
        written.write(stills[0][0].init)
        for number, (_, still) in enumerate(stills, 1):
            written.write(fmp4.write(still, number, place))
            place += still.duration


def shown(rung: Rung, width: int, height: int) -> str:
    """The filters that make pictures of a rung small, for any screen."""
    to_sdr = "" if rung.range == "sdr" else f"{TO_SDR},format=yuv420p,"
    return f"{to_sdr}scale={width}:{height},setsar=1"
