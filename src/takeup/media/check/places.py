"""Which pictures of a track are compared with its source: all of them, or some from all over it."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from takeup.media.check.joined import chunks
from takeup.media.check.tracks import Piece, Track
from takeup.media.index import Index

AROUND = 2
"""A picture is compared with so many before and after its own."""
FRAMES_A_PLACE = 30
RATE_DENOMINATOR = 1001


@dataclass(frozen=True, slots=True)
class Place:
    """Some pieces in a row, and which of their pictures are compared."""

    pieces: Sequence[Piece]
    skip: int
    count: int


def places(track: Track, index: Index | None, sample: int | None) -> list[Place]:
    """All of a track in runs of bounded length, or so many places from all over it."""
    readable = track.read
    if sample is None or sample >= len(readable):
        return [Place(pieces, 0, sum(piece.count for piece in pieces)) for pieces in chunks(track)]
    chosen = (readable[(2 * number + 1) * len(readable) // (2 * sample)] for number in range(sample))
    return [_cheap_part(track, piece, index) for piece in chosen]


def _cheap_part(track: Track, piece: Piece, index: Index | None) -> Place:
    """What of a piece can be compared without decoding much else: the source is read from a keyframe on."""
    rate = steady_rate(track)
    count = min(piece.count, FRAMES_A_PLACE)
    if index is None or rate is None:
        return Place([piece], 0, count)
    first = frame_of(track, piece, rate)
    begin = index.shown[0] + first / rate / index.time_base
    keys = index.keys[bisect_left(index.keys, begin) :][:1]
    # one more than are looked at around it, for times are rounded
    skips = [round((key - index.shown[0]) * index.time_base * rate) - first + AROUND + 1 for key in keys]
    return Place([piece], next((skip for skip in skips if skip + count <= piece.count), 0), count)


def frame_of(track: Track, piece: Piece, rate: Fraction) -> int:
    """How many frames come before this piece."""
    return round((track.at_s(piece.start) - track.start_s) * rate)


def steady_rate(track: Track) -> Fraction | None:
    """Frames a second, as simply as they can be told; None if they do not come evenly."""
    rate = track.rate if track.is_even else None
    return None if rate is None else rate.limit_denominator(RATE_DENOMINATOR)
