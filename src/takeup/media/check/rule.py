"""A rule: its id from the checklist, how bad it is, and a function from facts of a package to findings."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from takeup.media.check.package import Package

Severity = Literal["error", "warning"]
Find = Callable[[Package], Iterable[tuple[str, str]]]

NEEDS: dict[str, tuple[str, Callable[[Package], bool]]] = {
    "hls": ("there is no HLS playlist", lambda p: bool(p.playlists)),
    "master": ("there is no HLS master playlist", lambda p: p.master is not None),
    "variants": (
        "there are not several HLS variants",
        lambda p: p.master is not None and len(p.master.of("variant")) > 1,
    ),
    "dash": ("there is no DASH manifest", lambda p: p.manifest is not None),
    "pictures": ("there is no picture", lambda p: bool(p.pictures)),
    "rungs": ("there are not several sizes of the picture", lambda p: len(p.pictures) > 1),
    "sounds": ("there is no sound", lambda p: bool(p.sounds)),
    "tracks": ("there are not several tracks", lambda p: len(p.pictures) + len(p.sounds) > 1),
    "boxes": ("it is not fragmented MP4", lambda p: any(track.is_boxed for track in p.tracks)),
    "keys": (
        "there is no I-frame playlist",
        lambda p: any(playlist.has_only_keys for playlist in p.playlists.values()),
    ),
    "texts": ("there is no segmented text", lambda p: bool(p.texts)),
    "server": ("it was not read from a server", lambda p: bool(p.access.served)),
    "decoded": ("nothing was decoded", lambda p: p.decoded is not None),
    "source": ("no source was given", lambda p: p.compared is not None),
    "frames": (
        "there are no frames of a source to compare with",
        lambda p: p.compared is not None and p.compared.index is not None,
    ),
    "compared": (
        "no picture was compared",
        lambda p: p.compared is not None and bool(p.compared.frames or p.compared.faults),
    ),
}
"""What a rule may need: why it does not apply without, and whether it is there."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that must be right."""

    id: str
    severity: Severity
    title: str
    needs: tuple[str, ...]
    hint: str
    find: Find

    def unmet(self, package: Package) -> str:
        """Why it does not apply; empty if it does."""
        return next((NEEDS[need][0] for need in self.needs if not NEEDS[need][1](package)), "")


def rule(
    number: str, title: str, *needs: str, hint: str, severity: Severity = "error"
) -> Callable[[Find], Rule]:
    """Make a rule of a function that yields where something is wrong and what."""

    def made(find: Find) -> Rule:
        return Rule(number, severity, title, needs, hint, find)

    return made
