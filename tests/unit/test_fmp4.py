"""Boxes: what is read is what is there, what is re-stamped keeps its pictures, and junk is an error."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeup.media import fmp4
from takeup.media.errors import MediaError

NOT_KEY = 0x01010000


def box(kind: bytes, *content: bytes) -> bytes:
    body = b"".join(content)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def full(kind: bytes, version: int, flags: int, *content: bytes) -> bytes:
    return box(kind, struct.pack(">I", version << 24 | flags), *content)


def number(*values: int) -> bytes:
    return struct.pack(f">{len(values)}i", *values)


INIT = box(b"ftyp", b"iso6") + box(
    b"moov", box(b"trak", box(b"mdia", full(b"mdhd", 0, 0, number(0, 0, 30_000, 0, 0))))
)


def fragment(sizes: list[int], offsets: list[int], *, version: int = 1) -> bytes:
    """Samples of 1001 ticks; the first is a key."""
    time = struct.pack(">Q", 7) if version else number(7)
    run = full(
        b"trun", 0, 0x1 | 0x4 | 0x200 | 0x800, number(len(sizes), 0, 0x02000000),
        *(number(size, offset) for size, offset in zip(sizes, offsets, strict=True)),
    )  # fmt: skip
    track = box(
        b"traf", full(b"tfhd", 0, 0x020028, number(1, 1001, NOT_KEY)), full(b"tfdt", version, 0, time), run
    )
    return box(b"moof", full(b"mfhd", 0, 0, number(1)), track) + box(b"mdat", bytes(sum(sizes)))


SOME = fragment([50, 10, 20], [2002, 3003, 1001])


def test_a_movie_is_read():
    movie = fmp4.read(INIT + SOME + box(b"free") + SOME)
    assert (movie.init, movie.timescale, movie.count) == (INIT, 30_000, 6)
    found = movie.fragments[0]
    assert (found.data, found.count, found.duration, found.base_time) == (SOME, 3, 3003, 7)
    assert (found.delay, found.starts_with_key) == (2002, True)
    assert found.data[found.first_end :] == bytes(30)


@pytest.mark.parametrize("version", [0, 1])
def test_a_fragment_gets_its_place(version: int):
    (found,) = fmp4.read(INIT + fragment([5, 5], [0, 0], version=version)).fragments
    (moved,) = fmp4.read(INIT + fmp4.restamp(found, 42, 90_000)).fragments
    assert moved.base_time == 90_000
    at = fmp4.need(moved.data, b"moof", b"mfhd").content
    assert moved.data[at + 4 : at + 8] == number(42)
    assert len(moved.data) == len(found.data)
    if version == 0:
        with pytest.raises(MediaError, match="does not fit"):
            fmp4.restamp(found, 1, 1 << 40)


def test_a_stream_starts_at_zero():
    (found,) = fmp4.read(INIT + SOME).fragments
    (moved,) = fmp4.read(INIT + fmp4.restamp(found, 1, 0, earlier=found.delay)).fragments
    assert moved.delay == 0
    assert moved.data[-80:] == found.data[-80:]


@given(st.binary(max_size=300))
def test_junk_is_an_error_and_nothing_worse(junk: bytes):
    with pytest.raises(MediaError):
        fmp4.read(junk)


@given(st.data())
def test_a_damaged_file_is_an_error_or_still_a_movie(data: st.DataObject):
    whole = bytearray(INIT + SOME)
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for damaged in (bytes(whole), bytes(whole[:cut])):
        with contextlib.suppress(MediaError):
            assert fmp4.read(damaged).count >= 0
