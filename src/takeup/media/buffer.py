"""The buffer of a player as encoders model it: filled at the highest rate, emptied picture by picture."""

from collections.abc import Iterable
from fractions import Fraction

START = Fraction(9, 10)
"""How full it is when playing begins; what encoders assume too."""


def lowest_fill(
    sizes: Iterable[int], rate: Fraction, max_kbps: int, buffer_kbits: int, *, start: Fraction = START
) -> Fraction:
    """The least share of the buffer that is ever left; below zero a picture would come too late.

    `sizes` are the bytes of every picture of the joined track, in the order in which they are decoded.
    """
    per_bit = rate.numerator  # all is counted in whole numbers: a day of pictures adds no rounding
    room = buffer_kbits * 1000 * per_bit
    gain = max_kbps * 1000 * rate.denominator
    fill = lowest = int(room * start)
    for size in sizes:
        fill -= size * 8 * per_bit
        lowest = min(lowest, fill)
        fill = min(fill + gain, room)
    return Fraction(lowest, room)
