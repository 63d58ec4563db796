"""The control table: adopting rows as jobs, listing them, and what of them can be claimed now."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from takeup.core.control import ADOPT_MAX, Adoption, Claimable, ControlRow, ControlStatus
from takeup.core.errors import InvalidInput
from takeup.core.model import Control
from takeup.core.pipeline import STAGES_MAX, splitter_of
from takeup.core.plan import JobPlan
from takeup.store.op import Op, Row, query
from takeup.store.ops.moves import move_tasks
from takeup.store.ops.operate import set_control
from takeup.store.ops.orchestrate import advance
from takeup.store.ops.read import page_size
from takeup.store.ops.submit import submit


@dataclass(frozen=True, slots=True)
class ControlFilter:
    """Which rows to list; None does not filter."""

    stage: str | None = None
    status: ControlStatus | None = None
    task_state: Control | None = None


def adopt(
    plans: Sequence[tuple[str, JobPlan, Adoption]], *, reason: str, request_id: str | None = None
) -> Op[list[str | None]]:
    """Create the jobs of those subjects that never had one, each at the stage where its work goes on.

    Answers with a job id each, or None where the subject has had a job, live, finished or archived, which
    stays as it is. Everything of it is one transaction: no job can be seen, or claimed from, half adopted.
    """
    check_adoptions([adoption for _, _, adoption in plans])
    if not plans:
        return []
    rows = yield query("known_subjects", s=[(plan.subject,) for _, plan, _ in plans])
    known = {row["subject"] for row in rows}
    fresh: dict[str, tuple[JobPlan, Adoption]] = {}
    for job_id, plan, adoption in plans:
        if plan.subject not in known:
            known.add(plan.subject)
            fresh[job_id] = plan, adoption
    if fresh:
        yield from submit([(job_id, plan) for job_id, (plan, _) in fresh.items()], request_id=request_id)
        yield from _settle({job_id: adoption for job_id, (_, adoption) in fresh.items()}, reason)
    return [job_id if job_id in fresh else None for job_id, _, _ in plans]


def check_adoptions(adoptions: Sequence[Adoption]) -> None:
    """Refuse a batch without bounds, a job without a subject, and stages that could not be left out."""
    if len(adoptions) > ADOPT_MAX:
        raise InvalidInput(f"{len(adoptions)} jobs to adopt at once; at most {ADOPT_MAX} are allowed")
    for adoption in adoptions:
        job = adoption.job
        if job.subject is None and not job.pipeline.key:
            raise InvalidInput("a job can be adopted only with a subject")
        for name in adoption.done:
            job.pipeline.get(name)
        for stage in job.pipeline.stages.values():
            if stage.each and stage.name not in adoption.done:
                splitter = splitter_of(stage, job.pipeline.stages)
                if splitter in adoption.done:
                    raise InvalidInput(
                        f"{splitter} cannot be left out: it lists the segments of {stage.name}"
                    )


def rows(pipeline: str, where: ControlFilter, after: str, limit_count: int) -> Op[list[ControlRow]]:
    """A page of the control table in the order of the job ids."""
    found = yield query(
        "control_rows",
        pipeline=pipeline,
        stage=where.stage,
        status=where.status,
        task_state=where.task_state,
        after=after,
        limit_count=page_size(limit_count),
    )
    return [_control_row(row) for row in found]


def row_of(subject: str) -> Op[ControlRow | None]:
    """The row of one subject."""
    found = yield query("control_row", subject=subject)
    return _control_row(found[0]) if found else None


def worklist(pipeline: str, stage: str | None, limit_count: int) -> Op[list[Claimable]]:
    """What can be claimed now, most urgent first."""
    limit_count = page_size(limit_count)
    found = yield query("claimable_tasks", pipeline=pipeline, stage=stage, limit_count=limit_count)
    return [_claimable(row) for row in found]


def worklist_of(subject: str, limit_count: int) -> Op[list[Claimable]]:
    """What of one subject can be claimed now, its first stage first."""
    found = yield query("claimable_tasks_of", subject=subject, limit_count=page_size(limit_count))
    return [_claimable(row) for row in found]


def _settle(adoptions: dict[str, Adoption], reason: str) -> Op[None]:
    """Leave out what is done or to be skipped, and let the rest go on."""
    skipped = [job_id for job_id, adoption in adoptions.items() if adoption.is_skipped]
    started = {i: adoption.done for i, adoption in adoptions.items() if adoption.done}
    places = [(job_id, stage) for job_id, done in started.items() for stage in done]
    if places:
        tasks = yield query("tasks_of_stages", g=places)
        yield from move_tasks("skip", tasks, reason=reason)
    if skipped:
        yield from set_control(skipped, "SKIP", reason=reason)
    yield from advance([job_id for job_id in started if job_id not in skipped], ADOPT_MAX * STAGES_MAX)


def _control_row(row: Row) -> ControlRow:
    values: dict[str, Any] = {field.name: row.get(field.name) for field in fields(ControlRow)}
    return ControlRow(
        **{**values, "lease_until": row["lease_until_at"], "is_claimed": bool(row["is_claimed"])}
    )


def _claimable(row: Row) -> Claimable:
    spec = json.loads(row["spec"])
    return Claimable(spec["url"], spec["iteration"], row["stage"], row["task_id"], row["job_id"])
