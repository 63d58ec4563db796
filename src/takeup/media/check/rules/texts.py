"""Rules of text: every cue at its time, in every piece in which it is shown."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from takeup.media.check.package import Package
from takeup.media.check.rule import rule
from takeup.media.check.texts import TextTrack

Found = Iterator[tuple[str, str]]
MILLI = Fraction(1, 1000)


@rule("C29.read", "Text pieces are WebVTT", "texts", hint="Write WEBVTT, then cues, as UTF-8.")
def texts_are_read(package: Package) -> Found:
    """Pieces that cannot be read."""
    for track in package.texts.values():
        yield from ((piece.address, piece.fault) for piece in track.pieces if piece.fault)


@rule(
    "C29.map",
    "X-TIMESTAMP-MAP leads to the first picture",
    "texts",
    "pictures",
    hint="Write MPEGTS as 90,000 times the second at which the first picture is shown.",
)
def texts_are_in_time(package: Package) -> Found:
    """What is added to the times of cues against when the picture begins."""
    first = package.pictures[0]
    for track in package.texts.values():
        for piece in track.pieces:
            if piece.fault:
                continue
            if piece.offset_s is None:
                yield piece.address, "X-TIMESTAMP-MAP is missing"
                break
            if abs(piece.offset_s - first.start_s) > first.sample_s / 2:
                text = f"it moves cues by {float(piece.offset_s):.3f} s, and the picture begins at"
                yield piece.address, f"{text} {float(first.start_s):.3f} s"
                break


@rule("C29.order", "Cues are in order and end after they begin", "texts", hint="Sort cues by their start.")
def cues_are_in_order(package: Package) -> Found:
    """Cues that go back in time."""
    for track in package.texts.values():
        for piece in track.pieces:
            if any(cue.end_s <= cue.start_s for cue in piece.cues):
                yield piece.address, "a cue ends before it begins"
            if any(after.start_s < before.start_s for before, after in pairwise(piece.cues)):
                yield piece.address, "a cue begins before the one that stands before it"


@rule(
    "C29.edges",
    "A cue that crosses a border is in both pieces, and every cue is where it is shown",
    "texts",
    hint="Repeat the cue, with its own times, in every piece in which it is shown.",
)
def cues_cross_borders(package: Package) -> Found:
    """Cues of each piece against its time and against its neighbours."""
    for track in package.texts.values():
        yield from _edges(track)


def _edges(track: TextTrack) -> Found:
    end = Fraction(0)
    for piece, after in zip(track.pieces, [*track.pieces[1:], None], strict=True):
        start, end = end, end + piece.told_s
        strays = [cue for cue in piece.cues if cue.end_s <= start - MILLI or cue.start_s >= end + MILLI]
        if strays and after is not None:
            yield piece.address, f"the cue at {float(strays[0].start_s):.3f} s is not shown in this piece"
        if after is None or piece.fault or after.fault:
            continue
        crossing = {cue for cue in piece.cues if cue.end_s > end + MILLI and cue.start_s < end}
        begun = {cue for cue in after.cues if cue.start_s < end - MILLI}
        for cue in crossing ^ begun:
            where = after if cue in crossing else piece
            yield where.address, f"the cue at {float(cue.start_s):.3f} s crosses its border and is missing"


@rule(
    "C29.cover",
    "Text lasts as long as the picture",
    "texts",
    "pictures",
    severity="warning",
    hint="Write empty pieces where nothing is said.",
)
def texts_cover_the_picture(package: Package) -> Found:
    """The sum of all EXTINF."""
    picture = package.pictures[0]
    for track in package.texts.values():
        length = sum((piece.told_s for piece in track.pieces), Fraction(0))
        if abs(length - picture.length_s) > 1:
            text = f"its pieces last {float(length):.3f} s, the picture {float(picture.length_s):.3f} s"
            yield track.name, text
