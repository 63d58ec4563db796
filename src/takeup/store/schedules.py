"""The facade of the scheduler: it notes schedules and turns slots into jobs."""

import secrets
from collections.abc import Sequence
from datetime import datetime

from takeup.core.ids import RandomBytes, new_id
from takeup.core.plan import NewJob, plan_job
from takeup.core.schedule import ScheduleRow
from takeup.store.drivers import Driver
from takeup.store.ops import schedule


class SchedulerStore:
    """What the scheduler may do: every slot becomes one job, whoever and however many try."""

    def __init__(self, driver: Driver, random: RandomBytes = secrets.token_bytes) -> None:
        """`random` makes the ids of new jobs."""
        self._driver = driver
        self._random = random

    async def declare(self, schedules: Sequence[tuple[str, str, str]]) -> None:
        """Note schedules by name, pipeline and cron text; a new or a changed one begins now."""
        await self._driver.run(schedule.declare, schedules)

    async def look(self, names: Sequence[str]) -> tuple[datetime, list[ScheduleRow]]:
        """The database's time and how far these schedules are."""
        return await self._driver.read(schedule.look, names)

    async def fire(self, row: ScheduleRow, slot_at: datetime, job: NewJob) -> str | None:
        """Take a slot and create its job in one step; None if another has taken it."""
        plan = plan_job(job)
        return await self._driver.run(schedule.fire, row, slot_at, new_id("job", self._random), plan)

    async def skip(self, row: ScheduleRow, slot_at: datetime) -> bool:
        """Take a slot without a job; whether it was still free."""
        return await self._driver.run(schedule.skip, row, slot_at)
