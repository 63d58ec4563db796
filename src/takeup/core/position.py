"""How far in the log a listener is, as a text that any process can go on from.

Rows of the log may become visible in another order than that of their numbers, so one number is not enough:
everything up to `low` was told, and of what comes after it the numbers that are listed.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

TOLD_MAX = 1000
TEXT_CHARS_MAX = 8000
FORM = re.compile(rf"([0-9]{{1,18}})((?:\.[0-9a-z]{{1,12}}){{0,{TOLD_MAX}}})\Z")
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Position(NamedTuple):
    """A place in the log, of one listener."""

    low: int
    told: frozenset[int] = frozenset()

    @staticmethod
    def of(low: int, told: Iterable[int]) -> "Position":
        """The shortest way to say that all up to `low`, and these, were told."""
        above = {seq for seq in told if seq > low}
        while low + 1 in above:
            low += 1
            above.remove(low)
        return Position(low, frozenset(above))

    @property
    def text(self) -> str:
        """As it is handed out: the low number, then each distance to the next one that was told."""
        if len(self.told) > TOLD_MAX:
            return f"{self.low}~"  # too much for a header: whoever shows it begins anew
        parts, last = [str(self.low)], self.low
        for seq in sorted(self.told):
            parts.append(_written(seq - last))
            last = seq
        return ".".join(parts)

    def has(self, seq: int) -> bool:
        """Whether this was told."""
        return seq <= self.low or seq in self.told


def parse_position(text: str) -> Position | None:
    """The position of this text; None if nobody can go on from it."""
    match = FORM.match(text) if len(text) <= TEXT_CHARS_MAX else None
    if match is None:
        return None
    last = low = int(match[1])
    told = []
    for part in match[2].split(".")[1:]:
        last += int(part, len(DIGITS))
        told.append(last)
    return Position.of(low, told)


def _written(number: int) -> str:
    text = ""
    while number or not text:
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
    return text
