"""What the holder of a lease reports: renew, complete, fail, release. Every write is fenced by its token."""

import json
from collections.abc import Callable, Mapping, Sequence

from takeup.core.budget import Excuse
from takeup.core.ids import nonce_hash
from takeup.core.machine import Actor
from takeup.core.model import NO_RESULT, Answer, Completion, Failure, Held, Order, Progress
from takeup.core.plan import lists_segments
from takeup.core.policy import REFUNDS_MAX, RetryPolicy
from takeup.core.report import check_after_s, check_artifacts, check_batch, check_percent, result_text, weigh
from takeup.store.op import Op, Row, Rows, Together, is_whole, query
from takeup.store.ops.moves import clip, close_jobs, log_tasks

NOTHING = "{}"
"""The stored text of a result that says nothing."""


def renew(worker_id: str, reports: Sequence[Progress], *, request_id: str | None = None) -> Op[list[Answer]]:
    """Extend leases and note progress; the answers carry the orders to go on, drain or stop."""
    fences = _fences([r.held for r in reports])
    rows = yield query(
        "renew_tasks",
        worker_id=worker_id,
        request_id=request_id,
        g=[
            (*fence, check_percent(r.percent), clip(r.note)) for fence, r in zip(fences, reports, strict=True)
        ],
    )
    orders = rows
    if rows and not is_whole(rows):
        yield from _log(worker_id, "renew", fences, rows, request_id)
        orders = yield query("worker_orders", worker_id=worker_id)
    order: Order = "drain" if orders and orders[0]["worker_status"] == "draining" else "continue"
    renewed = {
        row["id"]: Answer(
            row["id"], accepted=True, status=row["status"], order=order, expires_at=row["lease_expires_at"]
        )
        for row in rows
    }
    return (yield from _answers(worker_id, fences, renewed, ()))


def complete(
    worker_id: str, reports: Sequence[Completion], *, request_id: str | None = None
) -> Op[list[Answer]]:
    """Finish tasks with their results and artifacts, and their jobs if nothing is left to do in them."""
    fences = _fences([held for held, _, _ in reports])
    results = [NOTHING if result is NO_RESULT else result_text(result) for _, result, _ in reports]
    publishing = [r for r in reports if r.artifacts]
    for r in publishing:
        check_artifacts(r.artifacts)
    if publishing:
        yield Together()
    rows = yield query(
        "complete_tasks",
        worker_id=worker_id,
        request_id=request_id,
        g=[
            (*fence, text, text != NOTHING and lists_segments(r.result))
            for fence, text, r in zip(fences, results, reports, strict=True)
        ],
    )
    if not is_whole(rows):
        yield from _log(worker_id, "complete", fences, rows, request_id)
    done = {row["id"] for row in rows}
    artifacts = [
        (r.held.task_id, a.name, a.key, a.sha256, a.size_bytes)
        for r in publishing
        if r.held.task_id in done
        for a in r.artifacts
    ]
    if artifacts:
        yield query("add_artifacts", g=artifacts)
    if not is_whole(rows):
        yield from close_jobs([row["job_id"] for row in rows], request_id=request_id)
    accepted = {task_id: Answer(task_id, True, "DONE") for task_id in done}  # noqa: FBT003 - hot
    return (yield from _answers(worker_id, fences, accepted, ("complete",)))


def fail(
    worker_id: str, reports: Sequence[Failure], *, luck: Callable[[], float], request_id: str | None = None
) -> Op[list[Answer]]:
    """End attempts that failed: to be retried after the stage's back-off, or for good."""
    fences = _fences([r.held for r in reports])
    context = yield from _context(fences)
    ends, reasons = [], {}
    excuses = {report.held.task_id: report.excuse for report in reports}
    for fence, report in zip(fences, reports, strict=True):
        row = context.get(report.held.task_id)
        if row is None:
            continue
        policy = RetryPolicy(**json.loads(row["retry"]))
        error, retryable = weigh(report, row["error"])
        reasons[row["id"]] = clip(error)
        retries = retryable and row["attempt"] < row["max_attempts"]
        after_s = check_after_s(report.after_s)
        delay_s = policy.delay_s(row["attempt"], luck()) if after_s is None else after_s
        ends.append((*fence, "ERROR" if retries else "FAILED", clip(error), delay_s))
    rows = yield query("fail_tasks", worker_id=worker_id, g=ends)
    events = {"ERROR": "fail", "FAILED": "give_up"}
    yield from _log_ends(worker_id, events, fences, rows, reasons, request_id, excuses)
    yield from close_jobs([row["job_id"] for row in rows if row["status"] == "FAILED"], request_id=request_id)
    return (yield from _answers(worker_id, fences, _accepted(rows), ("fail", "give_up")))


