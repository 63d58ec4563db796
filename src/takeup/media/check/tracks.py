"""The facts of one track: what every piece of it holds, taken from its boxes one piece at a time."""

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from statistics import median_low
from typing import Any

from takeup.media.check.access import Span
from takeup.media.check.headers import Header
from takeup.media.check.keys import is_key
from takeup.media.errors import MediaError, TooLarge
from takeup.media.fmp4 import NOT_SYNC, TFHD_MOOF, TRUN_OFFSET, Box, Sample, boxes, find, need, samples_of

SAMPLES_MAX = 24 * 3600 * 60
SLACK_TICKS = 1
"""Times are rounded to ticks."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """One `moof` and its `mdat`; times are in ticks of the track."""

    place: int
    """The byte of the piece at which it begins."""
    reach: int
    """How many bytes there are up to the end of its first sample."""
    sequence: int
    decoded: int
    duration: int
    tracks: int
    is_based: bool
    """Whether places in it are counted from its own start."""
    has_negative: bool
    """Whether a picture is shown before it is decoded, by what the box says."""


@dataclass(slots=True)
class Piece:
    """One file, or one range of a file; times are in ticks of the track."""

    address: str
    span: Span | None
    told_s: Fraction | None = None
    """How long the playlist says it is."""
    size: int = 0
    start: int = 0
    """When its first sample is shown."""
    duration: int = 0
    count: int = 0
    keys: tuple[int, ...] = ()
    """When those samples are shown that are said to need no others."""
    false_keys: tuple[int, ...] = ()
    """Those of them that do need others."""
    starts_with_key: bool = True
    fragments: tuple[Fragment, ...] = ()
    fault: str = ""
    """Why it could not be read."""


@dataclass(slots=True)
class Track:
    """One track of a package."""

    name: str
    kind: str
    timescale: int
    header: Header | None = None
    file: tuple[str, Span | None] | None = None
    """Where the header stands."""
    pieces: list[Piece] = field(default_factory=list)
    shown: "array[int]" = field(default_factory=lambda: array("q"))
    """When each sample is shown, piece after piece."""
    sizes: "array[int]" = field(default_factory=lambda: array("L"))
    """The bytes of each sample, in the order in which they are decoded."""
    told: dict[str, Any] = field(default_factory=dict)
    """What the tools say of it."""
    is_broken: bool = False
    """Whether its playlist says that time starts again somewhere."""
    inner: "Track | None" = None
    """The sound that is in the same files."""

    @property
    def read(self) -> list[Piece]:
        """The pieces that could be read."""
        return [piece for piece in self.pieces if not piece.fault]

    @property
    def count(self) -> int:
        """How many samples there are."""
        return sum(piece.count for piece in self.pieces)

    @property
    def duration(self) -> int:
        """How long all its samples last, in ticks."""
        return sum(piece.duration for piece in self.pieces)

    @property
    def length_s(self) -> Fraction:
        """The same in seconds."""
        return Fraction(self.duration, self.timescale)

    @property
    def size(self) -> int:
        """The bytes of all its pieces."""
        return sum(piece.size for piece in self.pieces)

    def at_s(self, tick: int) -> Fraction:
        """When something at this tick is shown, as its edit list has it."""
        header = self.header
        if header is None:
            return Fraction(tick, self.timescale)
        return Fraction(tick - (header.edit or 0), self.timescale) + Fraction(header.delay_s)

    @property
    def start_s(self) -> Fraction:
        """When it begins."""
        return self.at_s(self.read[0].start) if self.read else Fraction(0)

    @property
    def end_s(self) -> Fraction:
        """When it is over."""
        return self.at_s(max((p.start + p.duration for p in self.read), default=0))

    @property
    def sample_s(self) -> Fraction:
        """How long a sample lasts as a rule."""
        return self.length_s / self.count if self.count else Fraction(0)

    @property
    def interval(self) -> int:
        """What lies between two samples as a rule, in ticks."""
        gaps = [after - before for before, after in pairwise(sorted(self.shown))]
        return max(median_low(gaps), 1) if gaps else max(self.duration, 1)

    @property
    def is_even(self) -> bool:
        """Whether every sample is as far from the one before as the others, as far as ticks can tell."""
        usual = self.interval
        return all(abs(b - a - usual) <= SLACK_TICKS for a, b in pairwise(sorted(self.shown)))

    @property
    def rate(self) -> Fraction | None:
        """Samples a second, on average."""
        if self.count < 2 or len(self.shown) < 2:  # noqa: PLR2004 - one has no rate
            return None
        return Fraction((len(self.shown) - 1) * self.timescale, max(max(self.shown) - min(self.shown), 1))

    @property
    def is_boxed(self) -> bool:
        """Whether it is fragmented MP4, whose boxes can be judged."""
        return self.header is not None

    @property
    def pixels(self) -> int:
        """How large a picture is."""
        return int(self.told.get("width") or 0) * int(self.told.get("height") or 0)

    @property
    def family(self) -> tuple[str, str]:
        """Tracks of one family are those among which a player switches."""
        entry = self.header.entry if self.header else "ts"
        return entry, str(self.told.get("color_transfer", "")) if entry != "avc1" else ""


def scan(track: Track, piece: Piece, data: bytes) -> None:
    """Take the facts of a piece; one that cannot be read says why."""
    piece.size = len(data)
    try:
        _scan(track, piece, data)
    except TooLarge:
        raise
    except (MediaError, struct.error, IndexError, OverflowError) as error:
        piece.fault = str(error)


def _scan(track: Track, piece: Piece, data: bytes) -> None:
    header = track.header
    if header is None:
        raise MediaError("it has no header, so nobody can tell what is in it")
    shown: list[int] = []
    keys: list[int] = []
    false: list[int] = []
    fragments = []
    sizes: list[int] = []
    for moof, mdat in _pairs(data):
        traf = need(data, b"traf", start=moof.content, end=moof.end)
        samples = samples_of(data, traf, header.defaults)
        place = _first_byte(data, moof, traf, mdat)
        if not samples or place + sum(sample.size for sample in samples) > mdat.end:
            raise MediaError(f"the fragment at byte {moof.start} does not hold what it lists")
        decoded = _decoded(data, traf)
        fragments.append(_fragment(data, moof, traf, samples, place, decoded))
        sizes.extend(sample.size for sample in samples)
        for sample in samples:
            at = decoded + sample.offset
            shown.append(at)
            if header.kind == "picture" and not sample.flags & NOT_SYNC:
                keys.append(at)
                if is_key(header.entry, data[place : place + sample.size], header.length_bytes) is False:
                    false.append(at)
            place, decoded = place + sample.size, decoded + sample.duration
    if not fragments:
        raise MediaError("there is no fragment in it")
    if len(track.shown) + len(shown) > SAMPLES_MAX:
        raise TooLarge(f"{track.name} has more than {SAMPLES_MAX} samples")
    shown.sort()
    track.shown.extend(shown)
    track.sizes.extend(sizes)
    piece.start, piece.count, piece.keys, piece.false_keys = shown[0], len(shown), tuple(keys), tuple(false)
    piece.duration = sum(fragment.duration for fragment in fragments)
    piece.starts_with_key = header.kind != "picture" or bool(keys and keys[0] == shown[0] not in false)
    piece.fragments = tuple(fragments)


def _pairs(data: bytes) -> Iterator[tuple[Box, Box]]:
    """Each `moof` with the `mdat` after it."""
    moof: Box | None = None
    for box in boxes(data):
        if box.kind == b"moof":
            if moof is not None:
                raise MediaError(f"the fragment at byte {moof.start} has no data")
            moof = box
        elif box.kind == b"mdat" and moof is not None:
            yield moof, box
            moof = None
    if moof is not None:
        raise MediaError(f"the fragment at byte {moof.start} has no data")


def _first_byte(data: bytes, moof: Box, traf: Box, mdat: Box) -> int:
    """Where the first sample stands."""
    run = need(data, b"trun", start=traf.content, end=traf.end)
    flags = int.from_bytes(data[run.content + 1 : run.content + 4])
    if not flags & TRUN_OFFSET or not _is_based(data, traf):
        return mdat.content
    (offset,) = struct.unpack_from(">i", data, run.content + 8)
    return moof.start + int(offset)


def _is_based(data: bytes, traf: Box) -> bool:
    header = need(data, b"tfhd", start=traf.content, end=traf.end)
    return bool(int.from_bytes(data[header.content + 1 : header.content + 4]) & TFHD_MOOF)


def _decoded(data: bytes, traf: Box) -> int:
    time = need(data, b"tfdt", start=traf.content, end=traf.end)
    form = ">Q" if data[time.content] == 1 else ">I"
    return int(struct.unpack_from(form, data, time.content + 4)[0])


def _fragment(data: bytes, moof: Box, traf: Box, samples: list[Sample], place: int, decoded: int) -> Fragment:
    header = find(data, b"mfhd", start=moof.content, end=moof.end)
    return Fragment(
        place=moof.start,
        reach=place + samples[0].size - moof.start,
        sequence=struct.unpack_from(">I", data, header.content + 4)[0] if header else 0,
        decoded=decoded,
        duration=sum(sample.duration for sample in samples),
        tracks=sum(box.kind == b"traf" for box in boxes(data, moof.content, moof.end)),
        is_based=_is_based(data, traf),
        has_negative=any(sample.offset < 0 for sample in samples),
    )
