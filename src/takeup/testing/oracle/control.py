"""The oracle's control table: the view and the worklist, computed from the dicts."""

from collections.abc import Iterator

from takeup.core.control import Claimable, ControlRow
from takeup.core.machine import CONTROL_STATUS, TASK
from takeup.core.model import Control, Task
from takeup.store.ops.control import ControlFilter
from takeup.testing.oracle.state import JobRow, State, TaskRow

RANKS = ("RUNNING", "FAILED", "CANCELLED", "READY", "ERROR", "NEW", "DONE", "SKIPPED")
"""Which task of a stage stands for all of them."""


def control_rows(state: State, pipeline: str, where: ControlFilter, after: str) -> list[ControlRow]:
    """Every row of a pipeline behind this job id."""
    found = [
        row
        for row in map(lambda job: control_row(state, job), newest(state))  # noqa: C417 - reads better
        if row is not None and row.pipeline == pipeline and row.job_id > after
    ]
    return [
        row
        for row in sorted(found, key=lambda row: row.job_id)
        if where.stage in (None, row.stage)
        if where.status in (None, row.status)
        if where.task_state in (None, row.task_state)
    ]


def newest(state: State) -> Iterator[JobRow]:
    """The newest job of each subject."""
    latest: dict[str, JobRow] = {}
    for row in state.jobs.values():
        subject = row.job.subject
        if subject is not None and row.job.generation > (
            latest[subject].job.generation if subject in latest else 0
        ):
            latest[subject] = row
    yield from latest.values()


def control_row(state: State, row: JobRow) -> ControlRow | None:
    """One job as a row; None if it is not about a pair."""
    job, url, iteration = row.job, row.job.spec.get("url"), row.job.spec.get("iteration")
    if not isinstance(url, str) or type(iteration) is not int:
        return None
    stage = current_stage(state, row)
    tasks = [one.task for one in state.tasks_of(job.id) if one.task.stage == stage]
    task = min(tasks, key=lambda one: (RANKS.index(one.status), one.id), default=None)
    return ControlRow(
        url=url,
        iteration=iteration,
        stage=stage,
        status=CONTROL_STATUS[task.status if task else "NEW"],  # type: ignore[arg-type]
        task_state=task_state(state, row, task),
        is_claimed=task is not None and task.status == "RUNNING",
        worker_id=task.lease_owner if task else None,
        lease_until=task.lease_expires_at if task else None,
        updated_at=max(event.logged_at for event in state.events if event.job_id == job.id),
        job_id=job.id,
        pipeline=job.pipeline,
        generation=job.generation,
        error=(task.error if task else None) or job.error,
    )


def current_stage(state: State, row: JobRow) -> str:
    """The first stage that is not all DONE or SKIPPED, else the last."""
    tasks = [one.task for one in state.tasks_of(row.job.id)]
    for stage in row.plan.stages:
        statuses = {task.status for task in tasks if task.stage == stage.stage}
        if stage.stage not in row.expanded or not statuses <= {"DONE", "SKIPPED"}:
            return stage.stage
    return row.plan.stages[-1].stage


def task_state(state: State, row: JobRow, task: Task | None) -> Control:
    """The gate a human sees: of the job, else of the task in question."""
    if row.job.control != "READY":
        return row.job.control
    if task is not None and task.status in TASK.live:
        return task.control
    everything = [one.task for one in state.tasks_of(row.job.id)]
    all_skipped = all((one.status, one.control) == ("SKIPPED", "SKIP") for one in everything)
    return "SKIP" if task is not None and all_skipped else "READY"


def claimable(state: State, rows: list[TaskRow]) -> list[Claimable]:
    """Which of these tasks could be claimed now."""
    return [
        Claimable(job.spec["url"], job.spec["iteration"], row.task.stage, row.task.id, job.id)
        for row in rows
        for job in [state.jobs[row.task.job_id].job]
        if job.subject is not None and is_claimable(state, row.task)
    ]


def is_claimable(state: State, task: Task) -> bool:
    """READY and due, or held by a lease that is over."""
    moment = task.available_at if task.status == "READY" else task.lease_expires_at
    return (
        task.status in ("READY", "RUNNING")
        and moment is not None
        and moment <= state.now()
        and task.control == task.job_control == "READY"
        and task.attempt < task.max_attempts
    )
