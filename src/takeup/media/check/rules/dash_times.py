"""Rules of time in DASH: the manifest and the media tell the same times, and cover all of the period."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from takeup.media.check.manifest import Listed, Representation
from takeup.media.check.package import Package
from takeup.media.check.rule import rule
from takeup.media.check.rules.dash import represented
from takeup.media.check.tracks import Piece, Track

Found = Iterator[tuple[str, str]]
ABOUT = Fraction(1, 2)
"""Segments that are told only by their usual duration may be off by half of it."""
MILLI = Fraction(1, 1000)


@rule(
    "C32.times",
    "The manifest gives the time and duration of every segment as it is",
    "dash",
    hint="Write the S elements from the earliest presentation time and the duration of each segment.",
)
def times_are_those_of_the_media(package: Package) -> Found:
    """Every S against the samples of its segment."""
    for one, track in represented(package):
        pairs = [pair for pair in zip(one.segments, track.pieces, strict=False) if not pair[1].fault]
        is_edited = _is_edited(one, track, pairs)
        for listed, piece in pairs:
            wrong = _wrong(one, track, listed, piece, is_edited=is_edited)
            if wrong:
                yield f"{one.id} {package.name(piece.address)}", wrong
                break


def _wrong(one: Representation, track: Track, listed: Listed, piece: Piece, *, is_edited: bool) -> str:
    """How a segment differs from what is told of it."""
    told_s, length_s = Fraction(listed.start, one.timescale), Fraction(listed.duration, one.timescale)
    real_s, lasts_s = _real(track, piece, is_edited=is_edited)
    slack = Fraction(1, one.timescale) + Fraction(1, track.timescale)
    start_slack = slack if listed.is_exact else length_s * ABOUT
    is_last = piece is track.pieces[-1]
    length_slack = slack + (track.sample_s if is_last else 0)  # it may end with the period
    is_long = listed.is_exact and abs(length_s - lasts_s) > length_slack
    if abs(told_s - real_s) <= start_slack and not is_long:
        return ""
    told = f"told {float(told_s):.4f} s for {float(length_s):.4f} s"
    return f"{told}, and it is at {float(real_s):.4f} s for {float(lasts_s):.4f} s"


def _real(track: Track, piece: Piece, *, is_edited: bool) -> tuple[Fraction, Fraction]:
    """When a piece is shown and for how long, before or after an edit list."""
    edit = (track.header.edit or 0) if track.header and is_edited else 0
    cut = max(edit - piece.start, 0)
    start, length = piece.start + cut - edit, piece.duration - cut
    return Fraction(start, track.timescale), Fraction(length, track.timescale)


def _is_edited(one: Representation, track: Track, pairs: list[tuple[Listed, Piece]]) -> bool:
    """Whether the manifest tells times as edit lists leave them; both are done."""
    if not pairs or not track.header or not track.header.edit:
        return False
    told = Fraction(pairs[-1][0].start, one.timescale)
    away = [abs(told - _real(track, pairs[-1][1], is_edited=is_edited)[0]) for is_edited in (False, True)]
    return away[1] < away[0]


@rule(
    "C33.gaps",
    "Segments follow each other without a gap",
    "dash",
    hint="Let each S begin where the one before ends.",
)
def no_gaps_in_the_manifest(package: Package) -> Found:
    """Gaps and overlaps in timelines."""
    for one, _ in represented(package):
        for before, after in pairwise(one.segments):
            if after.start != before.start + before.duration:
                apart = Fraction(after.start - before.start - before.duration, one.timescale)
                yield one.id, f"a segment begins {float(apart * 1000):.1f} ms after the one before ends"
                break


@rule(
    "C33.start",
    "Every track begins at the start of its period",
    "dash",
    hint="Write presentationTimeOffset as the moment at which all tracks begin.",
)
def tracks_begin_with_the_period(package: Package) -> Found:
    """The first sample against presentationTimeOffset; sound may have one packet of priming before."""
    for one, track in represented(package):
        if one.period or not one.segments:
            continue
        ahead = Fraction(one.segments[0].start - one.offset, one.timescale)
        room = MILLI if track.kind == "picture" else track.sample_s + MILLI
        if abs(ahead) > room:
            yield one.id, f"it begins {float(ahead * 1000):.1f} ms after the period does"


@rule(
    "C33.cover",
    "Every track lasts until the end of the period",
    "dash",
    hint="Write Period@duration from the media, and encode every track to it.",
)
def tracks_cover_the_period(package: Package) -> Found:
    """The last sample against the end of the period."""
    manifest = package.manifest
    if manifest is None or len(manifest.periods) != 1:
        return
    length_s = manifest.periods[0].duration_s or manifest.duration_s
    for one, track in represented(package):
        if length_s is None or not one.segments:
            continue
        end = Fraction(track.pieces[-1].start + track.pieces[-1].duration, track.timescale)
        edit = Fraction(track.header.edit or 0, track.timescale) if track.header else Fraction(0)
        ends = {end - Fraction(one.offset, one.timescale) - away for away in (0, edit)}
        apart = min((end - length_s for end in ends), key=abs)
        if abs(apart) > track.sample_s + MILLI:
            yield one.id, f"it ends {float(apart * 1000):.1f} ms after its period"


@rule(
    "C33.period",
    "The period starts at zero and says how long it is",
    "dash",
    severity="warning",
    hint="Write Period@start=PT0S and Period@duration.",
)
def period_is_told(package: Package) -> Found:
    """Periods without a start or a duration."""
    for number, period in enumerate(package.manifest.periods if package.manifest else ()):
        if number == 0 and period.start_s:
            yield f"period {number}", f"it starts at {float(period.start_s):.3f} s"
        if period.duration_s is None:
            yield f"period {number}", "@duration is missing"


@rule(
    "C34.duration",
    "mediaPresentationDuration is how long the picture is",
    "dash",
    hint="Write it as frames divided by the exact rate.",
)
def duration_is_true(package: Package) -> Found:
    """The longest picture, or the longest sound where there is none."""
    manifest = package.manifest
    if manifest is None or len(manifest.periods) != 1:
        return
    tracks = [track for _, track in represented(package)]
    of_kind = [track for track in tracks if track.kind == "picture"] or tracks
    if manifest.duration_s is None:
        yield package.name(package.manifest_at), "mediaPresentationDuration is missing"
    elif of_kind:
        longest = max(of_kind, key=lambda track: track.length_s)
        room = longest.sample_s * (ABOUT if longest.kind == "picture" else 2)
        if abs(manifest.duration_s - longest.length_s) > room:
            text = f"it is {float(manifest.duration_s):.3f} s, and {longest.name} lasts"
            yield package.name(package.manifest_at), f"{text} {float(longest.length_s):.3f} s"
