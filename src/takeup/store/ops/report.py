"""What the holder of a lease reports: renew, complete, fail, release. Every write is fenced by its token."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from takeup.core.ids import canonical_json, nonce_hash
from takeup.core.machine import Actor
from takeup.core.model import Answer, Completion, Failure, Held, Order, Progress
from takeup.core.plan import lists_segments
from takeup.core.policy import REFUNDS_MAX, Retry
from takeup.store.op import Op, Row, Rows, query
from takeup.store.ops.moves import clip, close_jobs, log_tasks


def renew(worker_id: str, reports: Sequence[Progress], *, request_id: str | None = None) -> Op[list[Answer]]:
    """Extend leases and note progress; the answers carry the orders to go on, drain or stop."""
    rows = yield query(
        "renew_tasks",
        worker_id=worker_id,
        request_id=request_id,
        g=[(*_fence(r.held), _percent(r.percent), clip(r.note)) for r in reports],
    )
    yield from _log(worker_id, "renew", [r.held for r in reports], rows, request_id)
    orders = yield query("worker_orders", worker_id=worker_id)
    statuses = {row["worker_status"] for row in [*rows, *orders] if "worker_status" in row}
    order: Order = "drain" if "draining" in statuses else "continue"
    renewed = {
        row["id"]: Answer(
            row["id"], accepted=True, status=row["status"], order=order, expires_at=row["lease_expires_at"]
        )
        for row in rows
    }
    return (yield from _answers(worker_id, [r.held for r in reports], renewed, ()))


def complete(
    worker_id: str, reports: Sequence[Completion], *, request_id: str | None = None
) -> Op[list[Answer]]:
    """Finish tasks with their results and artifacts, and their jobs if nothing is left to do in them."""
    results = [canonical_json(dict(r.result), what="result") for r in reports]
    artifacts = [
        (*_fence(r.held), a.name, a.key, a.sha256, a.size_bytes) for r in reports for a in r.artifacts
    ]
    if artifacts:
        yield query("add_artifacts", worker_id=worker_id, g=artifacts)
    rows = yield query(
        "complete_tasks",
        worker_id=worker_id,
        request_id=request_id,
        g=[
            (*_fence(r.held), text, lists_segments(r.result))
            for r, text in zip(reports, results, strict=True)
        ],
    )
    yield from _log(worker_id, "complete", [r.held for r in reports], rows, request_id)
    yield from close_jobs([row["job_id"] for row in rows], request_id=request_id)
    return (yield from _answers(worker_id, [r.held for r in reports], _accepted(rows), ("complete",)))


def fail(
    worker_id: str, reports: Sequence[Failure], *, luck: Callable[[], float], request_id: str | None = None
) -> Op[list[Answer]]:
    """End attempts that failed: to be retried after the stage's back-off, or for good."""
    context = yield from _context([r.held for r in reports])
    ends = []
    for report in reports:
        row = context.get(report.held.task_id)
        if row is None:
            continue
        policy = Retry(**json.loads(row["retry"]))
        retries = report.retryable and row["attempt"] < row["max_attempts"]
        delay_s = (
            policy.delay_s(row["attempt"], luck()) if report.after_s is None else max(report.after_s, 0.0)
        )
        ends.append((*_fence(report.held), "ERROR" if retries else "FAILED", clip(report.error), delay_s))
    rows = yield query("fail_tasks", worker_id=worker_id, g=ends)
    held = [r.held for r in reports]
    reasons = {r.held.task_id: clip(r.error) for r in reports}
    yield from _log_ends(worker_id, {"ERROR": "fail", "FAILED": "give_up"}, held, rows, reasons, request_id)
    yield from close_jobs([row["job_id"] for row in rows if row["status"] == "FAILED"], request_id=request_id)
    return (yield from _answers(worker_id, held, _accepted(rows), ("fail", "give_up")))


