"""Creating jobs: idempotent by key, at most one live job a subject, all of a batch or nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from takeup.core.errors import IdempotencyMismatch, SubjectBusy
from takeup.core.ids import canonical_json
from takeup.core.machine import Actor
from takeup.core.plan import JobPlan, LanePlan, StagePlan
from takeup.store.op import Op, Together, is_whole, query
from takeup.store.ops.moves import log_tasks
from takeup.store.ops.worker import add_lanes_of

FEW_JOBS = 4


def submit(
    plans: Sequence[tuple[str, JobPlan]], *, request_id: str | None = None, hint: str = ""
) -> Op[list[str]]:
    """Create each planned job under its new id, or find the one its key made before; answers with the ids."""
    answers, fresh = yield from _sort_out(plans)
    busy = yield from _busy(fresh)
    if busy:  # a submit of the same key may have been committed between the two looks
        answers, fresh = yield from _sort_out(plans)
        busy = yield from _busy(fresh)
    if busy:
        raise SubjectBusy(busy)
    if fresh:
        yield from _insert(fresh, request_id, hint)
    return answers


def _sort_out(plans: Sequence[tuple[str, JobPlan]]) -> Op[tuple[list[str], dict[str, JobPlan]]]:
    """The id to answer for each plan, and the plans that are new: no key, or one that is not known yet."""
    keys = sorted({_key(plan) for _, plan in plans if plan.idempotency_key})
    rows = (yield query("jobs_by_key", k=keys)) if keys else []
    jobs = {
        (row["user_id"], row["idempotency_key"]): (row["id"], row["spec_hash"], row["request_hash"])
        for row in rows
    }
    answers: list[str] = []
    fresh: dict[str, JobPlan] = {}
    for new_id, plan in plans:
        if plan.idempotency_key and _key(plan) in jobs:
            job_id, spec_hash, request_hash = jobs[_key(plan)]
            if not plan.repeats(spec_hash, request_hash):
                raise IdempotencyMismatch(
                    f"the key {plan.idempotency_key!r} was used for job {job_id} with another body"
                )
            answers.append(job_id)
            continue
        if plan.idempotency_key:
            jobs[_key(plan)] = new_id, plan.spec_hash, plan.request_hash
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


def _insert(fresh: dict[str, JobPlan], request_id: str | None, hint: str) -> Op[None]:
    """Write all rows of these jobs: a few of them in one statement where the database can."""
    lanes = {stage.lane.name: stage.lane for plan in fresh.values() for stage in plan.stages}
    rows, names = _Rows(fresh), sorted(lanes)
    if len(fresh) <= FEW_JOBS and (yield from _insert_few(rows, names, request_id, hint)):
        return
    lane_ids = yield from _lane_ids(lanes)
    if len(fresh) <= FEW_JOBS and (yield from _insert_few(rows, names, request_id, hint)):
        return
    actor = Actor.OPERATOR
    yield query("add_jobs", g=rows.jobs)
    yield query("add_stages", g=rows.stages(lane_ids))
    if rows.needs:
        yield query("add_needs", g=rows.needs)
    created = yield query("add_tasks", g=rows.tasks)
    births = [(job_id, "create", None, None) for job_id in fresh]
    yield query("log_jobs", g=births, actor=actor.value, request_id=request_id)
    entries = [(row["id"], "create", None, None, None, None) for row in created]
    yield from log_tasks(actor, entries, request_id)


def _insert_few(rows: "_Rows", lanes: Sequence[str], request_id: str | None, hint: str) -> Op[bool]:
    """Whether one statement wrote everything; not if it is not for this database, or a lane is missing."""
    made = yield query(
        "add_few_jobs",
        g=rows.jobs,
        s=rows.stages({name: name for name in lanes}),
        n=rows.needs,
        t=rows.tasks,
        l=[(name,) for name in lanes],
        lane_count=len(lanes),
        actor=Actor.OPERATOR.value,
        request_id=request_id,
        hint=hint,
    )
    return is_whole(made) and made[0]["whole"] > 0


class _Rows:
    """The rows of jobs that are written, by table."""

    def __init__(self, fresh: dict[str, JobPlan]) -> None:
        self._fresh = fresh
        self.jobs = [_job_row(job_id, plan) for job_id, plan in fresh.items()]
        self.needs = [
            (job_id, need.stage, need.needs, need.per_segment)
            for job_id, plan in fresh.items()
            for need in plan.needs
        ]
        planned = [(job_id, task, plan.not_before) for job_id, plan in fresh.items() for task in plan.tasks]
        self.tasks = [
            (position, job_id, task.stage, task.segment, task.status, not_before, task.parameters)
            for position, (job_id, task, not_before) in enumerate(planned)
        ]

    def stages(self, lanes: Mapping[str, int | str]) -> list[tuple[Any, ...]]:
        """The stages, with what stands for their lane."""
        return [
            _stage_row(job_id, stage, lanes[stage.lane.name])
            for job_id, plan in self._fresh.items()
            for stage in plan.stages
        ]


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
        plan.request_hash,
    )


def _stage_row(job_id: str, stage: StagePlan, lane: int | str) -> tuple[Any, ...]:
    return (
        job_id,
        stage.stage,
        stage.position,
        lane,
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


def _lane_ids(by_name: Mapping[str, LanePlan]) -> Op[dict[str, int]]:
    """The ids of these lanes; new ones are added, and every worker that fits is assigned to them."""
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
