"""Rules of pictures: upright, square, progressive, of one range, with real keys on one grid."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from takeup.media.check.package import Package
from takeup.media.check.rule import rule

Found = Iterator[tuple[str, str]]
FIELDS = ("tt", "bb", "tb", "bt")
HDR = {"smpte2084": "PQ", "arib-std-b67": "HLG"}
KEYS_S = Fraction(5, 2)
GRID_S = Fraction(1, 1000)
RATE_MAX = 60
TEN_BIT = ("10le", "10be", "p010")


@rule(
    "C6.fields",
    "Pictures are progressive",
    "pictures",
    hint="Deinterlace before scaling.",
)
def no_fields(package: Package) -> Found:
    """Interlaced tracks."""
    for track in package.pictures:
        if track.told.get("field_order") in FIELDS:
            yield track.name, f"its pictures are interlaced ({track.told['field_order']})"


@rule(
    "C7.shape",
    "Pictures are upright with square pixels and even sides",
    "pictures",
    hint="Rotate and scale the pictures themselves, and clear the matrix.",
)
def pictures_are_upright(package: Package) -> Found:
    """Rotation, pixel shapes and odd sides."""
    for track in package.pictures:
        told = track.told
        if any(extra.get("rotation") for extra in told.get("side_data_list", ())):
            yield track.name, "it is shown rotated by its header"
        if told.get("sample_aspect_ratio", "1:1") not in ("1:1", "0:1", "N/A"):
            yield track.name, f"its pixels are {told['sample_aspect_ratio']}"
        if any(int(told.get(side) or 0) % 2 for side in ("width", "height")):
            yield track.name, f"it has an odd side: {told.get('width')}×{told.get('height')}"


@rule(
    "C8.depth",
    "H.264 has 8 bits",
    "pictures",
    hint="Map HDR to SDR with 8 bits for H.264, or keep it in HEVC or AV1.",
)
def h264_has_eight_bits(package: Package) -> Found:
    """High 10 and the like."""
    for track in package.pictures:
        form = str(track.told.get("pix_fmt", ""))
        if track.told.get("codec_name") == "h264" and any(sign in form for sign in TEN_BIT):
            yield track.name, f"it is H.264 in {form}"


@rule(
    "C8.range",
    "HDR has ten bits",
    "pictures",
    hint="Encode PQ and HLG with ten bits, or map to SDR and tag it bt709.",
)
def hdr_has_ten_bits(package: Package) -> Found:
    """PQ or HLG in 8 bits: washed out everywhere."""
    for track in package.pictures:
        form, transfer = str(track.told.get("pix_fmt", "")), track.told.get("color_transfer", "")
        if transfer in HDR and not any(sign in form for sign in (*TEN_BIT, "12le")):
            yield track.name, f"it is tagged {HDR[transfer]} and has the pixels {form}"


@rule(
    "C9.first",
    "Every piece begins with a picture that needs no other",
    "pictures",
    hint="Force an IDR picture at the first frame of every piece.",
)
def pieces_begin_with_a_key(package: Package) -> Found:
    """By the units of the picture, not by the flag of the box."""
    for track in package.pictures:
        for piece in track.read:
            if not piece.starts_with_key:
                yield package.name(piece.address), "its first picture is no IDR"


@rule(
    "C9.flags",
    "What is marked as a key is one",
    "boxes",
    "pictures",
    hint="Mark only IDR pictures as sync samples.",
)
def keys_are_keys(package: Package) -> Found:
    """Sync samples that need other pictures."""
    for track in package.pictures:
        for piece in track.read:
            if piece.false_keys:
                at = float(track.at_s(piece.false_keys[0]))
                text = f"the picture at {at:.3f} s is marked as a key and is none"
                yield package.name(piece.address), text


@rule(
    "C9.grid",
    "Keys stand at the same places in every rung",
    "rungs",
    hint="Force keys by frame number, with scene cuts off, in every rung.",
)
def keys_are_on_one_grid(package: Package) -> Found:
    """The times of keys in each rung of a family."""
    for family in package.families():
        lists = [[track.at_s(key) for piece in track.read for key in piece.keys] for track in family]
        for track, keys in zip(family[1:], lists[1:], strict=True):
            odd = _first_odd(lists[0], keys)
            if odd is not None:
                yield track.name, f"it and {family[0].name} do not both have a key at {float(odd):.3f} s"


@rule(
    "C31.keys",
    "There is a key every two seconds",
    "pictures",
    severity="warning",
    hint="Force a key about every two seconds, so that seeking is quick.",
)
def keys_are_near(package: Package) -> Found:
    """The longest way from one key to the next."""
    for track in package.pictures:
        keys = [track.at_s(key) for piece in track.read for key in piece.keys] + [track.end_s]
        gap = max((b - a for a, b in pairwise(keys)), default=Fraction(0))
        if gap > KEYS_S:
            yield track.name, f"there are {float(gap):.2f} s between two keys"


@rule(
    "C31.rate",
    "There are at most 60 frames a second",
    "pictures",
    severity="warning",
    hint="Halve the frame rate; many devices do not play more.",
)
def not_too_fast(package: Package) -> Found:
    """Faster tracks."""
    for track in package.pictures:
        if track.rate and track.rate > RATE_MAX + 1:
            yield track.name, f"it has {float(track.rate):.3f} frames a second"


def _first_odd(one: list[Fraction], other: list[Fraction]) -> Fraction | None:
    for left, right in zip(one, other, strict=False):
        if abs(left - right) > GRID_S:
            return min(left, right)
    longer = max(one, other, key=len)
    return longer[min(len(one), len(other))] if len(one) != len(other) else None
