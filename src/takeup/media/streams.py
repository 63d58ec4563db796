"""Streams: the files that a track is served as, cut from encoded fragments and placed on one time line.

Every track of a package starts at the same moment, a little after zero: encoders of pictures need a lead to
show them in another order than they decode them, and encoders of sound put silence before it. With that lead
no track needs an edit list, which players read differently.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from takeup.media.audio import PACKET, SAMPLE_RATE, Track
from takeup.media.codecs import Colours, codec_of, colours_of
from takeup.media.errors import MediaError
from takeup.media.fmp4 import Fragment, Movie, Sample, write
from takeup.media.ladder import Rung
from takeup.media.plan import Picture, Sound

LEAD_FRAMES = 2
SOUND_GRID_S = Fraction(6)
"""Where sound is cut that has no picture to go by."""


@dataclass(frozen=True, slots=True)
class KeyFrame:
    """Where in a piece a picture stands that can be decoded alone."""

    start: int
    length: int
    duration_s: Fraction
    """Until the next one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One file of a stream."""

    size: int
    duration_s: Fraction
    keys: tuple[KeyFrame, ...] = ()


Put = Callable[[int, bytes], object]
"""Where a piece goes, by its number from 1 on; only one is held at a time, for a film is large."""


@dataclass(frozen=True, slots=True)
class Stream:
    """One track, ready to be served."""

    name: str
    codec: str
    init: bytes
    pieces: tuple[Piece, ...]
    timescale: int
    start: int
    """When its first piece is shown, in ticks."""
    zero: int
    """The moment at which every track of the package begins, in ticks."""
    rung: Rung | None = None
    sound: Sound | None = None

    @property
    def colours(self) -> Colours | None:
        """How its pictures are to be read, if it says so."""
        return colours_of(self.init)

    @property
    def video_range(self) -> str:
        """SDR, PQ or HLG."""
        return self.colours.video_range if self.colours else "SDR"

    @property
    def length_s(self) -> Fraction:
        """How long it lasts."""
        return sum((piece.duration_s for piece in self.pieces), Fraction(0))

    def mean_rate(self) -> int:
        """Bits a second over all of it."""
        return rate_of(sum(piece.size for piece in self.pieces), self.length_s)

    def peak_rate(self, target_s: Fraction) -> int:
        """The most bits a second in any run of pieces that lasts half to one and a half of the target."""
        least, most = target_s / 2, target_s * 3 / 2
        peak = 0
        for first in range(len(self.pieces)):
            size, length = 0, Fraction(0)
            for piece in self.pieces[first:]:
                size, length = size + piece.size, length + piece.duration_s
                if length > most:
                    break
                if length >= least or len(self.pieces) == 1:
                    peak = max(peak, rate_of(size, length))
        return peak or self.mean_rate()


def rate_of(size: int, length: Fraction) -> int:
    """Bits a second, rounded up."""
    return -(-size * 8 * length.denominator // length.numerator)


def picture_stream(picture: Picture, rung: Rung, movies: Iterable[Movie], put: Put) -> Stream:
    """The stream of one rung, from its segments in order; all must come from one encoder."""
    ticks, lead = picture.rate.denominator, LEAD_FRAMES * picture.rate.denominator
    inits: set[bytes] = set()
    pieces: list[Piece] = []
    keys: list[KeyFrame] = []
    data, decoded, start, count = b"", 0, 0, 0
    for movie in movies:
        inits.add(movie.init)
        for fragment in movie.fragments:
            later = lead - movie.fragments[0].delay
            count += 1
            if not fragment.starts_with_key or fragment.delay + later != lead:
                raise MediaError(f"fragment {count} of {rung.name} cannot be decoded by itself")
            written = write(fragment, count, decoded, later=later)
            reach = len(written) - len(fragment.data) + fragment.samples[0].size
            keys.append(KeyFrame(len(data), reach, Fraction(fragment.duration, picture.rate.numerator)))
            data += written
            decoded += fragment.duration
            if decoded - start == picture.fragment * ticks or decoded == picture.frames * ticks:
                pieces.append(
                    Piece(len(data), Fraction(decoded - start, picture.rate.numerator), tuple(keys))
                )
                put(len(pieces), data)
                data, keys, start = b"", [], decoded
    if len(inits) != 1:
        raise MediaError(f"the segments of {rung.name} were not encoded alike: they have different headers")
    if decoded != picture.frames * ticks or data:
        raise MediaError(f"{rung.name} has {decoded // ticks} frames instead of {picture.frames}")
    init = inits.pop()
    return Stream(
        rung.name, codec_of(init), init, tuple(pieces), picture.rate.numerator, lead, lead, rung=rung
    )


def lead_of(picture: Picture | None) -> Fraction:
    """The moment at which every track of the package begins, in seconds."""
    return LEAD_FRAMES / picture.rate if picture else Fraction(PACKET, SAMPLE_RATE)


def grid_of(picture: Picture | None) -> Fraction:
    """From one edge between pieces to the next, in seconds."""
    return picture.fragment / picture.rate if picture else SOUND_GRID_S


def sound_stream(track: Track, sound: Sound, picture: Picture | None, name: str, put: Put) -> Stream:
    """The stream of one sound track, cut at the packets nearest before the edges of the picture's files."""
    lead = round(lead_of(picture) * SAMPLE_RATE)
    start = base = lead - track.silence
    if base < 0:
        raise MediaError(f"the lead of {lead} samples is too short for the silence of {track.silence}")
    pieces: list[Piece] = []
    for samples, data in _cut(track.movie, lead, base, grid_of(picture)):
        fragment = Fragment(tuple(samples), data)
        written = write(fragment, len(pieces) + 1, base)
        pieces.append(Piece(len(written), Fraction(fragment.duration, SAMPLE_RATE)))
        put(len(pieces), written)
        base += fragment.duration
    init = track.movie.init
    return Stream(name, codec_of(init), init, tuple(pieces), SAMPLE_RATE, start, lead, sound=sound)


def _cut(movie: Movie, lead: int, base: int, grid_s: Fraction) -> Iterator[tuple[list[Sample], bytes]]:
    samples: list[Sample] = []
    data = b""
    edge = 1
    for fragment in movie.fragments:
        place = 0
        for sample in fragment.samples:
            if samples and base + sample.duration > lead + edge * grid_s * SAMPLE_RATE:
                yield samples, data
                samples, data = [], b""
                edge += 1
            samples.append(sample)
            data += fragment.data[place : place + sample.size]
            place += sample.size
            base += sample.duration
    if samples:
        yield samples, data
