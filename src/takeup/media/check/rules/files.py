"""Rules of files: what is named is there, inside the package, whole, and can be decoded."""

from collections.abc import Iterator

from takeup.media.check.package import Package
from takeup.media.check.rule import rule

Found = Iterator[tuple[str, str]]


@rule(
    "C36.files",
    "Every file that is named is there",
    hint="Write the missing file, or leave it out of the playlist.",
)
def files_are_there(package: Package) -> Found:
    """Missing files and ranges."""
    yield from _faults(package, "missing")


@rule(
    "C38.outside",
    "No address leads out of the package",
    hint="Name files by relative paths below the playlist.",
)
def nothing_outside(package: Package) -> Found:
    """Paths, links and servers outside."""
    yield from _faults(package, "outside")


@rule(
    "C20.whole",
    "Every piece is whole and holds what its boxes list",
    hint="Package the piece again; it was cut off or damaged.",
)
def pieces_are_whole(package: Package) -> Found:
    """Pieces whose boxes make no sense."""
    yield from _faults(package, "broken")


@rule("C23.syntax", "Playlists can be read", "hls", hint="Write the playlist as RFC 8216 says.")
def playlists_are_read(package: Package) -> Found:
    """What is wrong with lines of playlists."""
    yield from _faults(package, "playlist")
    if package.master:
        yield from ((package.name(package.master_at), fault) for fault in package.master.faults)
    for address, playlist in package.playlists.items():
        yield from ((package.name(address), fault) for fault in playlist.faults)
        if playlist.is_encrypted:
            yield package.name(address), "its pieces are encrypted, so what is in them was not judged"


@rule("C34.syntax", "The manifest can be read", hint="Write the manifest as ISO/IEC 23009-1 says.")
def manifest_is_read(package: Package) -> Found:
    """A manifest that makes no sense."""
    yield from _faults(package, "manifest")


@rule(
    "C36.decode",
    "Everything decodes without an error",
    "decoded",
    hint="Encode the piece again; a player would stop or show rubbish here.",
)
def everything_decodes(package: Package) -> Found:
    """What the decoder complained of."""
    for found in (package.decoded or {}).values():
        yield from found.faults


@rule(
    "C36.seen",
    "Every track was decoded",
    "decoded",
    severity="warning",
    hint="Check it with an ffmpeg that has the decoder, such as libdav1d.",
)
def everything_was_decoded(package: Package) -> Found:
    """Tracks that this machine cannot decode."""
    for name, found in (package.decoded or {}).items():
        if found.skipped:
            yield name, f"{found.skipped}, so it was not decoded"


@rule(
    "C36.frames",
    "As many pictures come out of the decoder as the boxes list",
    "decoded",
    "pictures",
    hint="Encode the rung again; pictures are lost or hidden.",
)
def every_picture_comes_out(package: Package) -> Found:
    """Counts that differ."""
    for name, found in (package.decoded or {}).items():
        if not found.faults and found.frames != found.wanted:
            yield name, f"{found.frames} pictures came out of {found.wanted}"


def _faults(package: Package, kind: str) -> Found:
    yield from ((fault.where, fault.message) for fault in package.faults if fault.kind == kind)
