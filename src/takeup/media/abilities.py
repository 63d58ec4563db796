"""What the tools can really do here: each encoder makes one frame, for a list of names proves nothing."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from takeup.child.guard import Guard
from takeup.child.run import Ended, Watch, run_child
from takeup.media.binaries import Binaries, may_measure
from takeup.media.encoders import ENCODERS, Encoder, Range
from takeup.media.errors import NoTools
from takeup.media.ladder import Rung
from takeup.media.options import options
from takeup.media.tools import ENVIRONMENT

AUDIO_ENCODERS = ("aac", "libopus")
FILTERS = ("scale", "fps", "bwdif", "tonemap", "zscale", "loudnorm", "drawtext", "subtitles")
TRY_S_MAX = 20.0
TRY_SIZE, TRY_CRF, TRY_KBPS, TRY_KEYS = (320, 180), 30, 1000, 25
FILTER_LINE = re.compile(r"^ [.A-Z|]{2,3} (\w+) ")
DECODER_LINE = re.compile(r"^ [VAS][.A-Z]{5} (\S+) ")
VERSION_LINE = re.compile(r"ffmpeg version (\S+)")

Way = tuple[str, Range]
"""An encoder and the range it is used for: many can do 8 bits and not 10."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What was tried and worked."""

    version: str
    pictures: frozenset[Way]
    sounds: tuple[str, ...]
    filters: tuple[str, ...]


async def abilities(binaries: Binaries) -> Abilities:
    """Try everything once; takes some seconds."""
    version = VERSION_LINE.search((await _ask(binaries, "-version")).stdout)
    if version is None:
        raise NoTools(f"{binaries.ffmpeg} is not ffmpeg: it does not say its version")
    listed = {
        match[1]
        for line in (await _ask(binaries, "-filters")).stdout.splitlines()
        if (match := FILTER_LINE.match(line))
    }
    ranges: tuple[Range, ...] = ("sdr", "hdr")
    ways = [
        (name, one) for name in ENCODERS for one in ranges if (ENCODERS[name].codec, one) != ("h264", "hdr")
    ]
    sounds = [name for name in AUDIO_ENCODERS if await _encodes_sound(binaries, name)]
    filters = tuple(name for name in FILTERS if name in listed)
    return Abilities(version[1], await working(binaries, ways), tuple(sounds), filters)


async def working(binaries: Binaries, ways: Collection[Way]) -> frozenset[Way]:
    """Which of these encoders make a frame, with the options that they get for a rung."""
    return frozenset([way for way in ways if await _encodes(binaries, *way)])


async def maps_colours(binaries: Binaries) -> bool:
    """Whether the scaler can bring bright pictures (HDR) to what every screen shows; since FFmpeg 8."""
    return "out_transfer" in (await _ask(binaries, "-hide_banner", "-h", "filter=scale")).stdout


async def decoders(binaries: Binaries) -> frozenset[str]:
    """The decoders it has, by name; some of them need hardware."""
    lines = (await _ask(binaries, "-hide_banner", "-decoders")).stdout.splitlines()
    return frozenset(match[1] for line in lines if (match := DECODER_LINE.match(line)))


async def find_vmaf(binaries: Binaries) -> Binaries | None:
    """The tools with an ffmpeg that measures VMAF; each is tried on a picture."""
    picture = ("-f", "lavfi", "-i", f"color=size={TRY_SIZE[0]}x{TRY_SIZE[1]}:duration=0.1")
    for tools in may_measure(binaries):
        ended = await _ask(
            tools, "-v", "error", "-nostdin", *picture, *picture, "-lavfi", "libvmaf", "-f", "null", "-"
        )
        if ended.exit_code == 0:
            return tools
    return None


async def _encodes(binaries: Binaries, name: str, picture_range: Range) -> bool:
    encoder = ENCODERS[name]
    form = encoder.pixel_format(picture_range) + (",hwupload" if encoder.uploads else "")
    width, height = TRY_SIZE
    source = f"color=size={width}x{height}:rate={TRY_KEYS}"
    ended = await _ask(
        binaries, "-v", "error", "-nostdin", *encoder.device, "-f", "lavfi", "-i", source,
        "-vf", f"scale,format={form}", "-frames:v", "1", *options(_rung(encoder, picture_range), TRY_KEYS),
        "-f", "null", "-", devices=encoder.devices,
    )  # fmt: skip
    return ended.exit_code == 0


def _rung(encoder: Encoder, picture_range: Range) -> Rung:
    return Rung(
        name="try",
        width=TRY_SIZE[0],
        height=TRY_SIZE[1],
        codec=encoder.codec,
        encoder=encoder.name,
        preset=encoder.presets[0],
        range=picture_range,
        is_critical=False,
        crf=TRY_CRF,
        max_kbps=TRY_KBPS,
        buffer_kbits=TRY_KBPS,
    )


async def _encodes_sound(binaries: Binaries, name: str) -> bool:
    source = ("-f", "lavfi", "-i", "anullsrc=r=48000:cl=stereo", "-t", "0.1")
    ended = await _ask(binaries, "-v", "error", "-nostdin", *source, "-c:a", name, "-f", "null", "-")
    return ended.exit_code == 0


async def _ask(binaries: Binaries, *arguments: str, devices: tuple[Path, ...] = ()) -> Ended:
    command = (str(binaries.ffmpeg), *arguments)
    guard = Guard(devices=devices)
    return await run_child(command, guard=guard, env=ENVIRONMENT, watch=Watch(wall_s=TRY_S_MAX))
