"""What `takeup doctor` says of ffmpeg and of how far its children are confined."""

from collections.abc import AsyncIterator

from takeup.child.guard import NoSandbox, confinement
from takeup.child.trial import can_wait
from takeup.cli.finding import Finding
from takeup.config import Settings
from takeup.core.errors import TakeupError
from takeup.media.abilities import Abilities, abilities, find_vmaf
from takeup.media.binaries import Binaries, find
from takeup.media.encoders import CODECS, ENCODERS

NEEDED = ("libx264", "aac")


async def check_media(settings: Settings) -> AsyncIterator[Finding]:
    """The tools, what they can do, and their sandbox."""
    try:
        binaries = find(settings.ffmpeg_path, settings.ffprobe_path)
        found = await abilities(binaries)
    except TakeupError as error:
        yield Finding("warn", "ffmpeg", str(error), error.help)
        return
    yield Finding("ok", "ffmpeg", f"{found.version} from {binaries.origin}: {binaries.ffmpeg}")
    yield _encoders(found)
    yield Finding("ok", "filters", ", ".join(found.filters))
    yield await _vmaf(binaries)
    yield _sandbox(settings)
    yield await _sparse(settings)


async def _vmaf(binaries: Binaries) -> Finding:
    found = await find_vmaf(binaries)
    if found is None:
        return Finding("ok", "vmaf", "not measured here; takeup[quality] brings an ffmpeg that does")
    return Finding("ok", "vmaf", f"measured by the ffmpeg of {found.origin}: {found.ffmpeg}")


def _sandbox(settings: Settings) -> Finding:
    try:
        level = confinement(settings.sandbox)
    except NoSandbox as error:
        return Finding("fail", "sandbox", f"{error}; no worker starts", error.help)
    if level == "limits":
        why = "TAKEUP_SANDBOX is off" if settings.sandbox == "off" else "this kernel has no Landlock"
        return Finding("warn", "sandbox", f"limits alone: {why}", NoSandbox.help)
    room = "bubblewrap and " if level == "bubblewrap" else ""
    return Finding("ok", "sandbox", f"limits, {room}Landlock: ffmpeg sees its own files and no network")


async def _sparse(settings: Settings) -> Finding:
    if await can_wait(settings.sandbox):
        return Finding("ok", "sparse", "ffmpeg waits for what it reads; of a server's file no more comes")
    return Finding("ok", "sparse", "not here: a worker elsewhere would fetch files of its server whole")


def _encoders(found: Abilities) -> Finding:
    missing = [name for name in NEEDED if name not in {*found.sounds, *(name for name, _ in found.pictures)}]
    if missing:
        advice = "Install an ffmpeg that has it, or takeup[ffmpeg], which brings one."
        return Finding("warn", "encoders", f"{', '.join(missing)} does not work", advice)
    codecs = []
    for codec in CODECS:
        works = [
            name for name, one in ENCODERS.items() if one.codec == codec and (name, "sdr") in found.pictures
        ]
        deep = [name for name in works if (name, "hdr") in found.pictures]
        told = ", ".join(f"{name} (8 and 10 bit)" if name in deep else name for name in works)
        codecs.append(f"{codec} by {told or 'nothing'}")
    return Finding(
        "ok", "encoders", f"each made a frame: {'; '.join(codecs)}; sound by {', '.join(found.sounds)}"
    )
