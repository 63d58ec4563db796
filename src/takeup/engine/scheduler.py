"""The scheduler: slots of declared schedules become jobs; any number of copies, none of them a leader."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from takeup.core.errors import IdempotencyMismatch, SubjectBusy, TakeupError
from takeup.core.pipeline import Pipeline
from takeup.core.plan import NewJob, plan_job
from takeup.core.points import point
from takeup.core.schedule import Schedule, ScheduleRow
from takeup.dispatch.bell import Bell
from takeup.engine.cron import Timetable
from takeup.store.schedules import SchedulerStore
from takeup.telemetry.logs import logger

log = logger("scheduler")


@dataclass(eq=False)
class Entry:
    """One declared schedule and what this process knows of it."""

    name: str
    pipeline: Pipeline
    schedule: Schedule
    timetable: Timetable
    row: ScheduleRow | None = None
    next_at: datetime | None = None
    """The first slot after the row's; nothing is due before it."""
    is_foreign: bool = False
    """Whether another process declared this name with another cron text after us."""

    def job(self, slot_at: datetime) -> NewJob:
        """The job of a slot; its key makes it the only one."""
        return NewJob(
            self.pipeline,
            self.schedule.spec,
            idempotency_key=f"cron:{self.name}:{slot_at.isoformat()}",
            priority=self.schedule.priority,
        )

    def learn(self, row: ScheduleRow) -> None:
        """Take over how far the schedule is."""
        if row != self.row:
            self.row = row
            self.next_at = self.timetable.next_after(row.last_slot_at)
            is_foreign = row.cron != self.schedule.text
            if is_foreign and not self.is_foreign:
                log.warning("declared otherwise by a newer process", schedule=self.name, cron=row.cron)
            self.is_foreign = is_foreign

    def due(self, now: datetime) -> datetime | None:
        """The latest slot that is due; earlier ones that were missed are passed by."""
        if self.row is None or self.is_foreign or self.next_at is None or self.next_at > now:
            return None
        return self.timetable.due(self.row.last_slot_at, now)


class Scheduler:
    """Looks once a period, by the database's clock; a slot is taken with its job in one transaction."""

    name = "scheduler"

    def __init__(
        self, store: SchedulerStore, bell: Bell, pipelines: Iterable[Pipeline], *, period_s: float = 1.0
    ) -> None:
        """A schedule that cannot work is refused here, before anything runs."""
        self.period_s = period_s
        self._store = store
        self._bell = bell
        self._entries = {entry.name: entry for pipeline in pipelines for entry in _entries(pipeline)}
        self._is_declared = False

    def __len__(self) -> int:
        """How many schedules there are."""
        return len(self._entries)

    async def run_once(self) -> bool:
        """One look at every schedule."""
        entries = list(self._entries.values())
        if not self._is_declared:
            point("scheduler.before declare")
            await self._store.declare([(e.name, e.pipeline.name, e.schedule.text) for e in entries])
            self._is_declared = True
            point("scheduler.after declare")
        now, rows = await self._store.look(list(self._entries))
        self._is_declared = len(rows) == len(entries)  # somebody may have removed a row by hand
        for row in rows:
            entry = self._entries[row.name]
            entry.learn(row)
            slot_at = entry.due(now)
            if slot_at is not None:
                await self._fire(entry, row, slot_at)
        return False

    async def _fire(self, entry: Entry, row: ScheduleRow, slot_at: datetime) -> None:
        point("scheduler.before fire")
        try:
            job_id = await self._store.fire(row, slot_at, entry.job(slot_at))
        except (SubjectBusy, IdempotencyMismatch) as error:
            point("scheduler.before skip")
            if await self._store.skip(row, slot_at):
                log.warning("slot skipped", schedule=entry.name, slot=str(slot_at), why=str(error))
        except TakeupError as error:
            if error.retryable:
                raise
            log.error("slot not fired", schedule=entry.name, slot=str(slot_at), error=str(error))  # noqa: TRY400
        else:
            point("scheduler.after fire")
            if job_id is not None:
                log.info("slot fired", schedule=entry.name, slot=str(slot_at), job=job_id)
                self._bell.ring("work")


def _entries(pipeline: Pipeline) -> Iterable[Entry]:
    now = datetime.now(UTC)  # only to see that the schedule comes at all
    for schedule in pipeline.schedules.values():
        entry = Entry(f"{pipeline.name}/{schedule.name}", pipeline, schedule, Timetable(schedule, now))
        plan_job(entry.job(now))
        yield entry
