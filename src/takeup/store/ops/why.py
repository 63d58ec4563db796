"""Reads the facts from which `takeup.core.why` says why a job is not running."""

import json

from takeup.core.errors import NotFound
from takeup.core.plan import LanePlan
from takeup.core.why import Change, Facts, StageFacts, StageTasks, TaskFacts, WorkerFacts
from takeup.store.op import Op, Row, query
from takeup.store.rows import job_of

TASKS_SHOWN = 5
"""Of each kind; more are only counted."""
WORKERS_MAX = 1000


def facts(job_id: str) -> Op[Facts]:
    """Everything that explains what a job waits for."""
    rows = yield query("job_by_id", job_id=job_id)
    if not rows:
        raise NotFound(f"no job has the id {job_id!r}")
    (clock,) = yield query("clock")
    stages = yield query("stages_of_job", job_id=job_id)
    needs = yield query("needs_of_job", job_id=job_id)
    counts = yield query("why_counts", job_id=job_id)
    tasks: list[TaskFacts] = []
    for name in ("why_running", "why_retrying", "why_failed"):
        found = yield query(name, job_id=job_id, limit_count=TASKS_SHOWN)
        tasks += [TaskFacts(**dict(row)) for row in found]
    workers = yield query("why_workers", limit_count=WORKERS_MAX)
    (offline,) = yield query("why_offline")
    changes = yield query("why_changed", job_id=job_id)
    return Facts(
        now=clock["now_at"],
        job=job_of(rows[0]),
        stages=tuple(_stage(stage, needs, counts) for stage in stages),
        tasks=tuple(tasks),
        workers=tuple(_worker(row) for row in workers),
        offline=offline["worker_count"],
        change=Change(**dict(changes[0])) if changes else None,
    )


def _stage(stage: Row, needs: list[Row], counts: list[Row]) -> StageFacts:
    name = stage["stage"]
    return StageFacts(
        name=name,
        lane=LanePlan(
            stage["pipeline"], stage["lane_stage"], tuple(json.loads(stage["requires"])), stage["prefers"]
        ),
        needs=tuple(row["needs"] for row in needs if row["stage"] == name),
        splitter=stage["splitter"],
        is_expanded=stage["expanded_at"] is not None,
        tasks=tuple(
            StageTasks(
                row["status"],
                row["control"],
                int(row["task_count"]),
                float(row["percent_sum"] or 0.0),
                row["available_at"],
                row["ready_at"],
            )
            for row in counts
            if row["stage"] == name
        ),
    )


def _worker(row: Row) -> WorkerFacts:
    is_disabled = bool(row["disabled"])
    is_quarantined = not is_disabled and row["quarantined_at"] is not None
    return WorkerFacts(
        id=row["id"],
        is_active=row["status"] == "active" and not is_disabled and not is_quarantined,
        is_disabled=is_disabled,
        is_quarantined=is_quarantined,
        slots=row["slots"],
        load=row["load"],
        capabilities=frozenset(json.loads(row["capabilities"])),
        stages=tuple(json.loads(row["stages"])),
    )
