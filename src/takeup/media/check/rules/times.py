"""Rules of time: every track on one line, without a gap, from the same start to the same end."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from takeup.media.check.package import Package
from takeup.media.check.rule import rule
from takeup.media.check.tracks import SLACK_TICKS, Track

Found = Iterator[tuple[str, str]]
DRIFT_S = Fraction(1, 1000)
ROUNDING_S = Fraction(1, 1_000_000)
START_S = Fraction(1, 1000)


@rule(
    "C2.even",
    "Pictures follow each other evenly",
    "pictures",
    hint="Stamp pictures by their number before they are cut.",
)
def pictures_are_even(package: Package) -> Found:
    """Doubled times, holes and uneven steps."""
    for track in package.pictures:
        if track.is_even or track.is_broken:
            continue
        usual, shown = track.interval, sorted(track.shown)
        odd = [n for n, (a, b) in enumerate(pairwise(shown), 1) if abs(b - a - usual) > SLACK_TICKS]
        step = shown[odd[0]] - shown[odd[0] - 1]
        text = f"picture {odd[0]} comes {step} ticks after the one before instead of {usual}"
        yield track.name, text + (f"; so do {len(odd) - 1} more" if odd[1:] else "")


@rule(
    "C5.drift",
    "Durations in playlists do not drift from those of the media",
    "hls",
    hint="Write EXTINF as frames divided by the exact rate, with six decimals.",
)
def playlists_do_not_drift(package: Package) -> Found:
    """The sum of all EXTINF up to any piece against what the pieces hold."""
    for address, track in package.by_playlist.items():
        told = real = worst = Fraction(0)
        for piece in track.read:
            told += piece.told_s or 0
            real += Fraction(piece.duration, track.timescale)
            worst = max(worst, abs(told - real))
        if worst > DRIFT_S + ROUNDING_S * len(track.read):
            yield package.name(address), f"the playlist is up to {_ms(worst)} away from the media"


@rule(
    "C5.pieces",
    "EXTINF is how long the piece is",
    "hls",
    hint="Write EXTINF from the durations of the samples in the piece.",
)
def every_duration_is_true(package: Package) -> Found:
    """Single pieces whose duration is told wrongly."""
    for track in package.by_playlist.values():
        for piece in track.read:
            real = Fraction(piece.duration, track.timescale)
            if piece.told_s is not None and abs(piece.told_s - real) > max(track.sample_s / 2, DRIFT_S):
                text = f"EXTINF is {float(piece.told_s):.6f} s, and the piece lasts {float(real):.6f} s"
                yield package.name(piece.address), text


@rule(
    "C14.edits",
    "An edit list is in all tracks or in none",
    "boxes",
    "tracks",
    hint="Write every header with edit lists, or, better, none.",
)
def edit_lists_agree(package: Package) -> Found:
    """Players read edit lists differently, so half of them break the sync."""
    heads = [(track.name, track.header) for track in package.tracks if track.header]
    with_edit = [name for name, header in heads if header.edit is not None]
    if with_edit and len(with_edit) < len(heads):
        without = [name for name, header in heads if header.edit is None]
        yield with_edit[0], f"it has an edit list, and {without[0]} has none"


@rule(
    "C14.start",
    "Sound starts with the picture, up to one packet of priming",
    "pictures",
    "sounds",
    hint="Start both at the same moment; pad the sound with silence if it begins late.",
)
def sound_starts_with_the_picture(package: Package) -> Found:
    """The first sample of sound against the first picture."""
    start_s = package.pictures[0].start_s
    for sound in package.sounds:
        apart = sound.start_s - start_s
        if abs(apart) > sound.sample_s + START_S:
            yield sound.name, f"it starts {_ms(apart)} after the picture"


@rule(
    "C15.ends",
    "Sound and picture end within one frame",
    "pictures",
    "sounds",
    hint="Pad or trim the sound to the length of the picture before it is encoded.",
)
def sound_ends_with_the_picture(package: Package) -> Found:
    """The end of the last sample of each."""
    picture = package.pictures[0]
    for sound in package.sounds:
        apart = sound.end_s - picture.end_s
        if abs(apart) > max(picture.sample_s, sound.sample_s) + START_S:
            yield sound.name, f"it ends {_ms(apart)} after the picture"


@rule(
    "C18.time",
    "The time of every fragment is the sum of what came before",
    "boxes",
    hint="Write tfdt as the absolute decode time; it must not start again in each piece.",
)
def times_are_absolute(package: Package) -> Found:
    """Fragments that start before or after the end of the last one."""
    for track in package.tracks:
        after: int | None = None
        for piece in track.pieces if not track.is_broken else ():
            if piece.fault:
                after = None  # told by another rule
            for fragment in piece.fragments:
                if after is not None and abs(fragment.decoded - after) > SLACK_TICKS:
                    text = (
                        f"the fragment at byte {fragment.place} is at {fragment.decoded} instead of {after}"
                    )
                    yield package.name(piece.address), text
                after = fragment.decoded + fragment.duration


@rule(
    "C24.start",
    "All variants start at the same time",
    "rungs",
    hint="Give every rung the same first time and the same lead.",
)
def rungs_start_together(package: Package) -> Found:
    """The first picture of each."""
    first = package.pictures[0]
    for track in package.pictures[1:]:
        if abs(track.start_s - first.start_s) > START_S:
            text = f"it starts at {float(track.start_s):.4f} s, {first.name} at {float(first.start_s):.4f} s"
            yield track.name, text


@rule(
    "C24.lengths",
    "All variants are as long",
    "rungs",
    hint="Encode the same frames for every rung.",
)
def rungs_are_as_long(package: Package) -> Found:
    """How many pictures each has, and how long they last."""
    first = package.pictures[0]
    for track in package.pictures[1:]:
        if abs(track.length_s - first.length_s) > first.sample_s / 2 or track.count != first.count:
            text = f"it has {track.count} pictures in {float(track.length_s):.3f} s"
            yield track.name, f"{text}, {first.name} {first.count} in {float(first.length_s):.3f} s"


@rule(
    "C35.borders",
    "Pieces of all rungs begin at the same times, so a player can switch at each",
    "rungs",
    hint="Cut every rung at the same frames.",
)
def rungs_are_cut_alike(package: Package) -> Found:
    """The start of each piece in every rung of a family."""
    for family in package.families():
        wanted = _edges(family[0])
        for track in family[1:]:
            edges = _edges(track)
            if len(edges) != len(wanted):
                yield track.name, f"it has {len(edges)} pieces, {family[0].name} has {len(wanted)}"
                continue
            for number, (edge, right) in enumerate(zip(edges, wanted, strict=True), 1):
                if abs(edge - right) > START_S:
                    text = f"piece {number} begins at {float(edge):.4f} s, in {family[0].name} at "
                    yield track.name, text + f"{float(right):.4f} s"
                    break


def _edges(track: Track) -> list[Fraction]:
    return [track.at_s(piece.start) for piece in track.read]


def _ms(length: Fraction) -> str:
    return f"{float(length * 1000):.1f} ms"
