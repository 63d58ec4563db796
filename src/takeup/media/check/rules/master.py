"""Rules of the HLS master playlist: what it says of a variant is what the variant is."""

from collections.abc import Iterator

from takeup.media.check.headers import Header
from takeup.media.check.package import Package
from takeup.media.check.playlists import Choice
from takeup.media.check.rule import rule
from takeup.media.check.tracks import Track

Found = Iterator[tuple[str, str]]
RATE_SLACK = 0.0011
RANGES = {"smpte2084": "PQ", "arib-std-b67": "HLG"}


def variants(package: Package) -> Iterator[tuple[str, Choice, Track]]:
    """Each variant whose track could be read."""
    for choice in package.master.of("variant") if package.master else ():
        track = package.by_playlist.get(package.joined(package.master_at, choice.uri))
        if track is not None and track.read:
            yield choice.uri or "", choice, track


def sounds_of(package: Package, choice: Choice) -> list[Track]:
    """The sound tracks that a variant may be played with."""
    group = choice.get("AUDIO")
    media = package.master.of("media") if package.master and group else []
    found = [
        package.by_playlist.get(package.joined(package.master_at, one.uri))
        for one in media
        if one.get("TYPE") == "AUDIO" and one.get("GROUP-ID") == group
    ]
    return [track for track in found if track is not None and track.read]


@rule(
    "C16.group",
    "Variants and sound belong together by a group that exists",
    "master",
    hint="Name the GROUP-ID of an EXT-X-MEDIA line in AUDIO, in every variant with a picture.",
)
def groups_exist(package: Package) -> Found:
    """Groups that are named and missing, or there and not named."""
    if package.master is None:
        return
    media = package.master.of("media")
    groups = {(one.get("TYPE"), one.get("GROUP-ID")) for one in media}
    for choice in package.master.of("variant"):
        for kind in ("AUDIO", "SUBTITLES", "VIDEO"):
            name = choice.get(kind)
            if name and (kind, name) not in groups:
                yield choice.uri or "", f"its {kind} group {name!r} does not exist"
            is_left_out = not name and choice.get("RESOLUTION") and kind != "VIDEO"
            if is_left_out and any(of == kind for of, _ in groups):
                yield choice.uri or "", f"there are {kind} groups, and it names none"


@rule(
    "C16.none",
    "Without sound nothing says that there is some",
    "master",
    hint="Leave AUDIO and the codec of the sound out.",
)
def no_sound_is_named(package: Package) -> Found:
    """Sound codecs in variants that have none."""
    for name, choice, track in variants(package):
        has_sound = bool(track.kind == "sound" or track.inner or sounds_of(package, choice))
        named = [
            c
            for c in choice.get("CODECS").split(",")
            if c.strip().startswith(("mp4a", "opus", "ac-3", "ec-3"))
        ]
        if named and not has_sound:
            yield name, f"CODECS names {', '.join(named)}, and there is no sound"


def is_named(header: Header, told: str) -> bool:
    """Whether this is the name of its codec, with or without what may be left out."""
    return told.lower() in (header.codec.lower(), header.codec_full.lower())


@rule(
    "C26.codecs",
    "CODECS is what the headers say, for every track of the variant",
    "master",
    "boxes",
    hint="Write the codecs from avcC, hvcC, av1C and esds.",
)
def codecs_are_true(package: Package) -> Found:
    """Codecs that are missing, or named and not there."""
    for name, choice, track in variants(package):
        tracks = [track, *sounds_of(package, choice)]
        yield from _misnamed(name, choice, [part.header for part in tracks if part.header])
    for choice in package.master.of("keys") if package.master else ():
        address = package.joined(package.master_at, choice.uri)
        playlist = package.playlists.get(address)
        uris = {entry.header.uri for entry in playlist.entries if entry.header} if playlist else set()
        files = {package.joined(address, uri) for uri in uris}
        found = [track.header for track in package.tracks if track.file and track.file[0] in files]
        yield from _misnamed(choice.uri or "", choice, [header for header in found if header][:1])


def _misnamed(name: str, choice: Choice, headers: list[Header]) -> Found:
    told = [codec.strip() for codec in choice.get("CODECS").split(",") if codec.strip()]
    media = [codec for codec in told if not codec.startswith(("wvtt", "stpp"))]
    is_complete = all(any(is_named(header, codec) for codec in media) for header in headers)
    is_true = all(any(is_named(header, codec) for header in headers) for codec in media)
    if headers and not (is_complete and is_true):
        real = ",".join(dict.fromkeys(header.codec for header in headers))
        yield name, f"CODECS is {choice.get('CODECS') or 'missing'!r}, and it has {real!r}"


@rule(
    "C27.size",
    "RESOLUTION is the size of the picture",
    "master",
    "pictures",
    hint="Write it from the header.",
)
def resolution_is_true(package: Package) -> Found:
    """Sizes that differ or are missing."""
    for name, choice, track in variants(package):
        real = f"{track.told.get('width')}x{track.told.get('height')}"
        if track.kind == "picture" and track.told and choice.get("RESOLUTION") != real:
            yield name, f"RESOLUTION is {choice.get('RESOLUTION') or 'missing'}, and the picture is {real}"


@rule(
    "C27.rate",
    "FRAME-RATE is that of the picture, to three decimals",
    "master",
    "pictures",
    hint="Write the frame rate with three decimals.",
)
def frame_rate_is_true(package: Package) -> Found:
    """Rates that differ or are missing."""
    for name, choice, track in variants(package):
        told = choice.number("FRAME-RATE")
        if track.kind != "picture" or track.rate is None:
            continue
        if told is None or abs(told - float(track.rate)) > RATE_SLACK:
            text = f"FRAME-RATE is {choice.get('FRAME-RATE') or 'missing'}"
            yield name, f"{text}, and there are {float(track.rate):.3f} frames a second"


@rule(
    "C27.range",
    "VIDEO-RANGE is that of the picture",
    "master",
    "pictures",
    hint="Write VIDEO-RANGE=PQ or HLG for HDR, and SDR for the rest.",
)
def range_is_true(package: Package) -> Found:
    """Without the attribute a player takes it for SDR."""
    for name, choice, track in variants(package):
        if track.kind != "picture" or not track.told:
            continue
        real = RANGES.get(str(track.told.get("color_transfer", "")), "SDR")
        if (choice.get("VIDEO-RANGE") or "SDR") != real:
            yield name, f"VIDEO-RANGE is {choice.get('VIDEO-RANGE') or 'missing'}, and the picture is {real}"


@rule(
    "C27.captions",
    "Variants say whether there are captions in the picture",
    "master",
    "pictures",
    severity="warning",
    hint="Write CLOSED-CAPTIONS=NONE, or the group of the captions.",
)
def captions_are_told(package: Package) -> Found:
    """Without it players offer captions that do not exist."""
    for name, choice, track in variants(package):
        if track.kind == "picture" and not choice.get("CLOSED-CAPTIONS"):
            yield name, "CLOSED-CAPTIONS is missing"


@rule(
    "C27.language",
    "Every rendition of sound and text has a language",
    "master",
    hint="Write LANGUAGE in every EXT-X-MEDIA line; und if nobody knows.",
)
def languages_are_told(package: Package) -> Found:
    """Lines without LANGUAGE."""
    for choice in package.master.of("media") if package.master else ():
        if choice.get("TYPE") != "VIDEO" and not choice.get("LANGUAGE"):
            yield choice.get("NAME") or choice.uri or "", "LANGUAGE is missing"
