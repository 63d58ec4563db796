"""The slots of a schedule: which one comes next, and which was the last that is due."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from takeup.core.errors import InvalidPipeline
from takeup.core.schedule import Schedule

TRIES_MAX = 100
"""How many slots may lie in an hour that the clock repeats, until one after it is looked for no more."""


class Timetable:
    """A schedule's slots as moments in UTC; where clocks are changed, as Debian's cron has it."""

    def __init__(self, schedule: Schedule, now: datetime) -> None:
        """Refuse a schedule that never comes or whose zone nobody knows."""
        self._cron = schedule.cron
        self._zone = zone_of(schedule)
        try:
            is_ever = self.next_after(now) is not None
        except CronSimError as error:
            raise InvalidPipeline(f"schedule {schedule.name}: {schedule.cron!r}: {error}") from error
        if not is_ever:
            raise InvalidPipeline(f"schedule {schedule.name}: {schedule.cron!r} never comes")

    def next_after(self, moment: datetime) -> datetime | None:
        """The first slot after this moment."""
        slots = islice(CronSim(self._cron, moment.astimezone(self._zone)), TRIES_MAX)
        return next((slot for slot in _in_utc(slots) if slot > moment), None)

    def due(self, last: datetime, now: datetime) -> datetime | None:
        """The latest slot after `last` that is not after `now`."""
        first = self.next_after(last)
        if first is None or first > now:
            return None
        beyond = (now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)).astimezone(self._zone)
        slots = islice(CronSim(self._cron, beyond, reverse=True), TRIES_MAX)
        latest = next((slot for slot in _in_utc(slots) if slot <= now), first)
        return max(first, latest)


def _in_utc(slots: Iterator[datetime]) -> Iterator[datetime]:
    return (slot.astimezone(UTC) for slot in slots)


def zone_of(schedule: Schedule) -> tzinfo:
    """The zone by which the slots are told; UTC is known everywhere."""
    if schedule.zone == "UTC":
        return UTC
    try:
        return ZoneInfo(schedule.zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidPipeline(
            f"schedule {schedule.name}: this machine knows no zone {schedule.zone!r}"
        ) from error
