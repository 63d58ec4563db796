"""Creating jobs: idempotent by key, at most one live job a subject, all of a batch or nothing."""

from collections.abc import Sequence

from takeup.core.errors import IdempotencyMismatch, SubjectBusy
from takeup.core.ids import canonical_json
from takeup.core.machine import Actor
from takeup.core.plan import JobPlan, LanePlan
from takeup.store.op import Op, query
from takeup.store.ops.worker import add_lanes_of
from takeup.store.ops.moves import log_tasks


def submit(plans: Sequence[tuple[str, JobPlan]], *, request_id: str | None = None) -> Op[list[str]]:
    """Create each planned job under its new id, or find the one its key made before; answers with their ids."""
    known = yield from _known(plans)
    answers = [known.get(_key(plan), new_id) if plan.idempotency_key else new_id for new_id, plan in plans]
    fresh = {job_id: plan for job_id, (new_id, plan) in zip(answers, plans, strict=True) if job_id == new_id}
    if fresh:
        yield from _check_subjects(fresh)
        yield from _insert(fresh, request_id)
    return answers


def _known(plans: Sequence[tuple[str, JobPlan]]) -> Op[dict[tuple[str, str], str]]:
    """The job of every key that is stored already or occurs earlier in the batch."""
    keyed = [(new_id, plan) for new_id, plan in plans if plan.idempotency_key]
    if not keyed:
        return {}
    rows = yield query("jobs_by_key", k=sorted({_key(plan) for _, plan in keyed}))
    jobs = {(row["user_id"], row["idempotency_key"]): (row["id"], row["spec_hash"]) for row in rows}
    for new_id, plan in keyed:
        job_id, spec_hash = jobs.setdefault(_key(plan), (new_id, plan.spec_hash))
        if spec_hash != plan.spec_hash:
            raise IdempotencyMismatch(
                f"the idempotency key {plan.idempotency_key!r} was used for job {job_id} with another body"
            )
    return {key: job_id for key, (job_id, _) in jobs.items()}


def _key(plan: JobPlan) -> tuple[str, str]:
    return plan.user_id, plan.idempotency_key or ""


def _check_subjects(fresh: dict[str, JobPlan]) -> Op[None]:
    subjects = [plan.subject for plan in fresh.values() if plan.subject is not None]
    if len(set(subjects)) < len(subjects):
        twice = next(s for s in subjects if subjects.count(s) > 1)
        raise SubjectBusy(f"the batch holds two jobs for {twice!r}")
    if subjects:
        rows = yield query("live_by_subject", s=[(subject,) for subject in subjects])
        if rows:
            raise SubjectBusy(f"{rows[0]['live_subject']!r} already has the live job {rows[0]['id']}")


def _insert(fresh: dict[str, JobPlan], request_id: str | None) -> Op[None]:
    lane_ids = yield from _lane_ids({stage.lane for plan in fresh.values() for stage in plan.stages})
    yield query(
        "add_jobs",
        g=[
            (
                i,
                p.pipeline,
                p.subject,
                p.user_id,
                p.idempotency_key,
                p.priority,
                p.control,
                p.spec,
                p.spec_hash,
            )
            for i, p in fresh.items()
        ],
    )
    yield query(
        "add_stages",
        g=[
            (i, s.stage, s.position, lane_ids[s.lane.name], s.phase, s.lease_s, s.stall_s, s.max_attempts, s.retry,
             s.version, s.splitter)
            for i, p in fresh.items()
            for s in p.stages
        ],
    )  # fmt: skip
    needs = [(i, n.stage, n.needs, n.per_segment) for i, p in fresh.items() for n in p.needs]
    if needs:
        yield query("add_needs", g=needs)
    planned = [(i, t, p.not_before) for i, p in fresh.items() for t in p.tasks]
    created = yield query(
        "add_tasks",
        g=[
            (n, i, t.stage, t.segment, t.status, not_before, t.parameters)
            for n, (i, t, not_before) in enumerate(planned)
        ],
    )
    yield query(
        "log_jobs", g=[(i, "create", None, None) for i in fresh], actor=Actor.OPERATOR, request_id=request_id
    )
    yield from log_tasks(
        Actor.OPERATOR, [(row["id"], "create", None, None, None, None) for row in created], request_id
    )


def _lane_ids(lanes: set[LanePlan]) -> Op[dict[str, int]]:
    """The ids of these lanes; new ones are added, and every worker that fits is assigned to them."""
    by_name = {lane.name: lane for lane in lanes}
    names = [(name,) for name in sorted(by_name)]
    rows = yield query("lanes_by_name", n=names)
    missing = sorted(set(by_name) - {row["name"] for row in rows})
    if missing:
        yield query(
            "add_lanes",
            n=[
                (name, by_name[name].pipeline, by_name[name].stage, canonical_json(by_name[name].requires),
                 by_name[name].prefers)
                for name in missing
            ],
        )  # fmt: skip
        rows = yield query("lanes_by_name", n=names)
        added = {row["id"]: by_name[row["name"]] for row in rows if row["name"] in missing}
        workers = yield query("workers_abilities")
        yield from add_lanes_of(workers, added)
    return {row["name"]: row["id"] for row in rows}
