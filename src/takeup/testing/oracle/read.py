"""The oracle's reads: the same lists and details, taken from the dicts."""

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime
from typing import TypeVar

from takeup.core.control import Claimable, ControlRow
from takeup.core.errors import InvalidInput, NotFound
from takeup.core.machine import TASK
from takeup.core.model import Artifact, Attempt, Event, Job, JobPlace, ListedJob, Task, Worker
from takeup.store.ops.control import ControlFilter
from takeup.store.ops.read import PAGE_MAX, JobFilter
from takeup.testing.oracle import control
from takeup.testing.oracle.brief import failed_before
from takeup.testing.oracle.state import State

T = TypeVar("T")


class OracleRead:
    """Lists and details."""

    def __init__(self, state: State) -> None:
        """Look at these tables."""
        self._state = state

    async def job(self, job_id: str) -> Job:
        """One job."""
        if job_id not in self._state.jobs:
            raise NotFound(f"no job has the id {job_id!r}")
        return self._state.jobs[job_id].job

    async def job_place(self, job_id: str) -> JobPlace:
        """Where a job stands among all, also if it is in the archive."""
        row = self._state.jobs.get(job_id) or self._state.archived.get(job_id)
        if row is None:
            raise NotFound(f"no job has the id {job_id!r}")
        return JobPlace(job_id, row.job.created_at)

    async def jobs(
        self,
        where: JobFilter | None = None,
        *,
        before: JobPlace | ListedJob | None = None,
        limit: int = 100,
    ) -> list[ListedJob]:
        """A page of jobs, newest first."""
        jobs = [_listed(row.job) for row in self._state.jobs.values() if _fits(row.job, where or JobFilter())]
        if before is not None:
            edge = (before.created_at, before.id)
            jobs = [job for job in jobs if (job.created_at, job.id) < edge]
        return page(sorted(jobs, key=lambda job: (job.created_at, job.id), reverse=True), limit)

    async def failed_before(self, job_id: str) -> list[str]:
        """The earlier runs of a job that failed, the last one first."""
        return failed_before(self._state, job_id)

    async def task(self, task_id: int) -> Task:
        """One task."""
        if task_id not in self._state.tasks:
            raise NotFound(f"no task has the id {task_id}")
        return self._state.tasks[task_id].task

    async def tasks(self, job_id: str, *, after: int = 0, limit: int = 1000) -> list[Task]:
        """A page of a job's tasks in the order they were created."""
        return page([r.task for r in self._state.tasks_of(job_id) if r.task.id > after], limit)

    async def attempts(self, job_id: str, *, limit: int = 1000) -> list[Attempt]:
        """Every claim of a job's tasks and how it ended."""
        events = [e for e in self._state.events if e.noun == "task" and e.job_id == job_id]
        ends = {
            (e.task_id, e.epoch): e for e in events if e.from_status == "RUNNING" and e.to_status != "RUNNING"
        }
        attempts = []
        for claim in events:
            if claim.event == "claim" and claim.task_id is not None:
                task = self._state.tasks[claim.task_id].task
                end = ends.get((claim.task_id, claim.epoch))
                attempts.append(
                    Attempt(
                        task_id=task.id,
                        stage=task.stage,
                        segment=task.segment,
                        epoch=claim.epoch or 0,
                        attempt=claim.attempt or 0,
                        owner=claim.worker_id or "",
                        claimed_at=claim.logged_at,
                        outcome=end.event if end else None,
                        ended_at=end.logged_at if end else None,
                        error=end.reason if end else None,
                    )
                )
        return page(sorted(attempts, key=lambda a: (a.task_id, a.epoch)), limit)

    async def artifacts(self, job_id: str, *, limit: int = 1000) -> list[Artifact]:
        """A job's output files."""
        mine = {r.task.id for r in self._state.tasks_of(job_id)}
        keys = sorted(key for key in self._state.artifacts if key[0] in mine)
        return page([self._state.artifacts[key][0] for key in keys], limit)

    async def task_counts(self, job_id: str) -> dict[tuple[str, str], int]:
        """How many tasks of a job are in each (stage, status)."""
        return dict(Counter((r.task.stage, r.task.status) for r in self._state.tasks_of(job_id)))

    async def queue_counts(self) -> dict[str, int]:
        """How many live tasks are in each status."""
        statuses = (row.task.status for row in self._state.tasks.values())
        return dict(Counter(status for status in statuses if status in TASK.live))

    async def worker(self, worker_id: str) -> Worker:
        """One worker with its load."""
        if worker_id not in self._state.workers:
            raise NotFound(f"no worker has the id {worker_id!r}")
        return replace(self._state.workers[worker_id], load=self._state.load(worker_id))

    async def workers(self, *, after: str = "", limit: int = 1000) -> list[Worker]:
        """A page of workers."""
        ids = sorted(worker_id for worker_id in self._state.workers if worker_id > after)
        return [await self.worker(worker_id) for worker_id in page(ids, limit)]

    async def events(self, *, after: int = 0, limit: int = 1000, job_id: str | None = None) -> list[Event]:
        """A page of the audit log."""
        is_wanted: Callable[[Event], bool] = lambda event: job_id is None or event.job_id == job_id  # noqa: E731
        return page([e for e in self._state.events if e.seq > after and is_wanted(e)], limit)

    async def control_rows(
        self, pipeline: str, where: ControlFilter | None = None, *, after: str = "", limit: int = 1000
    ) -> list[ControlRow]:
        """A page of the control table of a pipeline."""
        return page(control.control_rows(self._state, pipeline, where or ControlFilter(), after), limit)

    async def control_row(self, subject: str) -> ControlRow | None:
        """The row of one subject in its control table."""
        rows = [row for row in control.newest(self._state) if row.job.subject == subject]
        return control.control_row(self._state, rows[0]) if rows else None

    async def worklist(self, pipeline: str, *, stage: str | None = None, limit: int = 100) -> list[Claimable]:
        """What of a control table can be claimed now, most urgent first."""
        rows = [row for row in self._state.tasks.values() if row.task.pipeline == pipeline]
        rows = [row for row in rows if stage in (None, row.task.stage)]
        rows.sort(key=lambda row: (-row.task.priority, row.task.available_at, row.task.id))
        return page(control.claimable(self._state, rows), limit)

    async def worklist_of(self, subject: str, *, limit: int = 100) -> list[Claimable]:
        """What of one subject can be claimed now."""
        jobs = [row for row in self._state.jobs.values() if row.job.subject == subject]
        rows = [task for row in jobs for task in self._state.tasks_of(row.job.id)]
        rows.sort(key=lambda row: (row.plan.position, row.task.id))
        return page(control.claimable(self._state, rows), limit)

    async def now(self) -> datetime:
        """The clock's moment."""
        return self._state.now()


def page(rows: list[T], limit: int) -> list[T]:
    """The first rows, within the bounds of a page."""
    if not 1 <= limit <= PAGE_MAX:
        raise InvalidInput(f"a page of {limit} rows is not within 1 to {PAGE_MAX}")
    return rows[:limit]


def _listed(job: Job) -> ListedJob:
    return ListedJob(**{field.name: getattr(job, field.name) for field in fields(ListedJob)})


def _fits(job: ListedJob, where: JobFilter) -> bool:
    wanted = (where.pipeline, where.status, where.subject, where.user_id)
    found = (job.pipeline, job.status, job.subject, job.user_id)
    return all(want is None or want == have for want, have in zip(wanted, found, strict=True))
