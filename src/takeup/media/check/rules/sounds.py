"""Rules of sound: no hole at any border, and cut where the picture is cut."""

from collections.abc import Iterator
from fractions import Fraction

from takeup.media.check.package import Package
from takeup.media.check.rule import rule
from takeup.media.check.tracks import SLACK_TICKS, Track

Found = Iterator[tuple[str, str]]
NEAR_S = 0.06
"""A hole this near to a border belongs to it."""
HOLE_S = 0.2
"""A longer silence is meant."""
HOLES_MIN = 2
MILLI = Fraction(1, 1000)


@rule(
    "C13.joints",
    "Sound does not fall silent at the borders of pieces",
    "sounds",
    "decoded",
    severity="warning",
    hint="Encode each sound track once and whole, and cut only the packets.",
)
def no_holes_at_borders(package: Package) -> Found:
    """Short silences that stand at borders and nowhere else: the sound was encoded in parts."""
    for track in package.sounds:
        found = (package.decoded or {}).get(track.name)
        borders = _borders(track)
        holes = [hole for hole in (found.silences if found else []) if hole[1] - hole[0] < HOLE_S]
        at_borders = [b for b in borders if any(start - NEAR_S <= b <= end + NEAR_S for start, end in holes)]
        if len(at_borders) >= HOLES_MIN and len(holes) <= 2 * len(at_borders):
            yield track.name, f"it is silent for a moment at {len(at_borders)} of {len(borders)} borders"


@rule(
    "C17.gap",
    "No packet of sound is missing between two pieces",
    "sounds",
    hint="Cut sound at whole packets, and lose none.",
)
def no_packet_is_missing(package: Package) -> Found:
    """Holes and overlaps of half a packet or more."""
    for track in package.sounds:
        after: int | None = None
        for piece in track.pieces if not track.is_broken else ():
            if piece.fault or not piece.count:
                after = None
                continue
            packet = piece.duration / piece.count
            if after is not None and abs(piece.start - after) > max(packet / 2, SLACK_TICKS):
                apart = (piece.start - after) / track.timescale * 1000
                yield package.name(piece.address), f"it begins {apart:.1f} ms after the last one ended"
            after = piece.start + piece.duration


@rule(
    "C17.grid",
    "Sound is cut near where the picture is cut",
    "sounds",
    "pictures",
    severity="warning",
    hint="Cut sound at the packet nearest before each border of the picture.",
)
def sound_is_cut_with_the_picture(package: Package) -> Found:
    """Borders that are more than a packet away from those of the picture."""
    picture = package.pictures[0]
    edges = [picture.at_s(piece.start) for piece in picture.read]
    for track in package.sounds:
        mine = [track.at_s(piece.start) for piece in track.read]
        if len(mine) != len(edges):
            yield track.name, f"it has {len(mine)} pieces, the picture has {len(edges)}"
            continue
        for number, (own, edge) in enumerate(zip(mine, edges, strict=True), 1):
            if abs(own - edge) > 2 * track.sample_s + MILLI:
                text = f"piece {number} begins {float((own - edge) * 1000):.0f} ms after that of the picture"
                yield track.name, text
                break


def _borders(track: Track) -> list[float]:
    """Where pieces meet, in seconds from the start of the track."""
    found, place = [], 0
    for piece in track.read[:-1]:
        place += piece.duration
        found.append(place / track.timescale)
    return found
