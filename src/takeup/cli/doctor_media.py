"""What `takeup doctor` says of ffmpeg and of how far its children are confined."""

from collections.abc import AsyncIterator

from takeup.child.guard import confinement
from takeup.cli.finding import Finding
from takeup.config import Settings
from takeup.core.errors import TakeupError
from takeup.media.abilities import abilities
from takeup.media.binaries import find

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
    missing = [name for name in NEEDED if name not in found.encoders]
    if missing:
        advice = "Install an ffmpeg that has it, or takeup[ffmpeg], which brings one."
        yield Finding("warn", "encoders", f"{', '.join(missing)} does not work", advice)
    else:
        filters = ", ".join(found.filters)
        yield Finding("ok", "encoders", f"{', '.join(found.encoders)} made a frame each; filters: {filters}")
    if confinement() == "landlock":
        yield Finding("ok", "sandbox", "limits, and Landlock: ffmpeg sees its own files and no network")
    else:
        advice = "Linux 5.13 or newer with Landlock confines ffmpeg to its own files."
        yield Finding("warn", "sandbox", "limits alone: this kernel has no Landlock", advice)
