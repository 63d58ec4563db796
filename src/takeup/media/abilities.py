"""What the tools can really do here: each encoder makes one frame, for a list of names proves nothing."""

import re
from dataclasses import dataclass

from takeup.child.guard import Guard
from takeup.child.run import Ended, Watch, run_child
from takeup.media.binaries import Binaries
from takeup.media.errors import NoTools
from takeup.media.tools import ENVIRONMENT

VIDEO_ENCODERS = ("libx264", "libx265", "libsvtav1", "libvpx-vp9")
AUDIO_ENCODERS = ("aac", "libopus")
FILTERS = ("scale", "fps", "bwdif", "tonemap", "zscale", "libvmaf", "loudnorm", "drawtext", "subtitles")
TRY_S_MAX = 20.0
FILTER_LINE = re.compile(r"^ [.A-Z|]{2,3} (\w+) ")
VERSION_LINE = re.compile(r"ffmpeg version (\S+)")


@dataclass(frozen=True, slots=True)
class Abilities:
    """What was tried and worked."""

    version: str
    encoders: tuple[str, ...]
    filters: tuple[str, ...]


async def abilities(binaries: Binaries) -> Abilities:
    """Try everything once; takes about a second."""
    version = VERSION_LINE.search((await _ask(binaries, "-version")).stdout)
    if version is None:
        raise NoTools(f"{binaries.ffmpeg} is not ffmpeg: it does not say its version")
    listed = {
        match[1]
        for line in (await _ask(binaries, "-filters")).stdout.splitlines()
        if (match := FILTER_LINE.match(line))
    }
    tried = [
        *((name, ("color=size=320x180:rate=25", "-frames:v", "1", "-c:v", name)) for name in VIDEO_ENCODERS),
        *((name, ("anullsrc=r=48000:cl=stereo", "-t", "0.1", "-c:a", name)) for name in AUDIO_ENCODERS),
    ]
    works = [name for name, arguments in tried if await _encodes(binaries, arguments)]
    return Abilities(version[1], tuple(works), tuple(name for name in FILTERS if name in listed))


async def maps_colours(binaries: Binaries) -> bool:
    """Whether the scaler can bring bright pictures (HDR) to what every screen shows; since FFmpeg 8."""
    return "out_transfer" in (await _ask(binaries, "-hide_banner", "-h", "filter=scale")).stdout


async def _encodes(binaries: Binaries, arguments: tuple[str, ...]) -> bool:
    ended = await _ask(
        binaries, "-v", "error", "-nostdin", "-f", "lavfi", "-i", *arguments, "-f", "null", "-"
    )
    return ended.exit_code == 0


async def _ask(binaries: Binaries, *arguments: str) -> Ended:
    command = (str(binaries.ffmpeg), *arguments)
    return await run_child(command, guard=Guard(), env=ENVIRONMENT, watch=Watch(wall_s=TRY_S_MAX))
