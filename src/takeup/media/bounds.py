"""How much work a source may be, and how long and how large one part of it may become."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from takeup.media.errors import TooLarge
from takeup.media.ladder import Rung
from takeup.media.plan import Plan

GIGA = 1_000_000_000
START_S = 600.0
PIXELS_A_SECOND = 100_000
"""Slower than any encoder on any machine that is not hung."""
BYTES_FREE = 64 << 20
TIMES_THE_RATE = 4


def check_work(plan: Plan, gigapixels_max: float) -> None:
    """Refuse a plan with more pictures, each counted by its pixels in all rungs, than one job may have."""
    picture = plan.picture
    if picture is None:
        return
    whole = picture.frames * pixels(picture.rungs) / GIGA
    if whole > gigapixels_max:
        raise TooLarge(
            f"its {picture.frames} frames in {len(picture.rungs)} rungs are {whole:.0f} gigapixels; "
            f"transcode_max_gigapixels allows {gigapixels_max:g}"
        )


def pixels(rungs: Iterable[Rung]) -> int:
    """In one picture of each."""
    return sum(rung.width * rung.height for rung in rungs)


def time_for(frames: int, rungs: Sequence[Rung]) -> float:
    """Seconds after which an encode of so many frames can only be lost; generous."""
    return START_S + frames * pixels(rungs) / PIXELS_A_SECOND


def room_for(seconds: Fraction, rungs: Sequence[Rung]) -> int:
    """Bytes that no file of these rungs reaches, for one so long."""
    kbps = max(rung.max_kbps for rung in rungs)
    return BYTES_FREE + int(seconds * kbps * 1000 / 8 * TIMES_THE_RATE)
