"""Quarantines workers that fail what others finish, by the log alone."""

from datetime import timedelta

from takeup.core.budget import (
    FAILURES_MAX,
    LOG_ROWS_MAX,
    ErrorBudget,
    Judged,
    Stake,
    Suspect,
    suspects_of,
)
from takeup.core.errors import InvalidInput
from takeup.core.machine import Actor
from takeup.store.op import Op, query


def quarantine(budget: ErrorBudget) -> Op[Judged]:
    """Give those nothing new that spent their budget: failed as many tasks which others then finished.

    One after the other, so that each is weighed against those that are left.
    """
    if budget.tasks < 1:
        raise InvalidInput(f"an error budget of {budget.tasks} tasks is none; it must be 1 at least")
    (clock,) = yield query("clock")
    rows = yield query(
        "blamed_lanes",
        since=clock["now_at"] - timedelta(seconds=budget.window_s),
        look_count=FAILURES_MAX,
    )
    suspects = suspects_of(rows, budget)
    if not suspects:
        return Judged()
    held = yield query("workers_for_change", g=[(one.worker_id,) for one in suspects])
    known = {row["id"] for row in held if row["quarantined_at"] is not None}
    statuses = {row["id"]: row["status"] for row in held}
    quarantined, spared = [], []
    for suspect in (one for one in suspects if one.worker_id not in known):
        reason = yield from _reason(suspect, budget)
        if reason is None:
            continue
        stakes = yield query("lanes_at_stake", worker_id=suspect.worker_id)
        if not suspect.may_go(
            Stake(row["lane_id"], row["online_count"], int(row["quarantined_count"]), bool(row["is_waiting"]))
            for row in stakes
        ):
            spared.append(suspect.worker_id)
        elif (yield query("quarantine_worker", worker_id=suspect.worker_id, reason=reason)):
            quarantined.append((suspect.worker_id, reason))
    if quarantined:
        entries = [
            (worker_id, "quarantine", statuses[worker_id], reason) for worker_id, reason in quarantined
        ]
        yield query("log_workers", g=entries, actor=Actor.RECOVERY.value, request_id=None)
    return Judged(tuple(worker_id for worker_id, _ in quarantined), tuple(spared))


def _reason(suspect: Suspect, budget: ErrorBudget) -> Op[str | None]:
    rows = yield query(
        "finished_since",
        worker_id=suspect.worker_id,
        first_seq=suspect.first_seq,
        look_count=LOG_ROWS_MAX,
        g=[(lane_id,) for lane_id in sorted(suspect.lanes)],
    )
    return suspect.reason(int(rows[0]["task_count"]), budget)
