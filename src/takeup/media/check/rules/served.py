"""Rules of serving: how a server hands the files out."""

from collections.abc import Iterator

from takeup.media.check.package import Package
from takeup.media.check.rule import rule

Found = Iterator[tuple[str, str]]
LISTS = (".m3u8", ".mpd")
LONG_BYTES = 4096
KINDS = {
    ".m3u8": ("application/vnd.apple.mpegurl", "application/x-mpegurl", "audio/mpegurl"),
    ".mpd": ("application/dash+xml",),
}


@rule(
    "C30.cache",
    "Pieces may be kept, playlists not for long",
    "server",
    severity="warning",
    hint="Serve pieces with Cache-Control: immutable and playlists with a short max-age.",
)
def caching_is_told(package: Package) -> Found:
    """Files without Cache-Control, one of each kind."""
    for is_list in (True, False):
        bare = [
            address
            for address, served in package.access.served.items()
            if _path(address).endswith(LISTS) == is_list and not served.cache
        ]
        if bare:
            yield package.name(bare[0]), f"it and {len(bare) - 1} like it have no Cache-Control"


@rule(
    "C30.type",
    "Playlists and manifests have their content type",
    "server",
    severity="warning",
    hint="Serve .m3u8 as application/vnd.apple.mpegurl and .mpd as application/dash+xml.",
)
def types_are_told(package: Package) -> Found:
    """Types that browsers refuse to play."""
    for address, served in package.access.served.items():
        for ending, kinds in KINDS.items():
            if _path(address).endswith(ending) and served.kind.partition(";")[0].strip().lower() not in kinds:
                yield package.name(address), f"its content type is {served.kind or 'missing'}"


@rule(
    "C30.packed",
    "Long playlists are compressed",
    "server",
    severity="warning",
    hint="Serve .m3u8 and .mpd with Content-Encoding: gzip; they shrink to a tenth.",
)
def lists_are_packed(package: Package) -> Found:
    """Playlists that are sent as they are, though gzip was asked for."""
    for address, served in package.access.served.items():
        if _path(address).endswith(LISTS) and served.size > LONG_BYTES and not served.encoding:
            yield package.name(address), f"its {served.size} bytes are sent as they are"


def _path(address: str) -> str:
    return address.partition("?")[0]
