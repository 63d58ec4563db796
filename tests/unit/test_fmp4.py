"""Boxes: what is read is what is there, what is written anew keeps its pictures, and junk is an error."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeup.media import codecs, fmp4
from takeup.media.errors import MediaError
from takeup.media.fmp4 import Fragment, Sample

KEY, NOT_KEY = 0x02000000, 0x01010000


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


def fragment(sizes: list[int], offsets: list[int]) -> bytes:
    """Samples of 1001 ticks as an encoder writes them; the first is a key."""
    run = full(
        b"trun", 0, 0x1 | 0x4 | 0x200 | 0x800, number(len(sizes), 0, KEY),
        *(number(size, offset) for size, offset in zip(sizes, offsets, strict=True)),
    )  # fmt: skip
    track = box(
        b"traf",
        full(b"tfhd", 0, 0x020028, number(1, 1001, NOT_KEY)),
        full(b"tfdt", 1, 0, struct.pack(">Q", 7)),
        run,
    )
    return box(b"moof", full(b"mfhd", 0, 0, number(1)), track) + box(b"mdat", bytes(range(sum(sizes))))


SOME = fragment([50, 10, 20], [2002, 3003, 1001])


def test_a_movie_is_read():
    movie = fmp4.read(INIT + SOME + box(b"free") + SOME)
    assert (movie.init, movie.timescale, movie.count) == (INIT, 30_000, 6)
    found = movie.fragments[0]
    assert found.samples == (
        Sample(1001, 50, KEY, 2002),
        Sample(1001, 10, NOT_KEY, 3003),
        Sample(1001, 20, NOT_KEY, 1001),
    )
    assert (found.data, found.duration, found.delay) == (bytes(range(80)), 3003, 2002)
    assert found.starts_with_key


def test_a_fragment_is_written_at_its_place():
    (found,) = fmp4.read(INIT + SOME).fragments
    written = fmp4.write(found, 42, 1 << 40, later=-2002)
    (again,) = fmp4.read(INIT + written).fragments
    assert again.data == found.data
    assert [s[:3] for s in again.samples] == [s[:3] for s in found.samples]
    assert (again.delay, again.samples[2].offset) == (0, -1001)
    assert struct.pack(">I", 42) in written
    assert struct.pack(">Q", 1 << 40) in written
    run = fmp4.need(written, b"moof", b"traf", b"trun")
    (offset,) = struct.unpack_from(">i", written, run.content + 8)
    assert written[offset : offset + 80] == found.data, "counted from the start of the fragment"


@given(
    st.lists(
        st.tuples(
            st.integers(1, 2**31), st.integers(0, 40), st.sampled_from([KEY, NOT_KEY]), st.integers(-999, 999)
        ),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 2**32 - 1),
    st.integers(0, 2**63),
)
def test_what_is_written_is_read(samples, sequence, base_time):
    made = Fragment(tuple(Sample(*s) for s in samples), bytes(sum(s[1] for s in samples)))
    assert fmp4.read(INIT + fmp4.write(made, sequence, base_time)).fragments == (made,)


def test_codecs_are_read_from_the_boxes():
    def init(entry: bytes) -> bytes:
        table = full(b"stsd", 0, 0, number(1), entry)
        return box(b"moov", box(b"trak", box(b"mdia", box(b"minf", box(b"stbl", table)))))

    assert (
        codecs.codec_of(init(box(b"avc1", bytes(78), box(b"avcC", b"\x01\x64\x00\x1f\xff")))) == "avc1.64001f"
    )
    config = b"\x04\x80\x80\x80\x12\x40" + bytes(12) + b"\x05\x80\x80\x80\x02\x12\x10"
    sound = box(b"mp4a", bytes(28), full(b"esds", 0, 0, b"\x03\x19\x00\x01\x00" + config))
    assert codecs.codec_of(init(sound)) == "mp4a.40.2"
    for junk in (
        box(b"xxxx"),
        box(b"avc1", bytes(78)),
        box(b"mp4a", bytes(28), full(b"esds", 0, 0, b"\x09")),
    ):
        with pytest.raises(MediaError):
            codecs.codec_of(init(junk))


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
