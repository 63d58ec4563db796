"""Reads for lists and details; every list is a page with a cursor."""

from dataclasses import dataclass
from datetime import datetime

from takeup.core.errors import InvalidInput, NotFound
from takeup.core.files import JobFile
from takeup.core.model import Artifact, Attempt, Event, Job, JobPlace, ListedJob, Task, Worker
from takeup.store.op import Op, Row, query
from takeup.store.rows import (
    artifact_of,
    attempt_of,
    event_of,
    job_file_of,
    job_of,
    listed_job_of,
    task_of,
    worker_of,
)

PAGE_MAX = 1000


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; None does not filter."""

    pipeline: str | None = None
    status: str | None = None
    subject: str | None = None
    user_id: str | None = None


def job(job_id: str) -> Op[Job]:
    """One job."""
    rows = yield query("job_by_id", job_id=job_id)
    if not rows:
        raise NotFound(f"no job has the id {job_id!r}")
    return job_of(rows[0])


def job_place(job_id: str) -> Op[JobPlace]:
    """Where a job stands among all; one that went to the archive meanwhile keeps its place."""
    rows = yield query("job_place", job_id=job_id)
    if not rows:
        raise NotFound(f"no job has the id {job_id!r}")
    return JobPlace(rows[0]["id"], rows[0]["created_at"])


def jobs(where: JobFilter, before: JobPlace | ListedJob | None, limit_count: int) -> Op[list[ListedJob]]:
    """A page of jobs, newest first; `before` is the last one of the page before."""
    rows = yield query(
        "jobs_page",
        pipeline=where.pipeline,
        status=where.status,
        subject=where.subject,
        user_id=where.user_id,
        before_id=before.id if before else None,
        before_at=before.created_at if before else None,
        limit_count=page_size(limit_count),
    )
    return [listed_job_of(row) for row in rows]


def task(task_id: int) -> Op[Task]:
    """One task."""
    rows = yield query("task_by_id", task_id=task_id)
    if not rows:
        raise NotFound(f"no task has the id {task_id}")
    return task_of(rows[0])


def tasks(job_id: str, after: int, limit_count: int) -> Op[list[Task]]:
    """A page of a job's tasks, oldest first."""
    rows = yield query("tasks_page", job_id=job_id, after=after, limit_count=page_size(limit_count))
    return [task_of(row) for row in rows]


def attempts(job_id: str, limit_count: int) -> Op[list[Attempt]]:
    """The claims of a job's tasks and how each ended."""
    rows = yield query("attempts_of_job", job_id=job_id, limit_count=page_size(limit_count))
    return [attempt_of(row) for row in rows]


def artifacts(job_id: str, limit_count: int) -> Op[list[Artifact]]:
    """The output files of a job."""
    return [artifact_of(row) for row in (yield from _files(job_id, (0, ""), limit_count))]


def files(job_id: str, after: tuple[int, str], limit_count: int) -> Op[list[JobFile]]:
    """A page of the output files of a job; `after` is the task and the name of the last one before it."""
    return [job_file_of(row) for row in (yield from _files(job_id, after, limit_count))]


def _files(job_id: str, after: tuple[int, str], limit_count: int) -> Op[list[Row]]:
    limit_count = page_size(limit_count)
    rows: list[Row] = yield query(
        "artifacts_of_job", job_id=job_id, after_task=after[0], after_name=after[1], limit_count=limit_count
    )
    return rows


def task_counts(job_id: str) -> Op[dict[tuple[str, str], int]]:
    """How many tasks of a job are in each (stage, status)."""
    rows = yield query("task_counts", job_id=job_id)
    return {(row["stage"], row["status"]): row["task_count"] for row in rows}


def queue_counts() -> Op[dict[str, int]]:
    """How many live tasks are in each status."""
    rows = yield query("queue_counts")
    return {row["status"]: row["task_count"] for row in rows}


def worker(worker_id: str) -> Op[Worker]:
    """One worker with its load."""
    rows = yield query("worker_by_id", worker_id=worker_id)
    if not rows:
        raise NotFound(f"no worker has the id {worker_id!r}")
    return worker_of(rows[0])


def workers(after: str, limit_count: int) -> Op[list[Worker]]:
    """A page of workers in the order of their ids."""
    rows = yield query("workers_page", after=after, limit_count=page_size(limit_count))
    return [worker_of(row) for row in rows]


def events(after: int, limit_count: int, job_id: str | None = None) -> Op[list[Event]]:
    """A page of the audit log, of one job or of all."""
    name = "audit_page" if job_id is None else "audit_of_job"
    rows = yield query(name, after=after, limit_count=page_size(limit_count), job_id=job_id)
    return [event_of(row) for row in rows]


def clock() -> Op[datetime]:
    """The database's time."""
    rows = yield query("clock")
    now: datetime = rows[0]["now_at"]
    return now


def page_size(limit_count: int) -> int:
    """The size of a page, or an error that says its bounds."""
    if not 1 <= limit_count <= PAGE_MAX:
        raise InvalidInput(f"a page of {limit_count} rows is not within 1 to {PAGE_MAX}")
    return limit_count