def release(
    worker_id: str, held: Sequence[Held], *, reason: str = "released", request_id: str | None = None
) -> Op[list[Answer]]:
    """Hand tasks back unfinished; the attempt is given back, at most a few times a task."""
    context = yield from _context(held)
    ends = []
    for lease in held:
        row = context.get(lease.task_id)
        if row is None:
            continue
        refund = 1 if row["refunds"] < REFUNDS_MAX else 0
        is_spent = row["attempt"] - refund >= row["max_attempts"]
        error = f"{reason}, once too often" if is_spent else None
        ends.append((*_fence(lease), "FAILED" if is_spent else "READY", refund, error))
    rows = yield query("release_tasks", worker_id=worker_id, g=ends)
    reasons = {lease.task_id: clip(reason) for lease in held}
    yield from _log_ends(
        worker_id, {"READY": "release", "FAILED": "give_up"}, held, rows, reasons, request_id
    )
    yield from close_jobs([row["job_id"] for row in rows if row["status"] == "FAILED"], request_id=request_id)
    return (yield from _answers(worker_id, held, _accepted(rows), ("release", "give_up")))


def _fence(held: Held) -> tuple[int, int, str]:
    return held.task_id, held.token.epoch, nonce_hash(held.token.nonce)


def _percent(percent: float | None) -> float | None:
    return None if percent is None else min(max(float(percent), 0.0), 100.0)


def _context(held: Sequence[Held]) -> Op[dict[int, Row]]:
    rows = yield query("failure_context", g=[(lease.task_id,) for lease in held])
    return {row["id"]: row for row in rows}


def _accepted(rows: Rows) -> dict[int, Answer]:
    return {row["id"]: Answer(row["id"], accepted=True, status=row["status"]) for row in rows}


def _log(worker_id: str, event: str, held: Sequence[Held], rows: Rows, request_id: str | None) -> Op[None]:
    moved = {row["id"] for row in rows}
    entries = [
        (lease.task_id, event, "RUNNING", worker_id, nonce_hash(lease.token.nonce), None)
        for lease in held
        if lease.task_id in moved
    ]
    yield from log_tasks(Actor.HOLDER, entries, request_id)


def _log_ends(
    worker_id: str,
    events: Mapping[str, str],
    held: Sequence[Held],
    rows: Rows,
    reasons: Mapping[int, Any],
    request_id: str | None,
) -> Op[None]:
    statuses = {row["id"]: row["status"] for row in rows}
    entries = [
        (i, events[statuses[i]], "RUNNING", worker_id, nonce_hash(lease.token.nonce), reasons[i])
        for lease in held
        for i in [lease.task_id]
        if i in statuses
    ]
    yield from log_tasks(Actor.HOLDER, entries, request_id)


def _answers(
    worker_id: str, held: Sequence[Held], accepted: Mapping[int, Answer], same: Sequence[str]
) -> Op[list[Answer]]:
    """One answer a report, in their order; a refused one is told how its token ended."""
    refused = [lease for lease in held if lease.task_id not in accepted]
    told: dict[Held, Answer] = {}
    if refused:
        rows = yield query("explain_refusals", worker_id=worker_id, g=[_fence(lease) for lease in refused])
        found = {row["id"]: row for row in rows}
        told = {lease: _refusal(lease, found[lease.task_id], worker_id, same) for lease in refused}
    return [accepted.get(lease.task_id) or told[lease] for lease in held]


def _refusal(held: Held, row: Row, worker_id: str, same: Sequence[str]) -> Answer:
    if row["ended_by"] in same and row["ended_for"] == worker_id:
        return Answer(held.task_id, accepted=True, status=row["ended_as"], reason="repeated")
    order, reason = _why_refused(row, same)
    return Answer(held.task_id, accepted=False, status=row["status"], order=order, reason=reason)


def _why_refused(row: Row, same: Sequence[str]) -> tuple[Order, str]:
    if row["status"] is None:
        return "lost", "no such task"
    if row["ended_by"] in ("cancel", "revoke"):
        return "cancel", row["reason"] or "cancelled"
    if row["is_disabled"]:
        return "lost", "the worker is disabled"
    if row["is_held"] and "complete" in same:
        return "continue", "the result must list the segments to split by"
    if row["is_held"]:
        return "stalled", "no progress within the limit"
    ended = (
        f"the token ended by {row['ended_by']}" if row["ended_by"] else "the token does not hold this task"
    )
    return "lost", ended
