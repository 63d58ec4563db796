"""Rules of fragmented MP4: CMAF as players take it."""

from collections.abc import Iterator
from itertools import pairwise

from takeup.media.buffer import lowest_fill
from takeup.media.check.package import Package
from takeup.media.check.rule import rule

Found = Iterator[tuple[str, str]]
WRAP = 1 << 62


@rule(
    "C11.buffer",
    "The buffer that the header promises never runs dry, over all joints",
    "boxes",
    "pictures",
    severity="warning",
    hint="Start every segment with a less full buffer, or lower the highest rate a little.",
)
def buffer_holds(package: Package) -> Found:
    """A leaky bucket over the whole track, with the rate and the buffer of its header."""
    for track in package.pictures:
        header, rate = track.header, track.rate
        if header is None or rate is None or not header.max_rate or not header.buffer_bytes:
            continue
        kbps, kbits = -(-header.max_rate // 1000), -(-header.buffer_bytes * 8 // 1000)
        lowest = lowest_fill(track.sizes, rate, kbps, kbits)
        if lowest < 0:
            missing = float(-lowest * kbits)
            yield track.name, f"at {kbps} kbit/s a buffer of {kbits} kbit lacks {missing:.0f} kbit once"


@rule(
    "C12.header",
    "One rendition has one header",
    "boxes",
    "hls",
    hint="Encode all of a rendition with one encoder and one set of parameters.",
)
def one_header(package: Package) -> Found:
    """Playlists whose pieces have different headers."""
    for address, headers in package.headers.items():
        if len({header.hash for header in headers}) > 1:
            yield package.name(address), f"it names {len(headers)} headers that differ"


@rule(
    "C19.offsets",
    "Pictures are moved by their offsets or by an edit list, not by both",
    "boxes",
    "pictures",
    hint="Write trun version 1 without an edit list, or version 0 with one.",
)
def one_way_to_move(package: Package) -> Found:
    """Negative offsets under an edit list."""
    for track in package.pictures:
        moved = any(fragment.has_negative for piece in track.pieces for fragment in piece.fragments)
        if moved and track.header and track.header.edit:
            yield track.name, "it has an edit list and negative offsets"


@rule(
    "C20.place",
    "Places in a fragment are counted from the fragment",
    "boxes",
    hint="Set default-base-is-moof, so that a piece can be read alone.",
)
def fragments_stand_alone(package: Package) -> Found:
    """Fragments without `default-base-is-moof`."""
    for track in package.tracks:
        for piece in track.pieces:
            if any(not fragment.is_based for fragment in piece.fragments):
                yield package.name(piece.address), "default-base-is-moof is not set"
                break


@rule(
    "C20.sequence",
    "Fragments are numbered upwards",
    "boxes",
    hint="Number the fragments of a track from one on, over all its pieces.",
)
def fragments_are_numbered(package: Package) -> Found:
    """Numbers that repeat or go back."""
    for track in package.tracks:
        numbers = [(piece, f.sequence) for piece in track.pieces for f in piece.fragments]
        for (_, before), (piece, after) in pairwise(numbers):
            if after <= before:
                yield package.name(piece.address), f"fragment {after} follows fragment {before}"
                break


@rule(
    "C20.tracks",
    "A file holds one track",
    "boxes",
    hint="Put picture and sound into files of their own.",
)
def one_track_a_file(package: Package) -> Found:
    """Headers and fragments with several tracks."""
    for track in package.tracks:
        if track.header and track.header.tracks > 1:
            yield track.name, f"its header has {track.header.tracks} tracks"
        for piece in track.pieces:
            if any(fragment.tracks > 1 for fragment in piece.fragments):
                yield package.name(piece.address), "a fragment of it has several tracks"
                break


@rule(
    "C21.timescale",
    "All rungs of a family count time alike",
    "boxes",
    "rungs",
    hint="Use one timescale, for example the numerator of the frame rate.",
)
def one_timescale(package: Package) -> Found:
    """Timescales that differ."""
    for family in package.families():
        for track in family[1:]:
            if track.timescale != family[0].timescale:
                text = f"it counts {track.timescale} ticks a second, {family[0].name} {family[0].timescale}"
                yield track.name, text


@rule("C21.wrap", "Times do not wrap", "boxes", hint="Write tfdt version 1 with 64 bits.")
def times_do_not_wrap(package: Package) -> Found:
    """Times that are close to the end of what can be written, or went over it."""
    for track in package.tracks:
        for before, after in pairwise(f for piece in track.pieces for f in piece.fragments):
            if after.decoded + (1 << 31) < before.decoded or after.decoded > WRAP:
                yield track.name, f"the time falls from {before.decoded} to {after.decoded}"
                break


@rule(
    "C22.tag",
    "HEVC is tagged hvc1",
    "boxes",
    "pictures",
    hint="Write the sample entry hvc1: Apple's players refuse hev1.",
)
def hevc_is_hvc1(package: Package) -> Found:
    """The other tag."""
    for track in package.pictures:
        if track.header and track.header.entry == "hev1":
            yield track.name, "it is tagged hev1"


@rule(
    "C22.colour",
    "HDR tracks say their colours in the header",
    "boxes",
    "pictures",
    hint="Write a colr box of the kind nclx.",
)
def hdr_has_colours(package: Package) -> Found:
    """PQ and HLG without `colr`."""
    for track in package.pictures:
        is_hdr = track.told.get("color_transfer") in ("smpte2084", "arib-std-b67")
        if is_hdr and track.header and not track.header.colour:
            yield track.name, f"it is {track.told['color_transfer']} and has no colr box of the kind nclx"
