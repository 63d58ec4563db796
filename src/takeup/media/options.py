"""What each encoder is told: keys on the grid and nowhere else, capped quality, the same bytes every time."""

from takeup.media.encoders import ENCODERS, Encoder
from takeup.media.ladder import Rung

LATER_FILL = 0.4
"""How full a player's buffer is taken to be where a later segment begins: the one before may have ended with
pictures that took a lot, so it is less than an encoder would assume."""
FIRST_FILL = 0.9


def options(rung: Rung, keys_every: int, *, is_first: bool = True) -> list[str]:
    """The encoder of one output and all its options."""
    encoder = ENCODERS[rung.encoder]
    fill = FIRST_FILL if is_first else LATER_FILL
    capped = ["-maxrate", f"{rung.max_kbps}k", "-bufsize", f"{rung.buffer_kbits}k"]
    if encoder.name == "libx264":
        special = _x264(rung, keys_every, fill)
    elif encoder.name == "libx265":
        special = _x265(rung, keys_every, fill)
    elif encoder.name == "libsvtav1":
        special = _svt(rung, keys_every)
    else:
        special = _hardware(rung, keys_every)
    return ["-c:v", encoder.name, *special, *capped, *_pixels(encoder, rung)]


def _pixels(encoder: Encoder, rung: Rung) -> list[str]:
    """With a plus, so that an encoder that cannot do this depth fails instead of getting another one."""
    return [] if encoder.uploads else ["-pix_fmt", f"+{encoder.pixel_format(rung.range)}"]


def _x264(rung: Rung, keys_every: int, fill: float) -> list[str]:
    grid = f"keyint={keys_every}:min-keyint={keys_every}:scenecut=0:open-gop=0:threads=1:vbv-init={fill}"
    return [
        "-preset", rung.preset, "-profile:v", "high", "-crf", str(rung.crf), "-x264-params", grid,
        "-threads", "1",
    ]  # fmt: skip


def _x265(rung: Rung, keys_every: int, fill: float) -> list[str]:
    """One thread, and the headers once, so that the same segment has the same bytes and one init fits all."""
    grid = (
        f"log-level=error:info=0:keyint={keys_every}:min-keyint={keys_every}:scenecut=0:open-gop=0:repeat-headers=0:"
        f"pools=none:frame-threads=1:vbv-init={fill}"
    )
    shape = "main10" if rung.range == "hdr" else "main"
    return [
        "-preset", rung.preset, "-profile:v", shape, "-crf", str(rung.crf), "-x265-params", grid,
        "-tag:v", "hvc1", "-threads", "1",
    ]  # fmt: skip


def _svt(rung: Rung, keys_every: int) -> list[str]:
    grid = "lp=1:scd=0:irefresh-type=2:enable-overlays=0:mbr-overshoot-pct=0"
    return [
        "-preset", rung.preset, "-crf", str(rung.crf), "-g", str(keys_every), "-svtav1-params", grid,
    ]  # fmt: skip


def _hardware(rung: Rung, keys_every: int) -> list[str]:
    """No picture refers over a key, at most one picture is shown out of turn, quality is constant."""
    kind = rung.encoder.rpartition("_")[2]
    tag = ["-tag:v", "hvc1"] if rung.codec == "hevc" else []
    quality = {
        "nvenc": [
            "-preset", rung.preset, "-rc", "vbr", "-cq", str(rung.crf), "-b:v", "0", "-forced-idr", "1",
            "-no-scenecut", "1", "-strict_gop", "1", "-b_ref_mode", "disabled", "-bf", "1",
        ],
        "qsv": ["-preset", rung.preset, "-global_quality", str(rung.crf), "-forced_idr", "1", "-bf", "1"],
        "vaapi": ["-compression_level", rung.preset, "-qp", str(rung.crf), "-bf", "0"],
    }[kind]  # fmt: skip
    return [*quality, "-g", str(keys_every), *tag]
