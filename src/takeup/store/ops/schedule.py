"""Schedules: each slot is taken once, by whoever moves the schedule's row on first."""

from collections.abc import Sequence
from datetime import datetime

from takeup.core.plan import JobPlan
from takeup.core.schedule import ScheduleRow
from takeup.store.op import Op, query
from takeup.store.ops.submit import submit


def declare(schedules: Sequence[tuple[str, str, str]]) -> Op[None]:
    """Note schedules by name, pipeline and cron text; a new or a changed one begins now."""
    yield query("add_schedules", g=list(schedules))
    yield query("change_schedules", g=list(schedules))


def look(names: Sequence[str]) -> Op[tuple[datetime, list[ScheduleRow]]]:
    """The database's time and the rows of these schedules."""
    clock = yield query("clock")
    rows = yield query("schedules_by_name", g=[(name,) for name in names])
    found = [ScheduleRow(row["name"], row["pipeline"], row["cron"], row["last_slot_at"]) for row in rows]
    return clock[0]["now_at"], found


def fire(row: ScheduleRow, slot_at: datetime, job_id: str, plan: JobPlan) -> Op[str | None]:
    """Take the slot and create its job; None if another has taken it."""
    if not (yield from skip(row, slot_at)):
        return None
    (answer,) = yield from submit([(job_id, plan)], request_id=plan.idempotency_key)
    return answer


def skip(row: ScheduleRow, slot_at: datetime) -> Op[bool]:
    """Move the row on to this slot if nobody else did; answers whether it was us."""
    moved = yield query("move_schedule", name=row.name, last_slot_at=row.last_slot_at, slot_at=slot_at)
    return bool(moved)
