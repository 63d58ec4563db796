"""A new run of finished jobs, planned from their stored rows: no pipeline needs to be loaded."""

import json
from collections.abc import Sequence

from takeup.core.errors import IllegalMove, NotFound
from takeup.core.machine import JOB
from takeup.core.plan import JobPlan, LanePlan, NeedPlan, StagePlan, TaskPlan
from takeup.core.videos import video_of
from takeup.store.op import Op, Row, query
from takeup.store.ops.submit import submit
from takeup.store.ops.videos import check_wanted


def retry(jobs: Sequence[tuple[str, str]], *, request_id: str | None = None) -> Op[list[str]]:
    """Run each finished job again under its new id, all or none: (old id, new id); answers with the new."""
    rows = yield query("jobs_for_change", j=[(job_id,) for job_id in sorted({old for old, _ in jobs})])
    found = {row["id"]: row for row in rows}
    for old, _ in jobs:
        if old not in found:
            raise NotFound(f"no job has the id {old!r}")
        if found[old]["status"] not in JOB.final:
            raise IllegalMove(f"job {old} is {found[old]['status']} and cannot be retried before it ended")
    stored = {}
    for old in found:
        (stored[old],) = yield query("job_by_id", job_id=old)
    yield from check_wanted({video_of(row["subject"]) for row in stored.values()})
    plans = []
    for old, new in jobs:
        stages = yield query("stages_of_job", job_id=old)
        needs = yield query("needs_of_job", job_id=old)
        plans.append((new, again(stored[old], stages, needs)))
    return (yield from submit(plans, request_id=request_id))


def again(job: Row, stages: Sequence[Row], needs: Sequence[Row]) -> JobPlan:
    """The plan of the same job once more, without its key: a key names one job."""
    waiting = {row["stage"] for row in needs}
    return JobPlan(
        pipeline=job["pipeline"],
        subject=job["subject"],
        user_id=job["user_id"],
        idempotency_key=None,
        priority=job["priority"],
        control="READY",
        not_before=None,
        spec=job["spec"],
        spec_hash=job["spec_hash"],
        request_hash=None,
        stages=tuple(_stage(row) for row in stages),
        needs=tuple(NeedPlan(row["stage"], row["needs"], bool(row["per_segment"])) for row in needs),
        tasks=tuple(
            TaskPlan(row["stage"], None, "NEW" if row["stage"] in waiting else "READY")
            for row in stages
            if row["splitter"] is None
        ),
    )


def _stage(row: Row) -> StagePlan:
    return StagePlan(
        stage=row["stage"],
        position=row["position"],
        lane=LanePlan(row["pipeline"], row["lane_stage"], tuple(json.loads(row["requires"])), row["prefers"]),
        phase=row["phase"],
        lease_s=row["lease_s"],
        stall_s=row["stall_s"],
        max_attempts=row["max_attempts"],
        retry=row["retry"],
        version=row["version"],
        splitter=row["splitter"],
    )
