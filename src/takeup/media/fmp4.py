"""Fragmented MP4: reads and re-stamps the boxes that a stream is made of.

A piece that was encoded alone starts at time zero with fragment number one. Joined, every fragment gets its
absolute time and its place; the pictures in it are not touched.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from takeup.media.errors import MediaError

HEADER, LARGE_HEADER = 8, 16
TRUN_OFFSET, TRUN_FIRST_FLAGS, TRUN_DURATION, TRUN_SIZE, TRUN_FLAGS, TRUN_CTS = (
    0x1,
    0x4,
    0x100,
    0x200,
    0x400,
    0x800,
)
TFHD_BASE, TFHD_DESCRIPTION, TFHD_DURATION, TFHD_SIZE, TFHD_FLAGS = 0x1, 0x2, 0x8, 0x10, 0x20
NOT_SYNC = 0x10000


@dataclass(frozen=True, slots=True)
class Box:
    """One box: where it stands and where its content does."""

    kind: bytes
    start: int
    content: int
    end: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """A `moof` with its `mdat`, and what is in it."""

    data: bytes
    count: int
    duration: int
    """In ticks of the track."""
    base_time: int
    delay: int
    """How long after its base time its first picture is shown."""
    starts_with_key: bool
    first_end: int
    """Where the first picture ends in the data: a player that only wants key frames reads no further."""


class Sample(NamedTuple):
    """One picture, or one packet of sound."""

    duration: int
    size: int
    flags: int
    offset: int
    """From when it is decoded to when it is shown."""


@dataclass(frozen=True, slots=True)
class Movie:
    """A fragmented file of one track."""

    init: bytes
    timescale: int
    fragments: tuple[Fragment, ...]

    @property
    def count(self) -> int:
        """How many samples there are."""
        return sum(fragment.count for fragment in self.fragments)


def boxes(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Box]:
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


def find(data: bytes, *path: bytes, start: int = 0, end: int | None = None) -> Box | None:
    """The first box at the end of this path."""
    for box in boxes(data, start, end):
        if box.kind == path[0]:
            if len(path) == 1:
                return box
            if (found := find(data, *path[1:], start=box.content, end=box.end)) is not None:
                return found
    return None


def need(data: bytes, *path: bytes, start: int = 0, end: int | None = None) -> Box:
    """The same, where there must be one."""
    found = find(data, *path, start=start, end=end)
    if found is None:
        raise MediaError(f"the box {b'/'.join(path).decode('ascii', 'replace')} is missing")
    return found


def read(data: bytes) -> Movie:
    """A whole fragmented file of one track."""
    init = b""
    fragments: list[Fragment] = []
    moof: Box | None = None
    for box in boxes(data):
        if box.kind in (b"ftyp", b"moov"):
            init += data[box.start : box.end]
        elif box.kind == b"moof":
            moof = box
        elif box.kind == b"mdat" and moof is not None:
            fragments.append(_fragment(data[moof.start : moof.end], data[box.start : box.end]))
            moof = None
    header = need(init, b"moov", b"trak", b"mdia", b"mdhd")
    place = header.content + (20 if init[header.content] == 1 else 12)
    (timescale,) = struct.unpack_from(">I", init, place)
    return Movie(init, timescale, tuple(fragments))


def samples_of(data: bytes) -> int:
    """How many samples a fragmented file has."""
    return read(data).count


def restamp(fragment: Fragment, sequence: int, base_time: int, *, earlier: int = 0) -> bytes:
    """The fragment at its place in the whole: its number and its absolute time.

    Every picture is shown `earlier` than the encoder said: it delays all of them so that none is shown before
    it is decoded, and a stream starts at zero.
    """
    data = bytearray(fragment.data)
    if earlier:
        _show_earlier(data, need(fragment.data, b"moof", b"traf", b"trun"), earlier)
    number = need(fragment.data, b"moof", b"mfhd")
    struct.pack_into(">I", data, number.content + 4, sequence)
    time = need(fragment.data, b"moof", b"traf", b"tfdt")
    if fragment.data[time.content] == 1:
        struct.pack_into(">Q", data, time.content + 4, base_time)
    elif base_time < 1 << 32:
        struct.pack_into(">I", data, time.content + 4, base_time)
    else:
        raise MediaError("the time of a fragment does not fit into its box")
    return bytes(data)


def _show_earlier(data: bytearray, run: Box, ticks: int) -> None:
    """Take so much from the offset of every sample; version 1 of the box lets offsets be negative."""
    flags = int.from_bytes(data[run.content + 1 : run.content + 4])
    if not flags & TRUN_CTS:
        raise MediaError("a fragment has no offsets that could be made smaller")
    (count,) = struct.unpack_from(">I", data, run.content + 4)
    data[run.content] = 1
    place = run.content + 8 + 4 * (bool(flags & TRUN_OFFSET) + bool(flags & TRUN_FIRST_FLAGS))
    before = 4 * sum(bool(flags & flag) for flag in (TRUN_DURATION, TRUN_SIZE, TRUN_FLAGS))
    for number in range(count):
        at = place + number * (before + 4) + before
        struct.pack_into(">i", data, at, struct.unpack_from(">i", data, at)[0] - ticks)


def _fragment(moof: bytes, mdat: bytes) -> Fragment:
    track = need(moof, b"moof", b"traf")
    duration, size, flags = _defaults(moof, need(moof, b"tfhd", start=track.content, end=track.end))
    time = need(moof, b"tfdt", start=track.content, end=track.end)
    base_time = struct.unpack_from(">Q" if moof[time.content] == 1 else ">I", moof, time.content + 4)[0]
    run = need(moof, b"trun", start=track.content, end=track.end)
    samples = list(_samples(moof, run, (duration, size, flags)))
    if not samples:
        raise MediaError("a fragment is empty")
    return Fragment(
        data=moof + mdat,
        count=len(samples),
        duration=sum(sample.duration for sample in samples),
        base_time=base_time,
        delay=_first_shown(samples),
        starts_with_key=not samples[0].flags & NOT_SYNC,
        first_end=len(moof) + HEADER + samples[0].size,
    )


def _first_shown(samples: "list[Sample]") -> int:
    """When the first picture is shown, counted from when the first is decoded."""
    decoded, shown = 0, []
    for sample in samples:
        shown.append(decoded + sample.offset)
        decoded += sample.duration
    return min(shown)


def _defaults(moof: bytes, header: Box) -> tuple[int, int, int]:
    flags = int.from_bytes(moof[header.content + 1 : header.content + 4])
    place = header.content + 8
    place += (8 if flags & TFHD_BASE else 0) + (4 if flags & TFHD_DESCRIPTION else 0)
    values = []
    for flag in (TFHD_DURATION, TFHD_SIZE, TFHD_FLAGS):
        values.append(struct.unpack_from(">I", moof, place)[0] if flags & flag else 0)
        place += 4 if flags & flag else 0
    return values[0], values[1], values[2]


def _samples(moof: bytes, run: Box, defaults: tuple[int, int, int]) -> "Iterator[Sample]":
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
