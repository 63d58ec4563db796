"""Creating jobs: idempotent by key, at most one live job a subject, all of a batch or nothing."""

from collections.abc import Sequence
from typing import Any

from takeup.core.errors import IdempotencyMismatch, SubjectBusy
from takeup.core.ids import canonical_json
from takeup.core.machine import Actor
from takeup.core.plan import JobPlan, LanePlan, StagePlan
from takeup.store.op import Op, Together, is_whole, query
from takeup.store.ops.moves import log_tasks
from takeup.store.ops.worker import add_lanes_of

FEW_JOBS = 4


def submit(plans: Sequence[tuple[str, JobPlan]], *, request_id: str | None = None) -> Op[list[str]]:
    """Create each planned job under its new id, or find the one its key made before; answers with the ids."""
    answers, fresh = yield from _sort_out(plans)
    busy = yield from _busy(fresh)
    if busy:  # a submit of the same key may have been committed between the two looks
        answers, fresh = yield from _sort_out(plans)
        busy = yield from _busy(fresh)
    if busy:
        raise SubjectBusy(busy)
    if fresh:
        yield from _insert(fresh, request_id)
    return answers


def _sort_out(plans: Sequence[tuple[str, JobPlan]]) -> Op[tuple[list[str], dict[str, JobPlan]]]:
    """The id to answer for each plan, and the plans that are new: no key, or one that is not known yet."""
    keys = sorted({_key(plan) for _, plan in plans if plan.idempotency_key})
    rows = (yield query("jobs_by_key", k=keys)) if keys else []
    jobs = {(row["user_id"], row["idempotency_key"]): (row["id"], row["spec_hash"]) for row in rows}
    answers: list[str] = []
    fresh: dict[str, JobPlan] = {}
    for new_id, plan in plans:
        if plan.idempotency_key and _key(plan) in jobs:
            job_id, spec_hash = jobs[_key(plan)]
            if spec_hash != plan.spec_hash:
                raise IdempotencyMismatch(
                    f"the key {plan.idempotency_key!r} was used for job {job_id} with another body"
                )
            answers.append(job_id)
            continue
        if plan.idempotency_key:
            jobs[_key(plan)] = new_id, plan.spec_hash
        answers.append(new_id)
        fresh[new_id] = plan
    return answers, fresh


def _key(plan: JobPlan) -> tuple[str, str]:
    return plan.user_id, plan.idempotency_key or ""


def _busy(fresh: dict[str, JobPlan]) -> Op[str | None]:
    """Why a subject of these jobs is taken, or None."""
    subjects = [plan.subject for plan in fresh.values() if plan.subject is not None]
    if len(set(subjects)) < len(subjects):
        twice = next(subject for subject in subjects if subjects.count(subject) > 1)
        return f"the batch holds two jobs for {twice!r}"
    if subjects:
        rows = yield query("live_by_subject", s=[(subject,) for subject in subjects])
        if rows:
            return f"{rows[0]['live_subject']!r} already has the live job {rows[0]['id']}"
    return None


def _insert(fresh: dict[str, JobPlan], request_id: str | None) -> Op[None]:
    """Write all rows of these jobs: a few of them in one statement where the database can."""
    lane_ids = yield from _lane_ids({stage.lane for plan in fresh.values() for stage in plan.stages})
    jobs = [_job_row(job_id, plan) for job_id, plan in fresh.items()]
    stages = [
        _stage_row(job_id, stage, lane_ids[stage.lane.name])
        for job_id, plan in fresh.items()
        for stage in plan.stages
    ]
    needs = [(job_id, n.stage, n.needs, n.per_segment) for job_id, plan in fresh.items() for n in plan.needs]
    planned = [(job_id, task, plan.not_before) for job_id, plan in fresh.items() for task in plan.tasks]
    tasks = [
        (position, job_id, task.stage, task.segment, task.status, not_before, task.parameters)
        for position, (job_id, task, not_before) in enumerate(planned)
    ]
    actor = Actor.OPERATOR
    if len(fresh) <= FEW_JOBS:
        rows = yield query(
            "add_few_jobs", g=jobs, s=stages, n=needs, t=tasks, actor=actor.value, request_id=request_id
        )
        if is_whole(rows):
            return
    yield query("add_jobs", g=jobs)
    yield query("add_stages", g=stages)
    if needs:
        yield query("add_needs", g=needs)
    created = yield query("add_tasks", g=tasks)
    births = [(job_id, "create", None, None) for job_id in fresh]
    yield query("log_jobs", g=births, actor=actor.value, request_id=request_id)
    entries = [(row["id"], "create", None, None, None, None) for row in created]
    yield from log_tasks(actor, entries, request_id)


def _job_row(job_id: str, plan: JobPlan) -> tuple[Any, ...]:
    return (
        job_id,
        plan.pipeline,
        plan.subject,
        plan.user_id,
        plan.idempotency_key,
        plan.priority,
        plan.control,
        plan.spec,
        plan.spec_hash,
    )


def _stage_row(job_id: str, stage: StagePlan, lane_id: int) -> tuple[Any, ...]:
    return (
        job_id,
        stage.stage,
        stage.position,
        lane_id,
        stage.phase,
        stage.lease_s,
        stage.stall_s,
        stage.max_attempts,
        stage.retry,
        stage.version,
        stage.splitter,
    )


def _lane_row(lane: LanePlan) -> tuple[Any, ...]:
    return lane.name, lane.pipeline, lane.stage, canonical_json(lane.requires), lane.prefers


def _lane_ids(lanes: set[LanePlan]) -> Op[dict[str, int]]:
    """The ids of these lanes; new ones are added, and every worker that fits is assigned to them."""
    by_name = {lane.name: lane for lane in lanes}
    names = [(name,) for name in sorted(by_name)]
    rows = yield query("lanes_by_name", n=names)
    missing = sorted(set(by_name) - {row["name"] for row in rows})
    if missing:
        yield Together()
        yield query("add_lanes", n=[_lane_row(by_name[name]) for name in missing])
        rows = yield query("lanes_by_name", n=names)
        added = {row["id"]: by_name[row["name"]] for row in rows if row["name"] in missing}
        workers = yield query("workers_abilities")
        yield from add_lanes_of(workers, added)
    return {row["name"]: row["id"] for row in rows}
