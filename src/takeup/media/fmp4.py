"""Fragmented MP4: reads what an encoder wrote, and writes it anew at its place in the whole.

A piece that was encoded alone starts at time zero with fragment number one. Joined, every fragment gets its
absolute time and its number, in boxes of one shape; the pictures in it are not touched.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import NamedTuple

from takeup.media.errors import MediaError

HEADER, LARGE_HEADER = 8, 16
TRUN_OFFSET, TRUN_FIRST_FLAGS, TRUN_DURATION, TRUN_SIZE, TRUN_FLAGS, TRUN_CTS = (
    0x1, 0x4, 0x100, 0x200, 0x400, 0x800,
)  # fmt: skip
TFHD_BASE, TFHD_DESCRIPTION, TFHD_DURATION, TFHD_SIZE, TFHD_FLAGS, TFHD_MOOF = (
    0x1, 0x2, 0x8, 0x10, 0x20, 0x20000,
)  # fmt: skip
NOT_SYNC = 0x10000
TRACK = 1

Data = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Box:
    """One box: where it stands and where its content does."""

    kind: bytes
    start: int
    content: int
    end: int


class Sample(NamedTuple):
    """One picture, or one packet of sound."""

    duration: int
    size: int
    flags: int
    offset: int
    """From when it is decoded to when it is shown."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """Some samples that follow each other; times are in ticks of the track."""

    samples: tuple[Sample, ...]
    data: Data

    @property
    def duration(self) -> int:
        """How long all of them last."""
        return sum(sample.duration for sample in self.samples)

    @property
    def starts_with_key(self) -> bool:
        """Whether decoding can begin here."""
        return not self.samples[0].flags & NOT_SYNC

    @property
    def delay(self) -> int:
        """From when the first is decoded to when the first is shown."""
        decoded, shown = 0, []
        for sample in self.samples:
            shown.append(decoded + sample.offset)
            decoded += sample.duration
        return min(shown)


@dataclass(frozen=True, slots=True)
class Movie:
    """A fragmented file of one track."""

    init: bytes
    timescale: int
    fragments: tuple[Fragment, ...]

    @property
    def count(self) -> int:
        """How many samples there are."""
        return sum(len(fragment.samples) for fragment in self.fragments)

    @property
    def keys(self) -> list[int]:
        """The numbers of the samples at which decoding can begin."""
        samples = (sample for fragment in self.fragments for sample in fragment.samples)
        return [number for number, sample in enumerate(samples) if not sample.flags & NOT_SYNC]


def boxes(data: Data, start: int = 0, end: int | None = None) -> Iterator[Box]:
    """The boxes one after the other; a length that makes no sense is an error."""
    end = len(data) if end is None else end
    while start < end:
        if end - start < HEADER:
            raise MediaError(f"a box is cut off at byte {start}")
        size, kind = struct.unpack_from(">I4s", data, start)
        header = HEADER
        if size == 1:
            if end - start < LARGE_HEADER:
                raise MediaError(f"a box is cut off at byte {start}")
            (size,) = struct.unpack_from(">Q", data, start + HEADER)
            header = LARGE_HEADER
        elif size == 0:
            size = end - start
        if size < header or start + size > end:
            raise MediaError(f"the box {kind!r} at byte {start} has an impossible length of {size}")
        yield Box(kind, start, start + header, start + size)
        start += size


def find(data: Data, *path: bytes, start: int = 0, end: int | None = None) -> Box | None:
    """The first box at the end of this path."""
    for box in boxes(data, start, end):
        if box.kind == path[0]:
            if len(path) == 1:
                return box
            if (found := find(data, *path[1:], start=box.content, end=box.end)) is not None:
                return found
    return None


def need(data: Data, *path: bytes, start: int = 0, end: int | None = None) -> Box:
    """The same, where there must be one."""
    found = find(data, *path, start=start, end=end)
    if found is None:
        raise MediaError(f"the box {b'/'.join(path).decode('ascii', 'replace')} is missing")
    return found


def read(data: Data) -> Movie:
    """A whole fragmented file of one track."""
    init = b""
    fragments: list[Fragment] = []
    moof: Box | None = None
    for box in boxes(data):
        if box.kind in (b"ftyp", b"moov"):
            init += bytes(data[box.start : box.end])
        elif box.kind == b"moof":
            moof = box
        elif box.kind == b"mdat" and moof is not None:
            fragments.append(_fragment(data[moof.start : moof.end], data[box.content : box.end]))
            moof = None
    header = need(init, b"moov", b"trak", b"mdia", b"mdhd")
    place = header.content + (20 if init[header.content : header.content + 1] == b"\x01" else 12)
    if place + 4 > header.end:
        raise MediaError("the track does not say how it counts time")
    (timescale,) = struct.unpack_from(">I", init, place)
    return Movie(init, timescale, tuple(fragments))


def load(file: Path) -> Movie:
    """The same of a file, which is not read as a whole: a film has more bytes than a machine has memory."""
    try:
        with file.open("rb") as opened:
            return read(memoryview(mmap(opened.fileno(), 0, access=ACCESS_READ)))
    except (OSError, ValueError) as error:
        raise MediaError(f"{file.name} cannot be read: {error}") from error


def write(fragment: Fragment, sequence: int, base_time: int, *, later: int = 0) -> bytes:
    """The fragment at its place in the whole; every picture is shown so much later than the encoder said."""
    fields = struct.Struct(">IIIi")
    samples = b"".join(
        fields.pack(sample.duration, sample.size, sample.flags, sample.offset + later)
        for sample in fragment.samples
    )
    moof = b""
    for data_offset in (0, HEADER):  # the second time its own length is known
        run = struct.pack(">Ii", len(fragment.samples), len(moof) + data_offset)
        track = _full(b"tfhd", 0, TFHD_MOOF, struct.pack(">I", TRACK))
        track += _full(b"tfdt", 1, 0, struct.pack(">Q", base_time))
        track += _full(
            b"trun", 1, TRUN_OFFSET | TRUN_DURATION | TRUN_SIZE | TRUN_FLAGS | TRUN_CTS, run + samples
        )
        moof = _box(b"moof", _full(b"mfhd", 0, 0, struct.pack(">I", sequence)) + _box(b"traf", track))
    return moof + _box(b"mdat", fragment.data)


def _box(kind: bytes, content: Data) -> bytes:
    return struct.pack(">I4s", HEADER + len(content), kind) + content


def _full(kind: bytes, version: int, flags: int, content: bytes) -> bytes:
    return _box(kind, struct.pack(">I", version << 24 | flags) + content)


def _fragment(moof: Data, data: Data) -> Fragment:
    samples = samples_of(moof, need(moof, b"moof", b"traf"))
    if not samples or sum(sample.size for sample in samples) != len(data):
        raise MediaError("a fragment does not hold what it lists")
    return Fragment(tuple(samples), data)


def samples_of(moof: Data, track: Box, defaults: Sequence[int] = (0, 0, 0)) -> list[Sample]:
    """The samples that a `traf` box lists; `defaults` are duration, size and flags from the header."""
    try:
        told = _defaults(moof, need(moof, b"tfhd", start=track.content, end=track.end), defaults)
        runs = [box for box in boxes(moof, track.content, track.end) if box.kind == b"trun"]
        return [sample for run in runs for sample in _samples(moof, run, told)]
    except struct.error as error:
        raise MediaError(f"a fragment is cut off: {error}") from error


def _defaults(moof: Data, header: Box, defaults: Sequence[int]) -> list[int]:
    flags = int.from_bytes(moof[header.content + 1 : header.content + 4])
    place = header.content + 8
    place += (8 if flags & TFHD_BASE else 0) + (4 if flags & TFHD_DESCRIPTION else 0)
    values = []
    for flag, default in zip((TFHD_DURATION, TFHD_SIZE, TFHD_FLAGS), defaults, strict=True):
        values.append(struct.unpack_from(">I", moof, place)[0] if flags & flag else default)
        place += 4 if flags & flag else 0
    return values


def _samples(moof: Data, run: Box, defaults: Sequence[int]) -> Iterator[Sample]:
    """Each sample of a run."""
    flags = int.from_bytes(moof[run.content + 1 : run.content + 4])
    (count,) = struct.unpack_from(">I", moof, run.content + 4)
    place = run.content + 8 + (4 if flags & TRUN_OFFSET else 0)
    first_flags = None
    if flags & TRUN_FIRST_FLAGS:
        (first_flags,) = struct.unpack_from(">I", moof, place)
        place += 4
    width = 4 * sum(bool(flags & flag) for flag in (TRUN_DURATION, TRUN_SIZE, TRUN_FLAGS, TRUN_CTS))
    if count * width > run.end - place:
        raise MediaError("a fragment lists more samples than it has room for")
    for number in range(count):
        values = []
        for flag, default in zip((TRUN_DURATION, TRUN_SIZE, TRUN_FLAGS), defaults, strict=True):
            values.append(struct.unpack_from(">I", moof, place)[0] if flags & flag else default)
            place += 4 if flags & flag else 0
        offset = struct.unpack_from(">i", moof, place)[0] if flags & TRUN_CTS else 0
        place += 4 if flags & TRUN_CTS else 0
        if number == 0 and first_flags is not None:
            values[2] = first_flags
        yield Sample(values[0], values[1], values[2], offset)
