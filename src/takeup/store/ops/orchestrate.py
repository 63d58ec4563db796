"""What the orchestrator does for a set of jobs: split stages, make tasks ready, abandon the doomed, roll up.

It looks at rows, not at events: run again, by any number of orchestrators at once, it finds what is left.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from takeup.core.errors import InvalidResult
from takeup.core.machine import Actor
from takeup.core.plan import plan_segments
from takeup.store.op import Op, Row, query
from takeup.store.ops.moves import batched, close_jobs, log_tasks, move_tasks


@dataclass(frozen=True, slots=True)
class Advance:
    """What one pass changed, and whether it stopped at its limit with more to do."""

    expanded: int = 0
    ready: int = 0
    abandoned: int = 0
    closed: int = 0
    has_more: bool = False


def advance(job_ids: Sequence[str], limit_count: int) -> Op[Advance]:
    """Do everything that can be done now for these jobs, up to the limit of tasks."""
    if not job_ids:
        return Advance()
    rows = yield query("jobs_to_advance", j=[(job_id,) for job_id in sorted(set(job_ids))])
    jobs = [(row["id"],) for row in rows]
    if not jobs:
        return Advance()
    expanded = yield from expand(jobs)
    broken = yield query("broken_jobs", j=jobs)
    doomed = yield query("doomed_tasks", j=[(row["job_id"],) for row in broken], limit_count=limit_count)
    abandoned = yield from move_tasks(
        "abandon", doomed, reason="another task of the job failed or was cancelled"
    )
    stages = yield query("ready_stages", j=jobs)
    waiting = yield query(
        "ready_candidates", g=[(row["job_id"], row["stage"]) for row in stages], limit_count=limit_count
    )
    ready = yield from move_tasks("ready", [{**row, "status": "NEW"} for row in waiting])
    closed = yield from close_jobs(job_id for (job_id,) in jobs)
    has_more = limit_count in (len(doomed), len(waiting))
    return Advance(expanded, len(ready), len(abandoned), len(closed), has_more)


def live_jobs(after: str, limit_count: int) -> Op[list[str]]:
    """A window of the jobs that are not finished, in the order of their ids."""
    rows = yield query("live_jobs", after=after, limit_count=limit_count)
    return [row["id"] for row in rows]


def expand(jobs: Sequence[tuple[str]]) -> Op[int]:
    """Create the tasks of segment stages whose splitter is done; each stage exactly once.

    The caller holds the rows of these jobs, so that what is copied from them cannot change meanwhile.
    """
    stages = yield query("splittable_stages", j=jobs)
    count = 0
    for row in stages:
        marked = yield query("expand_stage", job_id=row["job_id"], stage=row["stage"])
        if marked:
            count += yield from _add_segments(row)
    return count


def _add_segments(row: Row) -> Op[int]:
    try:
        plans = plan_segments(row["stage"], json.loads(row["result"])) if row["result"] else ()
    except InvalidResult as error:
        # The completion refused such a result, so this row was written by other hands: fail loudly.
        raise InvalidResult(f"job {row['job_id']}, stage {row['stage']}: {error}") from error
    for part in batched(plans):
        created = yield query(
            "add_tasks",
            g=[
                (plan.segment, row["job_id"], plan.stage, plan.segment, plan.status, None, plan.parameters)
                for plan in part
            ],
        )
        entries = [(task["id"], "create", None, None, None, None) for task in created]
        yield from log_tasks(Actor.ORCHESTRATOR, entries, None)
    return len(plans)
