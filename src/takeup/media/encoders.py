"""The encoders that a profile may name: what each of them makes, and which are tried in which order."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Codec = Literal["h264", "hevc", "av1"]
Range = Literal["sdr", "hdr"]

AUTO, HARDWARE = "auto", "hardware"
"""What a profile says instead of a name: the usual program, or the machine's own encoder where one works."""
X_PRESETS = (
    "ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow",
)  # fmt: skip
SVT_PRESETS = tuple(str(number) for number in range(14))
NVENC_PRESETS, QSV_PRESETS, VAAPI_PRESETS = ("p5",), ("medium",), ("4",)
EIGHT_BIT, TEN_BIT = "yuv420p", "yuv420p10le"
CARDS_MAX = 8
GRAPHICS = tuple(
    Path("/dev", name)
    for name in ("dri", "nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in range(CARDS_MAX)))
)


@dataclass(frozen=True, slots=True)
class Encoder:
    """One encoder of ffmpeg."""

    name: str
    codec: Codec
    presets: tuple[str, ...]
    pixels: tuple[str, str] = (EIGHT_BIT, TEN_BIT)
    """In which form it takes pictures of 8 and of 10 bits."""
    device: tuple[str, ...] = ()
    """Options that open the hardware."""
    uploads: bool = False
    """Whether pictures are moved to the hardware before they are encoded."""

    @property
    def is_hardware(self) -> bool:
        """Whether it is a part of the machine and not a program."""
        return not self.name.startswith("lib")

    @property
    def devices(self) -> tuple[Path, ...]:
        """What of the machine it works with."""
        return GRAPHICS if self.is_hardware else ()

    def pixel_format(self, picture_range: Range) -> str:
        """The form of pixels it gets: HDR needs ten bits, everything plays eight."""
        return self.pixels[picture_range == "hdr"]


def _hardware(codec: Codec) -> tuple[Encoder, ...]:
    at = ("-init_hw_device", "vaapi=gpu:/dev/dri/renderD128", "-filter_hw_device", "gpu")
    return (
        Encoder(f"{codec}_nvenc", codec, NVENC_PRESETS, (EIGHT_BIT, "p010le")),
        Encoder(f"{codec}_qsv", codec, QSV_PRESETS, ("nv12", "p010le")),
        Encoder(f"{codec}_vaapi", codec, VAAPI_PRESETS, ("nv12", "p010le"), at, uploads=True),
    )


SOFTWARE: dict[str, Encoder] = {
    "h264": Encoder("libx264", "h264", X_PRESETS),
    "hevc": Encoder("libx265", "hevc", X_PRESETS),
    "av1": Encoder("libsvtav1", "av1", SVT_PRESETS),
}
CODECS: tuple[Codec, ...] = ("h264", "hevc", "av1")
ENCODERS: dict[str, Encoder] = {
    one.name: one for codec in CODECS for one in (SOFTWARE[codec], *_hardware(codec))
}
"""All of them; a profile names one, never an option of its own."""


def candidates(codec: str, wanted: str) -> tuple[Encoder, ...]:
    """Which encoders would do, the best first."""
    if wanted == HARDWARE:
        return (*(e for e in ENCODERS.values() if e.codec == codec and e.is_hardware), SOFTWARE[codec])
    return (SOFTWARE[codec] if wanted == AUTO else ENCODERS[wanted],)
