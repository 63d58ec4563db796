"""Checks a package: gathers its facts, decodes it, compares it with its source, and asks every rule."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from takeup.media.abilities import decoders
from takeup.media.check.access import Access
from takeup.media.check.compare import Compared, compare, look_into
from takeup.media.check.decode import Decoded, decode, lacking
from takeup.media.check.package import Package, gather
from takeup.media.check.places import places
from takeup.media.check.report import Report, verdict_of
from takeup.media.check.rules import RULES
from takeup.media.index import Index
from takeup.media.source import Source
from takeup.media.tools import Tools


@dataclass(frozen=True, slots=True)
class Step:
    """How far a check is: what it does, and how much of it is done."""

    what: str
    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class Against:
    """The source that a package is compared with, and how much of it."""

    source: Source
    frames: Index | None = None
    """Those of the source, if they are known already."""
    is_thorough: bool = False
    """Every rung is compared, not the smallest alone."""
    sample: int | None = None
    """In how many places, evenly spread, instead of everywhere."""


async def check(
    access: Access,
    tools: Tools,
    against: Against | None = None,
    *,
    decodes: bool = True,
    on_progress: Callable[[Step], None] | None = None,
) -> Report:
    """Judge a package; with its source also the pictures."""
    tell = on_progress or (lambda _step: None)
    with tempfile.TemporaryDirectory(prefix="takeup-check-") as name:
        folder = Path(name)
        count = 0

        def piece(_name: str) -> None:
            nonlocal count
            count += 1
            tell(Step("read", count, None))

        package = await gather(access, tools, folder, on_piece=piece)
        if decodes:
            await _decode(package, tools, folder, tell)
        if against is not None:
            await _compare(package, tools, against, folder, tell)
    return judge(package)


def judge(package: Package) -> Report:
    """The verdict of every rule on what is known."""
    return Report(tuple(verdict_of(rule, package) for rule in RULES), facts(package))


def facts(package: Package) -> dict[str, Any]:
    """What the package is, in short."""
    return {
        "hls": package.name(package.master_at) if package.master else bool(package.playlists),
        "dash": package.name(package.manifest_at) if package.manifest else False,
        "tracks": [
            {
                "name": track.name,
                "kind": track.kind,
                "codec": track.header.codec if track.header else track.told.get("codec_name", ""),
                "pieces": len(track.pieces),
                "samples": track.count,
                "length_s": round(float(track.length_s), 6),
                "bytes": track.size,
            }
            for track in package.tracks
        ],
    }


async def _decode(package: Package, tools: Tools, folder: Path, tell: Callable[[Step], None]) -> None:
    tracks = [*package.pictures, *package.sounds]
    total, done = sum(track.count for track in tracks), 0

    def frames(count: int) -> None:
        nonlocal done
        done += count
        tell(Step("decode", done, total))

    package.decoded = {}
    listed = await decoders(tools.binaries)
    for track in tracks:
        why = lacking(track, listed)
        found = Decoded(skipped=why)
        if not why:
            found = await decode(package.access, tools, track, folder, on_frames=frames)
        package.decoded[track.name] = found


async def _compare(
    package: Package, tools: Tools, against: Against, folder: Path, tell: Callable[[Step], None]
) -> None:
    compared = Compared(await look_into(tools, against.source, folder, against.frames))
    package.compared = compared
    rungs = None if against.is_thorough else 1
    listed = await decoders(tools.binaries)
    tracks = [track for track in package.pictures if not lacking(track, listed)]
    chosen = [(track, places(track, compared.index, against.sample)) for track in tracks[:rungs]]
    total = sum(place.count for _, there in chosen for place in there)
    done = 0

    def frames(count: int) -> None:
        nonlocal done
        done += count
        tell(Step("compare", done, total))

    for track, there in chosen:
        await compare(package.access, tools, track, there, compared, folder, on_frames=frames)
