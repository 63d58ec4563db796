"""Taking one named task, for a claimer that chose it from a list: all guards of a claim, not its order."""

from takeup.core.ids import lease_nonces, nonce_hash
from takeup.core.machine import TASK
from takeup.core.model import Lease
from takeup.store.op import Op, Row, query
from takeup.store.ops.claim import ClaimRequest, leases_of, start_jobs
from takeup.store.ops.moves import log_tasks
from takeup.store.ops.recover import take_back


def claim_task(request: ClaimRequest, task_id: int) -> Op[Lease | None]:
    """Lease this task to the worker, or give the lease of the same request again; None if it was lost.

    A lease on it that is over is taken back first, so nobody has to wait for recovery.
    """
    (nonce,) = lease_nonces(request.secret, 1)
    hash_ = nonce_hash(nonce)
    row, slot = yield from _seat(request, task_id)
    rows = []
    if row is not None:
        rows = yield query(
            "claim_task",
            task_id=task_id,
            worker_id=request.worker_id,
            request_id=request.request_id,
            slot=slot,
            nonce_hash=hash_,
        )
    if row is None or not rows:
        rows = yield query("claimed_before", worker_id=request.worker_id, request_id=request.request_id)
        return next(iter(leases_of(rows, {hash_: nonce})), None)
    yield query("add_claim", request_id=request.request_id, worker_id=request.worker_id)
    move = TASK.move("claim")
    entry = (task_id, move.name, "READY", request.worker_id, hash_, None)
    yield from log_tasks(move.actor, [entry], request.request_id)
    jobs = yield query("jobs_for_change", j=[(row["job_id"],)])
    picked = [{**row, "job_status": job["status"]} for job in jobs]
    yield from start_jobs(picked, {task_id}, request.request_id)
    return leases_of(rows, {hash_: nonce})[0]


def _seat(request: ClaimRequest, task_id: int) -> Op[tuple[Row | None, int]]:
    """The task, locked and claimable, and a free slot for it; no task if a guard fails."""
    tasks = yield query("task_to_claim", task_id=task_id)
    if not tasks or (yield query("claim_known", request_id=request.request_id)):
        return None, 0
    task = tasks[0]
    params = {"worker_id": request.worker_id, "lane_id": task["lane_id"]}
    seat = yield query("seat_of_worker", **params)
    if not seat or not (task["is_due"] or task["is_overdue"]):
        return None, 0
    if task["is_overdue"]:
        yield from take_back([task])
        seat = yield query("seat_of_worker", **params)
    used = {row["lease_slot"] for row in seat if row["lease_slot"] is not None}
    free = sorted(set(range(1, seat[0]["slots"] + 1)) - used)
    return (task, free[0]) if free and len(used) < seat[0]["slots"] else (None, 0)
