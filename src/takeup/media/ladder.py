"""The rungs of a ladder: sizes by the short side of the picture, never larger than the source."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from takeup.media.encoders import Codec, Range
from takeup.media.probe import square
from takeup.media.profile import Family, Step

USUAL_SHAPE = Fraction(16, 9)
USUAL_RATE = 30
RATE_POWER = 0.75
"""Twice the frames need less than twice the bits."""
BETWEEN = Fraction(115, 100)
"""A source this much larger than the next size gets a rung of its own size."""
ROUNDED = 2
"""Sizes are even, so half of one may be off by this."""
BUFFER_S = 2
GOOD_SHORT = 720
KBPS_LEAST = 100
"""The first picture alone needs it, however small it is."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One encoding of the picture."""

    name: str
    width: int
    height: int
    codec: Codec
    encoder: str
    """The one encoder that makes all segments of it, on whichever machine."""
    preset: str
    range: Range
    is_critical: bool
    crf: int
    max_kbps: int
    buffer_kbits: int
    via: str = ""
    """The size of the rung twice as large that its pictures are made of, if there is one: half the work."""

    @property
    def size(self) -> str:
        """As the scaler takes it."""
        return f"{self.width}x{self.height}"


def ladder(
    width: int, height: int, pixel_shape: Fraction, rate: Fraction, family: Family
) -> tuple[Rung, ...]:
    """The rungs for a picture of this size, largest first; pixels are square afterwards."""
    wide, high = square(width, height, pixel_shape)
    source_short = min(wide, high)
    steps = [step for step in family.rungs if step.short <= source_short]
    largest = family.rungs[0].short
    if not steps or (steps[0].short < largest and source_short >= steps[0].short * BETWEEN):
        steps.insert(0, _own(int(source_short), family))
    rungs: list[Rung] = []
    for step in steps:
        rung = _rung(step, wide, high, rate, family)
        rungs.append(replace(rung, via=next((larger.size for larger in rungs if _is_half(rung, larger)), "")))
    return tuple(rungs)


def early_rungs(rungs: Sequence[Rung]) -> list[str]:
    """The rungs to publish before the others are made: the lowest, and one that is good to watch."""
    safe = sorted((r for r in rungs if r.is_critical), key=lambda rung: min(rung.width, rung.height))
    good = [rung for rung in safe if min(rung.width, rung.height) <= GOOD_SHORT]
    return list(dict.fromkeys(rung.name for rung in (*safe[:1], *good[-1:])))


def _is_half(rung: Rung, larger: Rung) -> bool:
    """Whether it is half as wide and high, but for rounding; only of what is made of the source itself."""
    sides = ((rung.width, larger.width), (rung.height, larger.height))
    return not larger.via and all(abs(2 * ours - theirs) <= ROUNDED for ours, theirs in sides)


def _own(short: int, family: Family) -> Step:
    """A size between those of the profile, with the quality of the next larger one and its share of bits."""
    above = min((step for step in family.rungs if step.short >= short), key=lambda step: step.short)
    share = Fraction(short, above.short) ** 2
    return Step(short, above.crf, max(round(above.max_kbps * share), 1))


def _rung(step: Step, wide: Fraction, high: Fraction, rate: Fraction, family: Family) -> Rung:
    scale = Fraction(step.short) / min(wide, high)
    width, height = _even(wide * scale), _even(high * scale)
    usual = step.short * step.short * USUAL_SHAPE
    share = float(Fraction(width * height) / usual) * float(rate / USUAL_RATE) ** RATE_POWER
    max_kbps = max(round(step.max_kbps * share), KBPS_LEAST)
    return Rung(
        name=f"{step.short}p{_ending(family)}",
        width=width,
        height=height,
        codec=family.codec,
        encoder=family.encoder,
        preset=family.preset,
        range=family.range,
        is_critical=family.critical,
        crf=step.crf,
        max_kbps=max_kbps,
        buffer_kbits=max_kbps * BUFFER_S,
    )


def _ending(family: Family) -> str:
    """What a name says beside the size: nothing for what plays everywhere."""
    codec = "" if family.codec == "h264" else f"-{family.codec}"
    return codec + ("-hdr" if family.range == "hdr" else "")


def _even(length: Fraction) -> int:
    """The nearest even number, the smaller of two; encoders share one colour between four pixels."""
    return max(2 * ceil(length / 2 - Fraction(1, 2)), 2)
