"""The codec of a track as playlists name it (RFC 6381), from its boxes and nothing else."""

from collections.abc import Callable
from dataclasses import dataclass

from takeup.media.errors import MediaError
from takeup.media.fmp4 import Box, boxes, find, need

PICTURE_ENTRY, SOUND_ENTRY = 78, 28
"""What stands in a sample entry before its boxes."""
QUICKTIME_EXTRA = {1: 16, 2: 36}
"""How much longer the sample entry of a sound is in these versions."""
ES_DESCRIPTOR, DECODER_CONFIG, DECODER_SPECIFIC = 3, 4, 5
ES_BYTES, CONFIG_BYTES = 3, 13
ES_DEPENDS, ES_URL, ES_OCR = 0x80, 0x40, 0x20
MPEG4_SOUND, LONG_OBJECT_TYPE = 0x40, 31
HEVC_SPACES = ("", "A", "B", "C")
PQ, HLG = 16, 18
NCLX_BYTES = 11


@dataclass(frozen=True, slots=True)
class Colours:
    """How the numbers of a picture are to be read, as the numbers of a standard (ITU-T H.273)."""

    primaries: int
    transfer: int
    matrix: int
    is_full: bool

    @property
    def video_range(self) -> str:
        """As playlists name it."""
        return {PQ: "PQ", HLG: "HLG"}.get(self.transfer, "SDR")


def codec_of(init: bytes) -> str:
    """The name of the first track's codec."""
    entry = entry_of(init)
    kind = entry.kind.decode("ascii", "replace")
    if kind not in NAMES:
        raise MediaError(f"the codec {kind!r} is not known")
    try:
        return NAMES[kind](init, entry, kind)
    except IndexError as error:
        raise MediaError(f"the track describes its codec {kind!r} in a way that makes no sense") from error


def entry_of(init: bytes) -> Box:
    """The first sample entry: what the track holds."""
    table = need(init, b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd")
    entry = next(boxes(init, table.content + 8, table.end), None)
    if entry is None:
        raise MediaError("the track does not say what it holds")
    return entry


def colours_of(init: bytes) -> Colours | None:
    """The colours of a picture track, if it has a box that says them."""
    entry = entry_of(init)
    found = find(init, b"colr", start=entry.content + PICTURE_ENTRY, end=entry.end)
    record = init[found.content : found.end] if found else b""
    if record[:4] != b"nclx" or len(record) < NCLX_BYTES:
        return None
    primaries, transfer, matrix = (int.from_bytes(record[at : at + 2]) for at in (4, 6, 8))
    return Colours(primaries, transfer, matrix, bool(record[10] >> 7))


def _avc(init: bytes, entry: Box, kind: str) -> str:
    record = _record(init, entry, b"avcC", PICTURE_ENTRY)
    return f"{kind}.{record[1]:02x}{record[2]:02x}{record[3]:02x}"


def _hevc(init: bytes, entry: Box, kind: str) -> str:
    """Profile, what it is compatible with (bits from behind), tier and level, limits up to the last one."""
    record = _record(init, entry, b"hvcC", PICTURE_ENTRY)
    space, tier, profile = record[1] >> 6, record[1] >> 5 & 1, record[1] & 31
    compatible = int(f"{int.from_bytes(record[2:6]):032b}"[::-1], 2)
    limits = record[6:12].rstrip(b"\0")
    parts = [kind, f"{HEVC_SPACES[space]}{profile}", f"{compatible:X}", f"{'LH'[tier]}{record[12]}"]
    return ".".join([*parts, *(f"{byte:X}" for byte in limits)])


def _av1(init: bytes, entry: Box, kind: str) -> str:
    """Profile, level, tier and depth, and the colours where they are not the usual ones."""
    record = _record(init, entry, b"av1C", PICTURE_ENTRY)
    profile, level, flags = record[1] >> 5, record[1] & 31, record[2]
    high_depth, twelve, mono = flags >> 6 & 1, flags >> 5 & 1, flags >> 4 & 1
    depth = 12 if high_depth and twelve else 10 if high_depth else 8
    name = f"{kind}.{profile}.{level:02d}{'MH'[flags >> 7]}.{depth:02d}"
    colours = colours_of(init) or PLAIN
    if not mono and colours == PLAIN:
        return name
    layout = f"{flags >> 3 & 1}{flags >> 2 & 1}{flags & 3}"
    numbers = f"{colours.primaries:02d}.{colours.transfer:02d}.{colours.matrix:02d}.{colours.is_full:d}"
    return f"{name}.{mono}.{layout}.{numbers}"


def _mp4a(init: bytes, entry: Box, _kind: str) -> str:
    """The kind of stream, and for MPEG-4 sound the kind of AAC, from the nested descriptors of `esds`."""
    data = _record(init, entry, b"esds", _sound_entry(init, entry))[4:]
    place = _enter(data, 0, ES_DESCRIPTOR)
    flags, place = data[place + 2], place + ES_BYTES
    place += (2 if flags & ES_DEPENDS else 0) + (2 if flags & ES_OCR else 0)
    place += 1 + data[place] if flags & ES_URL else 0
    place = _enter(data, place, DECODER_CONFIG)
    kind = data[place]
    if kind != MPEG4_SOUND:
        return f"mp4a.{kind:02x}"
    place = _enter(data, place + CONFIG_BYTES, DECODER_SPECIFIC)
    object_type = data[place] >> 3
    if object_type == LONG_OBJECT_TYPE:
        object_type = 32 + ((data[place] & 7) << 3 | data[place + 1] >> 5)
    return f"mp4a.{kind:02x}.{object_type}"


def _plain(_init: bytes, _entry: Box, kind: str) -> str:
    """A codec that has one name only."""
    return kind


def _record(init: bytes, entry: Box, kind: bytes, skip: int) -> bytes:
    found = need(init, kind, start=entry.content + skip, end=entry.end)
    return init[found.content : found.end]


def _sound_entry(init: bytes, entry: Box) -> int:
    version = int.from_bytes(init[entry.content + 8 : entry.content + 10])
    return SOUND_ENTRY + QUICKTIME_EXTRA.get(version, 0)


def _enter(data: bytes, place: int, tag: int) -> int:
    """Step over the tag of a descriptor and its length, which has up to four bytes."""
    if data[place] != tag:
        raise MediaError("the track describes its sound in a way that makes no sense")
    place += 1
    while data[place] & 0x80:
        place += 1
    return place + 1


PLAIN = Colours(1, 1, 1, is_full=False)
"""BT.709 in the usual range: what a name without colours means."""
NAMES: dict[str, Callable[[bytes, Box, str], str]] = {
    "avc1": _avc, "avc3": _avc, "hvc1": _hevc, "hev1": _hevc, "av01": _av1, "mp4a": _mp4a,
    "Opus": _plain, "fLaC": _plain, "ac-3": _plain, "ec-3": _plain,
}  # fmt: skip
