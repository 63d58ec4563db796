"""What recovery does: leases that ran out, retries that are due, all by the database's clock."""

from collections.abc import Sequence

from takeup.core.machine import Actor
from takeup.store.op import Op, Row, query
from takeup.store.ops.moves import close_jobs, log_tasks, move_tasks


def expire(limit_count: int) -> Op[list[int]]:
    """Take back tasks whose lease is over: to READY, or FAILED if no attempt is left; answers with their ids.

    A row that another transaction holds is passed by and found again by the next pass.
    """
    overdue = yield query("overdue_tasks", limit_count=limit_count)
    return (yield from take_back(overdue)) if overdue else []


def take_back(overdue: Sequence[Row]) -> Op[list[int]]:
    """End the leases of these rows, as just read, if they are over still."""
    found = {row["id"]: row for row in overdue}
    reasons = {
        row[
            "id"
        ]: f"the lease of {row['lease_owner']} ran out in attempt {row['attempt']} of {row['max_attempts']}"
        for row in overdue
    }
    moved = yield query("expire_tasks", g=[(row["id"], row["epoch"], reasons[row["id"]]) for row in overdue])
    entries = [
        (
            row["id"],
            "expire" if row["status"] == "READY" else "bury",
            "RUNNING",
            found[row["id"]]["lease_owner"],
            found[row["id"]]["nonce_hash"],
            reasons[row["id"]],
        )
        for row in moved
    ]
    yield from log_tasks(Actor.RECOVERY, entries, None)
    yield from close_jobs(row["job_id"] for row in moved if row["status"] == "FAILED")
    return sorted(row["id"] for row in moved)


def wake(limit_count: int) -> Op[list[int]]:
    """Make tasks READY again whose back-off is over; answers with their ids."""
    due = yield query("due_retries", limit_count=limit_count)
    return (yield from move_tasks("wake", [{**row, "status": "ERROR"} for row in due]))


def forget_claims(older_than_s: float) -> Op[None]:
    """Drop the records of old claim requests; a request that old is never repeated."""
    yield query("forget_claims", older_than_s=older_than_s)