def release(
    worker_id: str, held: Sequence[Held], *, reason: str = "released", request_id: str | None = None
) -> Op[list[Answer]]:
    """Hand tasks back unfinished; the attempt is given back, at most a few times a task."""
    fences = _fences(held)
    context = yield from _context(fences)
    ends = []
    for fence in fences:
        row = context.get(fence[0])
        if row is None:
            continue
        refund = 1 if row["refunds"] < REFUNDS_MAX else 0
        is_spent = row["attempt"] - refund >= row["max_attempts"]
        error = clip(f"{reason}, once too often") if is_spent else None
        ends.append((*fence, "FAILED" if is_spent else "READY", refund, error))
    rows = yield query("release_tasks", worker_id=worker_id, g=ends)
    reasons = {task_id: clip(reason) for task_id, _, _ in fences}
    yield from _log_ends(
        worker_id, {"READY": "release", "FAILED": "give_up"}, fences, rows, reasons, request_id
    )
    yield from close_jobs([row["job_id"] for row in rows if row["status"] == "FAILED"], request_id=request_id)
    return (yield from _answers(worker_id, fences, _accepted(rows), ("release", "give_up")))


Fence = tuple[int, int, str]
"""Task, epoch and nonce hash, as the statements compare them."""


def _fences(held: Sequence[Held]) -> list[Fence]:
    check_batch(held)
    return [(task_id, epoch, nonce_hash(nonce)) for task_id, (epoch, nonce) in held]


def _context(fences: Sequence[Fence]) -> Op[dict[int, Row]]:
    rows = yield query("failure_context", g=[(task_id,) for task_id, _, _ in fences])
    return {row["id"]: row for row in rows}


def _accepted(rows: Rows) -> dict[int, Answer]:
    return {row["id"]: Answer(row["id"], accepted=True, status=row["status"]) for row in rows}


def _log(worker_id: str, event: str, fences: Sequence[Fence], rows: Rows, request_id: str | None) -> Op[None]:
    moved = {row["id"] for row in rows}
    entries = [
        (task_id, event, "RUNNING", worker_id, nonce_hash_, None)
        for task_id, _, nonce_hash_ in fences
        if task_id in moved
    ]
    yield from log_tasks(Actor.HOLDER, entries, request_id)


def _log_ends(
    worker_id: str,
    events: Mapping[str, str],
    fences: Sequence[Fence],
    rows: Rows,
    reasons: Mapping[int, str | None],
    request_id: str | None,
    excuses: Mapping[int, Excuse | None] | None = None,
) -> Op[None]:
    statuses = {row["id"]: row["status"] for row in rows}
    entries = [
        (task_id, events[statuses[task_id]], "RUNNING", worker_id, nonce_hash_, reasons[task_id])
        for task_id, _, nonce_hash_ in fences
        if task_id in statuses
    ]
    yield from log_tasks(Actor.HOLDER, entries, request_id, excuses)


def _answers(
    worker_id: str, fences: Sequence[Fence], accepted: Mapping[int, Answer], same: Sequence[str]
) -> Op[list[Answer]]:
    """One answer a report, in their order; a refused one is told how its token ended."""
    told = accepted
    if len(accepted) < len(fences):
        refused = [fence for fence in fences if fence[0] not in accepted]
        rows = yield query("explain_refusals", worker_id=worker_id, g=refused)
        told = {**accepted, **{row["id"]: _refusal(row, worker_id, same) for row in rows}}
    return [told[task_id] for task_id, _, _ in fences]


def _refusal(row: Row, worker_id: str, same: Sequence[str]) -> Answer:
    if row["ended_by"] in same and row["ended_for"] == worker_id:
        return Answer(row["id"], accepted=True, status=row["ended_as"], reason="repeated")
    order, reason = _why_refused(row, same)
    return Answer(row["id"], accepted=False, status=row["status"], order=order, reason=reason)


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
