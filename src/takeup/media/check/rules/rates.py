"""Rules of bit rates: what is declared is what was measured."""

from collections.abc import Iterator, Sequence

from takeup.media.check.package import Package
from takeup.media.check.rule import rule
from takeup.media.check.rules.master import sounds_of, variants
from takeup.media.check.tracks import Track

Found = Iterator[tuple[str, str]]
SLACK = 0.10
LEAST, MOST = 0.5, 1.5
"""A peak is measured over runs of pieces that last so many target durations."""
DIGITS_MAX = 15
Run = tuple[int, float]
"""Bytes and seconds of a piece."""


def peak(runs: Sequence[Run], target_s: float) -> float:
    """The most bits a second in any run of pieces of about the target duration."""
    best = 0.0
    for first in range(len(runs)):
        size, length = 0, 0.0
        for piece_size, piece_length in runs[first:]:
            size, length = size + piece_size, length + piece_length
            if length > MOST * target_s + 1e-6:
                break
            if length > 0 and length >= LEAST * target_s - 1e-6:
                best = max(best, size * 8 / length)
    return best or mean(runs)


def mean(runs: Sequence[Run]) -> float:
    """Bits a second over all."""
    length = sum(seconds for _, seconds in runs)
    return sum(size for size, _ in runs) * 8 / length if length else 0.0


def runs_of(track: Track) -> list[Run]:
    """The pieces of a track."""
    return [(piece.size, piece.duration / track.timescale) for piece in track.read]


def _target(package: Package, track: Track) -> float:
    """The target duration of the playlist of a track."""
    for address, known in package.by_playlist.items():
        if known is track and package.playlists[address].target:
            return float(package.playlists[address].target or 0)
    return max((seconds for _, seconds in runs_of(track)), default=1.0)


def _is_off(told: float | None, least: float, most: float) -> bool:
    return told is None or not least * (1 - SLACK) <= told <= most * (1 + SLACK)


@rule(
    "C25.peak",
    "BANDWIDTH is the measured peak with the costliest sound, within 10 %",
    "master",
    hint="Measure it over the finished pieces; a target or a mean is not what RFC 8216 asks for.",
)
def bandwidth_is_measured(package: Package) -> Found:
    """The rule of C25 against what is declared."""
    for name, choice, track in variants(package):
        target = _target(package, track)
        sounds = [] if track.kind == "sound" else sounds_of(package, choice)
        real = peak(runs_of(track), target) + max((peak(runs_of(s), target) for s in sounds), default=0.0)
        told = choice.number("BANDWIDTH")
        if _is_off(told, real, real):
            yield name, f"BANDWIDTH is {choice.get('BANDWIDTH') or 'missing'}, measured {real:.0f}"


@rule(
    "C25.mean",
    "AVERAGE-BANDWIDTH is the measured mean with the costliest sound, within 10 %",
    "master",
    hint="Measure it: all bytes over all seconds.",
)
def average_is_measured(package: Package) -> Found:
    """Means that differ or are missing."""
    for name, choice, track in variants(package):
        sounds = [] if track.kind == "sound" else sounds_of(package, choice)
        real = mean(runs_of(track)) + max((mean(runs_of(s)) for s in sounds), default=0.0)
        if _is_off(choice.number("AVERAGE-BANDWIDTH"), real, real):
            told = choice.get("AVERAGE-BANDWIDTH") or "missing"
            yield name, f"AVERAGE-BANDWIDTH is {told}, measured {real:.0f}"


@rule(
    "C28.rate",
    "BANDWIDTH of I-frame playlists is measured on the I-frames, within 10 %",
    "master",
    "keys",
    hint="Measure it over the byte ranges of the playlist.",
)
def key_bandwidth_is_measured(package: Package) -> Found:
    """Between the peak over runs and that of the costliest I-frame."""
    for choice in package.master.of("keys") if package.master else ():
        playlist = package.playlists.get(package.joined(package.master_at, choice.uri))
        spans = [(e.file.span, float(e.length_s)) for e in playlist.entries] if playlist else []
        runs = [(span.length, seconds) for span, seconds in spans if span and seconds]
        if not runs or playlist is None:
            continue
        least = peak(runs, float(playlist.target or 1))
        most = max(size * 8 / seconds for size, seconds in runs)
        if _is_off(choice.number("BANDWIDTH"), least, max(least, most)):
            told = choice.get("BANDWIDTH") or "missing"
            yield choice.uri or "", f"BANDWIDTH is {told}, measured {least:.0f} to {most:.0f}"


@rule(
    "C25.dash",
    "At @bandwidth every segment arrives in time after minBufferTime",
    "dash",
    hint="Write the measured peak rate as @bandwidth.",
)
def dash_bandwidth_is_enough(package: Package) -> Found:
    """A player that loads at this rate never runs dry, from whichever segment it starts."""
    manifest = package.manifest
    if manifest is None or manifest.buffer_s is None:
        return
    for one, track in zip(manifest.representations, package.represented, strict=True):
        told = one.attributes.get("bandwidth", "")[:DIGITS_MAX]
        if track is None or not track.read:
            continue
        if not told.isdecimal() or not int(told):
            yield one.id, "@bandwidth is missing"
            continue
        behind = worst = 0.0
        for size, seconds in runs_of(track):
            worst = max(worst, behind + size * 8 / int(told))
            behind = max(behind + size * 8 / int(told) - seconds, 0.0)
        if worst > float(manifest.buffer_s) * (1 + SLACK):
            text = f"@bandwidth is {told}: a segment comes after {worst:.1f} s, and minBufferTime is"
            yield one.id, f"{text} {float(manifest.buffer_s):.1f} s"
        elif int(told) > peak(runs_of(track), float(manifest.buffer_s)) * (1 + SLACK) * 2:
            yield one.id, f"@bandwidth is {told}, more than twice the measured peak"
