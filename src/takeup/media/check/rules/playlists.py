"""Rules of HLS media playlists: the tags that a player needs to know what it has."""

from collections.abc import Iterator

from takeup.media.check.package import Package
from takeup.media.check.rule import rule

Found = Iterator[tuple[str, str]]
MAP_VERSION, KEYS_VERSION, RANGE_VERSION, DECIMAL_VERSION = 6, 4, 4, 3
LENGTH_MAX_S = 10
HALF = 0.5


@rule(
    "C23.version",
    "The version fits what the playlist uses",
    "hls",
    hint="Write EXT-X-VERSION 7 for fragmented MP4.",
)
def version_fits(package: Package) -> Found:
    """Features of later versions."""
    for address, playlist in package.playlists.items():
        has_map = any(entry.header for entry in playlist.entries)
        needed = max(
            MAP_VERSION if has_map and not playlist.has_only_keys else 1,
            KEYS_VERSION if playlist.has_only_keys else 1,
            RANGE_VERSION if any(entry.file.span for entry in playlist.entries) else 1,
            DECIMAL_VERSION if any(entry.length_s.denominator > 1 for entry in playlist.entries) else 1,
        )
        if playlist.version < needed:
            yield package.name(address), f"it is of version {playlist.version} and needs {needed}"


@rule(
    "C23.map",
    "Fragmented MP4 has its header named",
    "hls",
    hint="Write EXT-X-MAP before the first piece.",
)
def header_is_named(package: Package) -> Found:
    """Pieces of fragmented MP4 without EXT-X-MAP."""
    for address, playlist in package.playlists.items():
        track = package.by_playlist.get(address)
        is_other = track is not None and track.header is None and track.kind == "unknown"
        is_key_list = playlist.has_only_keys and package.tracks and package.tracks[0].is_boxed
        if (is_other or is_key_list) and any(entry.header is None for entry in playlist.entries):
            yield package.name(address), "EXT-X-MAP is missing"


@rule(
    "C23.type",
    "The playlist says that it is complete from the start",
    "hls",
    severity="warning",
    hint="Write EXT-X-PLAYLIST-TYPE:VOD.",
)
def type_is_vod(package: Package) -> Found:
    """Playlists that a player may expect to change."""
    for address, playlist in package.playlists.items():
        if playlist.kind != "VOD":
            yield package.name(address), f"its type is {playlist.kind or 'not told'}"


@rule("C23.end", "The playlist has an end", "hls", hint="Write EXT-X-ENDLIST as the last line.")
def list_is_ended(package: Package) -> Found:
    """Playlists that look live."""
    for address, playlist in package.playlists.items():
        if not playlist.is_ended:
            yield package.name(address), "EXT-X-ENDLIST is missing"


@rule(
    "C23.independent",
    "The playlist says that pieces need no others",
    "hls",
    "pictures",
    severity="warning",
    hint="Write EXT-X-INDEPENDENT-SEGMENTS in the master playlist.",
)
def pieces_are_independent(package: Package) -> Found:
    """Said in the master playlist, or in every other one."""
    if package.master and package.master.is_independent:
        return
    for address in package.by_playlist:
        if not package.playlists[address].is_independent:
            yield package.name(address), "EXT-X-INDEPENDENT-SEGMENTS is missing"


@rule(
    "C24.target",
    "No piece is longer than the target duration",
    "hls",
    hint="Write EXT-X-TARGETDURATION as the longest EXTINF, rounded.",
)
def target_is_enough(package: Package) -> Found:
    """EXTINF, rounded to whole seconds, against the target."""
    for address, playlist in package.playlists.items():
        longest = max((entry.length_s for entry in playlist.entries), default=None)
        if longest is not None and playlist.target is not None and int(longest + HALF) > playlist.target:
            text = f"a piece lasts {float(longest):.3f} s, and the target is {playlist.target}"
            yield package.name(address), text


@rule(
    "C24.same",
    "The target duration is the same in all variants",
    "variants",
    hint="Write the largest of them into every playlist.",
)
def targets_are_the_same(package: Package) -> Found:
    """Targets that differ among the tracks of picture and sound."""
    targets = {address: package.playlists[address].target for address in package.by_playlist}
    if len(set(targets.values())) > 1:
        listed = ", ".join(f"{package.name(address)} {target}" for address, target in targets.items())
        yield package.name(package.master_at), f"the targets differ: {listed}"


@rule(
    "C31.length",
    "Pieces last about six seconds",
    "hls",
    severity="warning",
    hint="Cut pieces of about six seconds; longer ones make switching slow.",
)
def pieces_are_short(package: Package) -> Found:
    """Long targets."""
    for address in package.by_playlist:
        target = package.playlists[address].target
        if target is not None and target > LENGTH_MAX_S:
            yield package.name(address), f"the target duration is {target} s"


@rule(
    "C28.exist",
    "There are I-frame playlists",
    "master",
    "pictures",
    severity="warning",
    hint="Write EXT-X-I-FRAME-STREAM-INF, so that players can show pictures while seeking.",
)
def key_lists_exist(package: Package) -> Found:
    """A master playlist without any."""
    if package.master and not package.master.of("keys"):
        yield package.name(package.master_at), "there is no EXT-X-I-FRAME-STREAM-INF"


@rule(
    "C28.range",
    "Byte ranges of I-frame playlists hold one I-frame and nothing else",
    "keys",
    "boxes",
    hint="Write the range from the start of the fragment to the end of its first sample.",
)
def ranges_hold_one_key(package: Package) -> Found:
    """Ranges against the fragments in the files."""
    places = {
        (piece.address, fragment.place + (piece.span.start if piece.span else 0)): fragment
        for track in package.pictures
        for piece in track.read
        for fragment in piece.fragments
    }
    for address, playlist in package.playlists.items():
        for entry in playlist.entries if playlist.has_only_keys else ():
            file, span = package.joined(address, entry.file.uri), entry.file.span
            fragment = places.get((file, span.start if span else 0))
            if fragment is None:
                where = f"byte {span.start if span else 0} of {entry.file.uri}"
                yield package.name(address), f"no fragment begins at {where}"
            elif span is None or span.length != fragment.reach:
                length = span.length if span else "all"
                text = f"{length} bytes of {entry.file.uri} are named, and the I-frame ends after"
                yield package.name(address), f"{text} {fragment.reach}"


@rule(
    "C28.every",
    "Every key is in the I-frame playlist",
    "keys",
    "boxes",
    severity="warning",
    hint="List every fragment that begins with a key.",
)
def every_key_is_listed(package: Package) -> Found:
    """Counts against the keys of the track in the same files."""
    for address, playlist in package.playlists.items():
        if not playlist.has_only_keys:
            continue
        files = {package.joined(address, entry.file.uri) for entry in playlist.entries}
        for track in package.pictures:
            if {piece.address for piece in track.read} == files:
                count = sum(len(piece.keys) for piece in track.read)
                if count != len(playlist.entries):
                    yield package.name(address), f"it lists {len(playlist.entries)} of {count} keys"
