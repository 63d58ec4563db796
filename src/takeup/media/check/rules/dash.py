"""Rules of DASH manifests: sets, sizes and codecs are those of the tracks."""

from collections.abc import Iterator
from fractions import Fraction

from takeup.media.check.manifest import Representation
from takeup.media.check.package import Package
from takeup.media.check.rule import rule
from takeup.media.check.rules.master import is_named
from takeup.media.check.tracks import Track

Found = Iterator[tuple[str, str]]
KINDS = {"video": "picture", "audio": "sound"}
ON_DEMAND = "isoff-on-demand"
RATE_SLACK = Fraction(1, 1000)


def represented(package: Package) -> Iterator[tuple[Representation, Track]]:
    """Each representation whose track could be read."""
    if package.manifest is None:
        return
    for one, track in zip(package.manifest.representations, package.represented, strict=True):
        if track is not None and track.read:
            yield one, track


@rule(
    "C26.dash",
    "@codecs is what the headers say",
    "dash",
    "boxes",
    hint="Write the codecs from avcC, hvcC, av1C and esds.",
)
def dash_codecs_are_true(package: Package) -> Found:
    """Codecs that differ or are missing."""
    for one, track in represented(package):
        told = one.attributes.get("codecs", "")
        if track.header and not is_named(track.header, told):
            yield one.id, f"@codecs is {told or 'missing'!r}, and it has {track.header.codec!r}"


@rule(
    "C27.dash",
    "@width, @height and @frameRate are those of the picture",
    "dash",
    "pictures",
    hint="Write them from the header and the times of the samples.",
)
def dash_sizes_are_true(package: Package) -> Found:
    """Sizes and rates that differ."""
    for one, track in represented(package):
        if track.kind != "picture" or not track.told:
            continue
        for side in ("width", "height"):
            told = one.attributes.get(side)
            if told is not None and told != str(track.told.get(side)):
                yield one.id, f"@{side} is {told}, and the picture has {track.told.get(side)}"
        rate = _ratio(one.attributes.get("frameRate"))
        if rate and track.rate and abs(rate - track.rate) > RATE_SLACK * track.rate:
            yield one.id, f"@frameRate is {rate}, and there are {float(track.rate):.3f} frames a second"


@rule(
    "C32.sets",
    "A set holds one kind and one codec; picture and sound are apart",
    "dash",
    hint="Make one AdaptationSet a family of codecs, and one a sound track.",
)
def sets_are_of_one_kind(package: Package) -> Found:
    """Sets in which a player could not switch."""
    groups: dict[int, list[tuple[Representation, Track]]] = {}
    for one, track in represented(package):
        groups.setdefault(one.group, []).append((one, track))
        if KINDS.get(one.kind, track.kind) != track.kind:
            yield one.id, f"it is called {one.kind} and holds {track.kind}"
    for members in groups.values():
        entries = sorted({track.header.entry for _, track in members if track.header})
        if len(entries) > 1:
            yield members[0][0].id, f"its set mixes {', '.join(entries)}"


@rule(
    "C32.language",
    "Every sound set has a language",
    "dash",
    "sounds",
    severity="warning",
    hint="Write @lang; und if nobody knows.",
)
def dash_languages_are_told(package: Package) -> Found:
    """Sets of sound without @lang."""
    for one, track in represented(package):
        if track.kind == "sound" and not one.attributes.get("lang"):
            yield one.id, "@lang is missing"


@rule(
    "C34.profile",
    "The profile fits how segments are named",
    "dash",
    hint="Name isoff-live for templates and lists, isoff-on-demand for single files.",
)
def profile_fits(package: Package) -> Found:
    """Profiles that promise another way."""
    manifest = package.manifest
    if manifest is None:
        return
    profiles = manifest.attributes.get("profiles", "")
    if not profiles:
        yield package.name(package.manifest_at), "@profiles is missing"
    if manifest.attributes.get("type", "static") != "static":
        yield package.name(package.manifest_at), "it is not static: a player waits for more"
    is_single = any(one.index for one in manifest.representations)
    if profiles and is_single != (ON_DEMAND in profiles) and "isoff-" in profiles:
        yield (
            package.name(package.manifest_at),
            f"@profiles is {profiles}, and segments are named another way",
        )


@rule(
    "C34.most",
    "The maxima of a set are those of its representations",
    "dash",
    "pictures",
    severity="warning",
    hint="Write @maxWidth and @maxHeight as the largest in the set.",
)
def maxima_are_true(package: Package) -> Found:
    """Maxima that are not reached or exceeded."""
    manifest = package.manifest
    for number, known in enumerate(manifest.sets if manifest else ()):
        members = [track for one, track in represented(package) if one.group == number and track.told]
        for name, side in (("maxWidth", "width"), ("maxHeight", "height")):
            real = max((int(track.told.get(side) or 0) for track in members), default=0)
            if name in known and real and known[name] != str(real):
                yield f"set {known.get('id', number)}", f"@{name} is {known[name]}, and the largest is {real}"


def _ratio(text: str | None) -> Fraction | None:
    try:
        return Fraction(text) if text else None
    except (ValueError, ZeroDivisionError):
        return None
