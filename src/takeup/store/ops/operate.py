"""What people do to jobs: cancel, pause, resume, skip, change priority; and to single tasks."""

from collections.abc import Sequence

from takeup.core.errors import IllegalMove, InvalidInput, NotFound, VersionMismatch
from takeup.core.machine import JOB, Actor
from takeup.core.model import CONTROLS, Control
from takeup.core.policy import check_priority
from takeup.store.op import Op, Rows, query
from takeup.store.ops.moves import batched, clip, close_jobs, log_tasks, move_tasks
from takeup.store.ops.orchestrate import expand

_CONTROL_EVENT = {"READY": "resume", "PAUSED": "pause", "SKIP": "skip"}
_CONTROL_DONE = {"READY": "resumed", "PAUSED": "paused", "SKIP": "skipped"}


def cancel(
    job_ids: Sequence[str], *, reason: str = "cancelled by an operator", must_be_live: bool = False
) -> Op[list[str]]:
    """Cancel every live task of these jobs; tokens are void at once. Answers with the jobs that were live.

    One that ended otherwise is left as it is, or, where they must be live, refuses all.
    """
    jobs = yield from _hold(job_ids)
    over = [row for row in jobs if row["status"] in JOB.final and row["status"] != "cancelled"]
    if over and must_be_live:
        raise IllegalMove(f"job {over[0]['id']} is {over[0]['status']} and cannot be cancelled")
    live = [row["id"] for row in jobs if row["status"] in JOB.live]
    yield from move_tasks("cancel", (yield from _all_tasks(live)), reason=reason)
    yield from close_jobs(live)
    return live


def set_control(
    job_ids: Sequence[str], control: Control, *, reason: str | None = None, version: int | None = None
) -> Op[list[str]]:
    """Pause, resume or skip jobs. Pausing gates new claims only; skipping takes running tasks back first."""
    if control not in CONTROLS:
        raise InvalidInput(f"control {control!r} is not one of {', '.join(CONTROLS)}")
    jobs = yield from _hold_live(job_ids, version, _CONTROL_DONE[control])
    changed = [row for row in jobs if row["control"] != control]
    if not changed:
        return []
    ids = [row["id"] for row in changed]
    yield query("set_job_control", j=_ids(ids), control=control)
    tasks = yield query("live_tasks", j=_ids(ids))
    for part in batched(tasks):
        yield query("set_tasks_job_control", g=[(row["id"],) for row in part], control=control)
    yield from _log_jobs(_CONTROL_EVENT[control], changed, reason)
    if control == "SKIP":
        yield from _skip((yield from _all_tasks(ids)), reason)
        yield from expand(_ids(ids))
        yield from close_jobs(ids)
    return ids


def set_task_control(
    task_ids: Sequence[int], control: Control, *, reason: str | None = None
) -> Op[list[int]]:
    """Pause, resume or skip single tasks of live jobs."""
    if control not in CONTROLS:
        raise InvalidInput(f"control {control!r} is not one of {', '.join(CONTROLS)}")
    wanted = [(task_id,) for task_id in task_ids]
    tasks = yield query("tasks_by_id", g=wanted)
    missing = set(task_ids) - {row["id"] for row in tasks}
    if missing:
        raise NotFound(f"no task has the id {min(missing)}")
    changed = yield query("set_task_control", g=wanted, control=control)
    if len(changed) < len(set(task_ids)):
        left = {row["id"] for row in changed}
        done = min((row for row in tasks if row["id"] not in left), key=lambda row: row["id"])
        raise IllegalMove(f"task {done['id']} is {done['status']} and cannot be {_CONTROL_DONE[control]}")
    if control == "SKIP":
        yield from _skip(tasks, reason)
        yield from close_jobs(row["job_id"] for row in tasks)
    else:
        entries = [
            (row["id"], _CONTROL_EVENT[control], row["status"], None, None, clip(reason)) for row in changed
        ]
        yield from log_tasks(Actor.OPERATOR, entries, None)
    return sorted(row["id"] for row in changed)


def set_priority(job_ids: Sequence[str], priority: int, *, version: int | None = None) -> Op[list[str]]:
    """Change the priority of jobs and of everything in them that is not finished."""
    check_priority(priority)
    jobs = yield from _hold_live(job_ids, version, "given another priority")
    yield query("set_job_priority", j=_ids(job_ids), priority=priority)
    tasks = yield query("live_tasks", j=_ids(job_ids))
    for part in batched(tasks):
        yield query("set_tasks_priority", g=[(row["id"],) for row in part], priority=priority)
    yield from _log_jobs("set_priority", jobs, str(priority))
    return [row["id"] for row in jobs]


def _skip(tasks: Rows, reason: str | None) -> Op[None]:
    running = [row for row in tasks if row["status"] == "RUNNING"]
    taken = set((yield from move_tasks("revoke", running, reason=reason or "skipped by an operator")))
    waiting = [
        {**row, "status": "READY", "lease_owner": None, "nonce_hash": None}
        for row in running
        if row["id"] in taken
    ]
    yield from move_tasks(
        "skip", [*(row for row in tasks if row["status"] != "RUNNING"), *waiting], reason=reason
    )


def _ids(job_ids: Sequence[str]) -> list[tuple[str]]:
    return [(job_id,) for job_id in sorted(set(job_ids))]


def _hold(job_ids: Sequence[str]) -> Op[Rows]:
    """Lock these jobs, after their tasks: the order in which everybody locks."""
    yield query("live_tasks", j=_ids(job_ids))
    rows = yield query("jobs_for_change", j=_ids(job_ids))
    missing = set(job_ids) - {row["id"] for row in rows}
    if missing:
        raise NotFound(f"no job has the id {min(missing)!r}")
    return rows


def _hold_live(job_ids: Sequence[str], version: int | None, verb: str) -> Op[Rows]:
    rows = yield from _hold(job_ids)
    for row in rows:
        if version is not None and row["version"] != version:
            raise VersionMismatch(f"job {row['id']} has version {row['version']}, not {version}")
        if row["status"] not in JOB.live:
            raise IllegalMove(f"job {row['id']} is {row['status']} and cannot be {verb}")
    return rows


def _all_tasks(job_ids: Sequence[str]) -> Op[Rows]:
    """Every live task of jobs that are held, those included that a finished splitter has yet to bring."""
    yield from expand(_ids(job_ids))
    return (yield query("live_tasks", j=_ids(job_ids)))


def _log_jobs(event: str, jobs: Rows, reason: str | None) -> Op[None]:
    yield query(
        "log_jobs",
        g=[(row["id"], event, row["status"], clip(reason)) for row in jobs],
        actor=Actor.OPERATOR.value,
        request_id=None,
    )
