"""What a published package offers, read from the package itself: its length, its rungs and their rates."""

from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from takeup.core.videos import Served, ServedQuality
from takeup.media.check.playlists import Choice, Playlist, read_master, read_playlist
from takeup.media.errors import MediaError
from takeup.media.package import MASTER

PLAYLIST_BYTES_MAX = 16 << 20
BITS = 8


class _Track(NamedTuple):
    length_s: Fraction
    size_bytes: int
    mean_rate: int
    peak_rate: int


def served(folder: Path, version: int) -> Served:
    """What the package in this folder, which is this version of a stream, offers."""
    master = read_master(_text(folder / MASTER))
    choices = {choice.uri: choice for choice in master.of("variant") if choice.uri}
    rungs: list[ServedQuality] = []
    length_s = Fraction(0)
    for uri, choice in choices.items():
        place = _inside(folder, uri)
        track = _track(place.parent, read_playlist(_text(place)))
        length_s = max(length_s, track.length_s)
        rungs.append(_quality(place.parent.name, choice, track))
    return Served(version, round(float(length_s), 3), tuple(rungs))


def _quality(name: str, choice: Choice, track: _Track) -> ServedQuality:
    width, _, height = choice.get("RESOLUTION").partition("x")
    return ServedQuality(
        name,
        choice.get("CODECS").partition(",")[0],
        int(width) if width.isdecimal() else None,
        int(height) if height.isdecimal() else None,
        track.size_bytes,
        track.mean_rate,
        track.peak_rate,
    )


def _track(folder: Path, playlist: Playlist) -> _Track:
    """Sizes and rates of one track; the peak is that of its fullest piece."""
    pieces = [(_inside(folder, entry.file.uri).stat().st_size, entry.length_s) for entry in playlist.entries]
    headers = {entry.header.uri for entry in playlist.entries if entry.header}
    size = sum(bytes_ for bytes_, _ in pieces)
    length_s = sum((length for _, length in pieces), Fraction(0))
    peaks = [bytes_ * BITS / length for bytes_, length in pieces if length]
    whole = size + sum(_inside(folder, uri).stat().st_size for uri in headers)
    return _Track(
        length_s, whole, round(size * BITS / length_s) if length_s else 0, round(max(peaks, default=0))
    )


def _inside(folder: Path, name: str) -> Path:
    """A file that a playlist names; it names none outside of its package."""
    if name.startswith("/") or ".." in name.split("/") or ":" in name:
        raise MediaError(f"{name!r} is no file of this package")
    return folder / name


def _text(file: Path) -> str:
    if file.stat().st_size > PLAYLIST_BYTES_MAX:
        raise MediaError(f"{file.name} is no playlist")
    return file.read_text("utf-8")
