"""Checks a package: gathers its facts, decodes it, compares it with its source, and asks every rule."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from takeup.media.abilities import decoders
from takeup.media.binaries import Binaries
from takeup.media.check.access import Access
from takeup.media.check.compare import Compared, Original, compare, look_into
from takeup.media.check.decode import Decoded, decode, lacking
from takeup.media.check.package import Package, gather
from takeup.media.check.places import places
from takeup.media.check.quality import PLACES, Meter
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
    measuring: Binaries | None = None
    """The tools that measure how good every rung is, if that is asked for."""


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
            original = await _compare(package, tools, against, folder, tell)
            if against.measuring is not None:
                measuring = replace(tools, binaries=against.measuring)
                await _measure(package, measuring, original, folder, tell)
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
                **({"vmaf": package.quality[track.name]} if track.name in package.quality else {}),
            }
            for track in package.tracks
        ],
    }


def _counter(what: str, total: int, tell: Callable[[Step], None]) -> Callable[[int], None]:
    """Adds up the frames that are done, and tells how far that is."""
    done = 0

    def count(frames: int) -> None:
        nonlocal done
        done += frames
        tell(Step(what, done, total))

    return count


async def _decode(package: Package, tools: Tools, folder: Path, tell: Callable[[Step], None]) -> None:
    tracks = [*package.pictures, *package.sounds]
    frames = _counter("decode", sum(track.count for track in tracks), tell)
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
) -> Original:
    compared = Compared(await look_into(tools, against.source, folder, against.frames))
    package.compared = compared
    rungs = None if against.is_thorough else 1
    listed = await decoders(tools.binaries)
    tracks = [track for track in package.pictures if not lacking(track, listed)]
    chosen = [(track, places(track, compared.index, against.sample)) for track in tracks[:rungs]]
    total = sum(place.count for _, there in chosen for place in there)
    frames = _counter("compare", total, tell)
    for track, there in chosen:
        await compare(package.access, tools, track, there, compared, folder, on_frames=frames)
    return compared.original


async def _measure(
    package: Package, tools: Tools, original: Original, folder: Path, tell: Callable[[Step], None]
) -> None:
    """How good every rung is; the scale of VMAF is made for SDR."""
    listed = await decoders(tools.binaries)
    can_be = original.probe.video is not None and not original.probe.video.hdr
    tracks = [track for track in package.pictures if can_be and not lacking(track, listed)]
    chosen = [(track, places(track, original.index, PLACES)) for track in tracks]
    total = sum(place.count for _, there in chosen for place in there)
    frames = _counter("measure", total, tell)
    if not tracks:
        return
    largest = tracks[-1].told
    size = int(largest["width"]), int(largest["height"])
    meter = Meter(package.access, tools, original, size, folder)
    for track, there in chosen:
        package.quality[track.name] = await meter.measure(track, there, on_frames=frames)
