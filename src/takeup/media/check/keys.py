"""Whether a sample is a picture that needs no other: by its units, not by what the box says of it."""

AVC_IDR = 5
HEVC_KEYS = range(16, 21)
"""Pictures after which nothing refers to what came before; a clean random access picture (21) is none."""
AV1_HEADERS = (3, 6)
"""A frame header, alone or with its frame."""
UNITS_MAX = 4096


def is_key(entry: str, sample: bytes, length_bytes: int) -> bool | None:
    """Whether decoding can begin here; None if we cannot tell for this codec."""
    match entry:
        case "avc1" | "avc3":
            return any(unit & 0x1F == AVC_IDR for unit in _units(sample, length_bytes))
        case "hvc1" | "hev1":
            return any(unit >> 1 & 0x3F in HEVC_KEYS for unit in _units(sample, length_bytes))
        case "av01":
            return _is_av1_key(sample)
        case "vp09":
            return _is_vp9_key(sample)
    return None


def _units(sample: bytes, length_bytes: int) -> list[int]:
    """The first byte of every unit."""
    found: list[int] = []
    place = 0
    while length_bytes and place + length_bytes < len(sample) and len(found) < UNITS_MAX:
        length = int.from_bytes(sample[place : place + length_bytes])
        found.append(sample[place + length_bytes])
        place += length_bytes + length
    return found


def _is_av1_key(sample: bytes) -> bool:
    place = 0
    for _ in range(UNITS_MAX):
        if place + 1 >= len(sample):
            return False
        first = sample[place]
        kind, is_extended, is_sized = first >> 3 & 0xF, first >> 2 & 1, first >> 1 & 1
        place += 1 + is_extended
        length = len(sample) - place
        if is_sized:
            length, place = _leb128(sample, place)
        if kind in AV1_HEADERS:
            return place < len(sample) and sample[place] >> 5 == 0  # not shown before, of the type "key"
        place += length
    return False


def _leb128(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data):
        value |= (data[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if not data[place - 1] & 0x80:
            break
    return value, place


def _is_vp9_key(sample: bytes) -> bool:
    if not sample:
        return False
    bits = f"{sample[0]:08b}"
    place = 5 if bits[2:4] == "11" else 4  # the highest profile has one bit more
    return bits[place] == "0" and bits[place + 1] == "0"
