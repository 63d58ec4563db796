"""The rungs of a ladder: sizes by the short side of the picture, never larger than the source."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from takeup.media.probe import square
from takeup.media.profile import Profile, Step

USUAL_SHAPE = Fraction(16, 9)
USUAL_RATE = 30
RATE_POWER = 0.75
"""Twice the frames need less than twice the bits."""
BETWEEN = Fraction(115, 100)
"""A source this much larger than the next size gets a rung of its own size."""
BUFFER_S = 2


@dataclass(frozen=True, slots=True)
class Rung:
    """One encoding of the picture."""

    name: str
    width: int
    height: int
    crf: int
    max_kbps: int
    buffer_kbits: int


def ladder(
    width: int, height: int, pixel_shape: Fraction, rate: Fraction, profile: Profile
) -> tuple[Rung, ...]:
    """The rungs for a picture of this size, largest first; pixels are square afterwards."""
    wide, high = square(width, height, pixel_shape)
    source_short = min(wide, high)
    steps = [step for step in profile.rungs if step.short <= source_short]
    largest = profile.rungs[0].short
    if not steps or (steps[0].short < largest and source_short >= steps[0].short * BETWEEN):
        steps.insert(0, _own(int(source_short), profile))
    return tuple(_rung(step, wide, high, rate) for step in steps)


def _own(short: int, profile: Profile) -> Step:
    """A size between those of the profile, with the quality of the next larger one and its share of bits."""
    above = min((step for step in profile.rungs if step.short >= short), key=lambda step: step.short)
    share = Fraction(short, above.short) ** 2
    return Step(short, above.crf, max(round(above.max_kbps * share), 1))


def _rung(step: Step, wide: Fraction, high: Fraction, rate: Fraction) -> Rung:
    scale = Fraction(step.short) / min(wide, high)
    width, height = _even(wide * scale), _even(high * scale)
    usual = step.short * step.short * USUAL_SHAPE
    share = float(Fraction(width * height) / usual) * float(rate / USUAL_RATE) ** RATE_POWER
    max_kbps = max(round(step.max_kbps * share), 1)
    return Rung(f"{step.short}p", width, height, step.crf, max_kbps, max_kbps * BUFFER_S)


def _even(length: Fraction) -> int:
    """The nearest even number, the smaller of two; encoders share one colour between four pixels."""
    return max(2 * ceil(length / 2 - Fraction(1, 2)), 2)
