"""The oracle's scheduler facade: a slot is taken once, together with its job."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from takeup.core.plan import NewJob
from takeup.core.schedule import ScheduleRow
from takeup.testing.oracle.operator import OracleOperator
from takeup.testing.oracle.state import State


class OracleScheduler:
    """What the scheduler may do."""

    def __init__(self, state: State, operator: OracleOperator) -> None:
        """Work on these tables."""
        self._state = state
        self._operator = operator

    async def declare(self, schedules: Sequence[tuple[str, str, str]]) -> None:
        """Note schedules by name, pipeline and cron text; a new or a changed one begins now."""
        for name, pipeline, cron in schedules:
            row = self._state.schedules.get(name)
            if row is None or row.cron != cron or row.last_slot_at > self._state.now():
                new = ScheduleRow(name, row.pipeline if row else pipeline, cron, self._state.now())
                self._state.schedules[name] = new

    async def look(self, names: Sequence[str]) -> tuple[datetime, list[ScheduleRow]]:
        """The time and how far these schedules are."""
        rows = self._state.schedules
        return self._state.now(), [rows[name] for name in sorted(set(names)) if name in rows]

    async def fire(self, row: ScheduleRow, slot_at: datetime, job: NewJob) -> str | None:
        """Take a slot and create its job in one step; None if another has taken it."""
        if not self._is_free(row, slot_at):
            return None
        (job_id,) = await self._operator.submit([job], request_id=job.idempotency_key)
        await self.skip(row, slot_at)
        return job_id

    async def skip(self, row: ScheduleRow, slot_at: datetime) -> bool:
        """Take a slot without a job; whether it was still free."""
        is_free = self._is_free(row, slot_at)
        if is_free:
            kept = self._state.schedules[row.name]
            self._state.schedules[row.name] = replace(kept, last_slot_at=slot_at)
        return is_free

    def _is_free(self, row: ScheduleRow, slot_at: datetime) -> bool:
        kept = self._state.schedules.get(row.name)
        return kept is not None and kept.last_slot_at == row.last_slot_at < slot_at
