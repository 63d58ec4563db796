"""What the header of a track says, read from its boxes.

The name of a codec is put together here once more, not by what wrote the playlists: a mistake there must not
be confirmed by itself.
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass

from takeup.media.errors import MediaError
from takeup.media.fmp4 import Box, boxes, find, need

PICTURE_ENTRY, SOUND_ENTRY = 78, 28
"""What stands in a sample entry before its boxes."""
KINDS = {b"vide": "picture", b"soun": "sound", b"text": "text", b"subt": "text", b"sbtl": "text"}


@dataclass(frozen=True, slots=True)
class Header:
    """The first track of a header, and how many there are."""

    tracks: int
    kind: str
    timescale: int
    entry: str
    """The four letters of its sample entry."""
    codec: str
    codec_full: str
    """The same with all that may be left out, where there is more."""
    width: int
    height: int
    channels: int
    edit: int | None
    """The tick of the media at which it begins, by its edit list; None without one."""
    delay_s: float
    """How long an empty edit puts it off."""
    length_bytes: int
    """How many bytes the length of a unit in a sample has."""
    defaults: tuple[int, int, int]
    """Duration, size and flags of samples whose fragments do not say."""
    colour: tuple[int, int, int, int] | None
    """Primaries, transfer, matrix and whether the range is full, as H.273 numbers them."""
    max_rate: int
    """Bits a second that it never exceeds for long, and the bytes of the buffer that makes up for it."""
    buffer_bytes: int
    hash: str


def read_header(data: bytes) -> Header:
    """The header at the start of some file."""
    try:
        return _header(data)
    except (struct.error, IndexError) as error:
        raise MediaError(f"the header is cut off: {error}") from error


def _header(data: bytes) -> Header:
    moov = need(data, b"moov")
    tracks = [box for box in boxes(data, moov.content, moov.end) if box.kind == b"trak"]
    if not tracks:
        raise MediaError("the header has no track")
    track = tracks[0]
    media = need(data, b"mdia", start=track.content, end=track.end)
    timing = need(data, b"mdhd", start=media.content, end=media.end)
    handler = need(data, b"hdlr", start=media.content, end=media.end)
    table = need(data, b"minf", b"stbl", b"stsd", start=media.content, end=media.end)
    entry = next(boxes(data, table.content + 8, table.end), None)
    if entry is None:
        raise MediaError("the track does not say what it holds")
    (timescale,) = struct.unpack_from(">I", data, timing.content + (20 if data[timing.content] else 12))
    kind = KINDS.get(data[handler.content + 8 : handler.content + 12], "other")
    width, height = struct.unpack_from(">HH", data, entry.content + 24) if kind == "picture" else (0, 0)
    (channels,) = struct.unpack_from(">H", data, entry.content + 16) if kind == "sound" else (0,)
    edit, delay_s = _edits(data, track, moov)
    inner = entry.content + (PICTURE_ENTRY if kind == "picture" else SOUND_ENTRY)
    colour = _colour(data, entry) if kind == "picture" else None
    codec = _codec(data, entry, inner) if kind in ("picture", "sound") else ""
    buffer_bytes, max_rate = _buffer(data, entry, inner) if codec else (0, 0)
    if timescale < 1:
        raise MediaError("the track does not say how it counts time")
    return Header(
        tracks=len(tracks),
        kind=kind,
        timescale=timescale,
        entry=entry.kind.decode("ascii", "replace"),
        codec=codec,
        codec_full=codec + (_av1_more(data, entry, inner, colour) if entry.kind == b"av01" else ""),
        width=width,
        height=height,
        channels=channels,
        edit=edit,
        delay_s=delay_s,
        length_bytes=_length_bytes(data, entry, inner),
        defaults=_defaults(data, moov),
        colour=colour,
        max_rate=max_rate,
        buffer_bytes=buffer_bytes,
        hash=hashlib.sha256(data).hexdigest(),
    )


def _edits(data: bytes, track: Box, moov: Box) -> tuple[int | None, float]:
    """Where the media begins, and how long nothing is shown before."""
    table = find(data, b"edts", b"elst", start=track.content, end=track.end)
    if table is None:
        return None, 0.0
    mvhd = need(data, b"mvhd", start=moov.content, end=moov.end)
    (scale,) = struct.unpack_from(">I", data, mvhd.content + (20 if data[mvhd.content] else 12))
    wide = data[table.content] == 1
    (count,) = struct.unpack_from(">I", data, table.content + 4)
    form, size = (">Qq", 20) if wide else (">Ii", 12)
    delay_s = 0.0
    for number in range(min(count, (table.end - table.content - 8) // size)):
        length, start = struct.unpack_from(form, data, table.content + 8 + number * size)
        if start >= 0:
            return start, delay_s
        delay_s += length / max(scale, 1)
    return None, delay_s


def _defaults(data: bytes, moov: Box) -> tuple[int, int, int]:
    found = find(data, b"mvex", b"trex", start=moov.content, end=moov.end)
    if found is None:
        return 0, 0, 0
    duration, size, flags = struct.unpack_from(">III", data, found.content + 12)
    return duration, size, flags


def _length_bytes(data: bytes, entry: Box, inner: int) -> int:
    for name, place in ((b"avcC", 4), (b"hvcC", 21)):
        if entry.end > inner and (found := find(data, name, start=inner, end=entry.end)):
            return int(data[found.content + place] & 3) + 1
    return 0


def _colour(data: bytes, entry: Box) -> tuple[int, int, int, int] | None:
    found = find(data, b"colr", start=entry.content + PICTURE_ENTRY, end=entry.end)
    if found is None or data[found.content : found.content + 4] != b"nclx":
        return None
    primaries, transfer, matrix, last = struct.unpack_from(">HHHB", data, found.content + 4)
    return primaries, transfer, matrix, last >> 7


def _buffer(data: bytes, entry: Box, inner: int) -> tuple[int, int]:
    """The size of the buffer and the highest rate, if the encoder told them."""
    found = find(data, b"btrt", start=inner, end=entry.end)
    if found is None:
        return 0, 0
    size, rate = struct.unpack_from(">II", data, found.content)
    return size, rate


def _codec(data: bytes, entry: Box, inner: int) -> str:
    """The codec as RFC 6381 and its followers write it; only four letters where we know no more."""
    name = entry.kind.decode("ascii", "replace")
    ways: dict[str, tuple[bytes, Callable[[bytes], str]]] = {
        "avc1": (b"avcC", _avc), "avc3": (b"avcC", _avc), "hvc1": (b"hvcC", _hevc), "hev1": (b"hvcC", _hevc),
        "av01": (b"av1C", _av1), "vp09": (b"vpcC", _vp9), "mp4a": (b"esds", _mp4a),
    }  # fmt: skip
    if name not in ways:
        return {"Opus": "opus", "fLaC": "flac"}.get(name, name)
    box, describe = ways[name]
    found = need(data, box, start=inner, end=entry.end)
    return f"{name}.{describe(data[found.content : found.end])}"


def _avc(record: bytes) -> str:
    return record[1:4].hex()


def _hevc(record: bytes) -> str:
    space = ("", "A", "B", "C")[record[1] >> 6]
    tier = "H" if record[1] & 0x20 else "L"
    fits = int(f"{int.from_bytes(record[2:6]):032b}"[::-1], 2)
    limits = record[6:12].rstrip(b"\0")
    return ".".join(
        [f"{space}{record[1] & 0x1F}", f"{fits:x}", f"{tier}{record[12]}", *(f"{byte:x}" for byte in limits)]
    )


def _av1(record: bytes) -> str:
    profile, level = record[1] >> 5, record[1] & 0x1F
    tier = "H" if record[2] & 0x80 else "M"
    is_high, is_twelve = bool(record[2] & 0x40), bool(record[2] & 0x20)
    depth = 12 if is_twelve else 10 if is_high else 8
    return f"{profile}.{level:02d}{tier}.{depth:02d}"


def _av1_more(data: bytes, entry: Box, inner: int, colour: tuple[int, int, int, int] | None) -> str:
    """What may follow in the name: grey or not, how colours are sampled, and which they are."""
    flags = data[need(data, b"av1C", start=inner, end=entry.end).content + 2]
    is_grey, wide, high, place = flags >> 4 & 1, flags >> 3 & 1, flags >> 2 & 1, flags & 3
    primaries, transfer, matrix, is_full = colour or (1, 1, 1, 0)
    return f".{is_grey}.{wide}{high}{place}.{primaries:02d}.{transfer:02d}.{matrix:02d}.{is_full}"


def _vp9(record: bytes) -> str:
    return f"{record[4]:02d}.{record[5]:02d}.{record[6] >> 4:02d}"


def _mp4a(record: bytes) -> str:
    """What the descriptors, one in the other, say: the kind of stream, and the kind of AAC."""
    place = _inside(record, 4, 3) + 3
    place = _inside(record, place, 4)
    kind = record[place]
    if kind != 0x40:  # noqa: PLR2004 - MPEG-4 audio; the others have no second number
        return f"{kind:x}"
    place = _inside(record, place + 13, 5)
    object_type = record[place] >> 3
    if object_type == 31:  # noqa: PLR2004 - the escape to larger numbers
        object_type = 32 + ((record[place] & 7) << 3 | record[place + 1] >> 5)
    return f"{kind:x}.{object_type}"


def _inside(record: bytes, place: int, tag: int) -> int:
    if record[place] != tag:
        raise MediaError("the track describes its sound in a way that makes no sense")
    place += 1
    while record[place] & 0x80:
        place += 1
    return place + 1
