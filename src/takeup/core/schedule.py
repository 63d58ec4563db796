"""When a pipeline runs by itself: a cron text, checked field by field when it is declared."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from takeup.core.errors import InvalidPipeline
from takeup.core.policy import PRIORITY_DEFAULT

CRON_CHARS_MAX = 200
SCHEDULES_MAX = 256
ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+/-]{0,63}\Z")
NUMBER = re.compile(r"[0-9]{1,4}\Z", re.ASCII)
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
WEEKS_MAX = 5


class Field(NamedTuple):
    """One part of a cron text and its bounds."""

    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()


FIELDS = (
    Field("second", 0, 59),
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of the month", 1, 31),
    Field("month", 1, 12, MONTHS),
    Field("day of the week", 0, 7, WEEKDAYS),
)
DAY, WEEKDAY = FIELDS[3], FIELDS[5]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Create a job with this spec whenever the cron text says so, by the clock of the zone."""

    name: str
    cron: str
    zone: str = "UTC"
    spec: Mapping[str, Any] = field(default_factory=dict)
    priority: int = PRIORITY_DEFAULT

    @property
    def text(self) -> str:
        """What makes it another schedule if it changes."""
        return f"{self.cron} {self.zone}"


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """How far a schedule is: everything up to its last slot was fired or passed by."""

    name: str
    pipeline: str
    cron: str
    last_slot_at: datetime


def check_cron(cron: Any) -> str:
    """The cron text with single spaces, or an error that names the field that is wrong.

    Five fields as in crontab(5), or six with seconds first; `L`, `LW` (last day, last weekday of the month),
    `5L` (last Friday) and `5#2` (second Friday) are known too.
    """
    parts = cron.upper().split() if isinstance(cron, str) and len(cron) <= CRON_CHARS_MAX else []
    if len(parts) not in (len(FIELDS) - 1, len(FIELDS)):
        raise InvalidPipeline(
            f"the cron text {cron!r} must have five fields (minute hour day month weekday), "
            "or six with the second first"
        )
    for kind, part in zip(FIELDS[-len(parts) :], parts, strict=True):
        if not all(_is_item(kind, item) for item in part.split(",")):
            raise InvalidPipeline(f"the cron text {cron!r} has the {kind.name} {part!r}, which is none")
    return " ".join(parts)


def check_zone(zone: Any) -> str:
    """A text that can name a time zone; whether there is one is known where the clock is."""
    if not isinstance(zone, str) or not ZONE.match(zone):
        raise InvalidPipeline(f"the zone {zone!r} must be a name such as UTC or Europe/Berlin")
    return zone


def _is_item(kind: Field, item: str) -> bool:
    if kind is DAY and item in ("L", "LW"):
        return True
    if kind is WEEKDAY and item.endswith("L"):
        return bool(NUMBER.match(item[:-1])) and _number(kind, item[:-1]) is not None
    if kind is WEEKDAY and "#" in item:
        day, _, week = item.partition("#")
        is_week = bool(NUMBER.match(week)) and 1 <= int(week) <= WEEKS_MAX
        return is_week and _number(kind, day) is not None
    term, slash, step = item.partition("/")
    if slash and not (NUMBER.match(step) and int(step) > 0):
        return False
    return term == "*" or _is_range(kind, term)


def _is_range(kind: Field, term: str) -> bool:
    first, dash, last = term.partition("-")
    low = _number(kind, first)
    high = _number(kind, last) if dash else low
    return low is not None and high is not None and low <= high


def _number(kind: Field, text: str) -> int | None:
    if text in kind.words:
        return kind.low + kind.words.index(text)
    number = int(text) if NUMBER.match(text) else -1
    return number if kind.low <= number <= kind.high else None
