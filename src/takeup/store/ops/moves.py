"""What all moves share: applying them to rows that were read, writing the log, closing finished jobs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from takeup.core.budget import Excuse
from takeup.core.ids import canonical_json
from takeup.core.machine import JOB, TASK, Actor
from takeup.core.model import ERROR_CHARS_MAX
from takeup.store.op import Op, Row, query

T = TypeVar("T")

BATCH_ROWS = 5000
"""How many rows a statement of an operation on whole jobs takes at once."""

_CLOSING = {"completed": "complete", "failed": "fail", "cancelled": "cancel"}


def move_tasks(
    name: str, rows: Sequence[Row], *, request_id: str | None = None, reason: str | None = None
) -> Op[list[int]]:
    """Make the named move for every row whose state allows it; answers with the ids that moved.

    Each row must hold id, status and epoch as just read: a row that changed since then stays as it is.
    """
    move = TASK.move(name)
    legal = [row for row in rows if row["status"] in move.sources]
    ids: list[int] = []
    for part in batched(legal):
        moved = yield query(
            "move_tasks", g=[(row["id"], row["epoch"], row["status"], move.target) for row in part]
        )
        done = {row["id"] for row in moved}
        yield from log_tasks(
            move.actor,
            [
                (row["id"], name, row["status"], row.get("lease_owner"), row.get("nonce_hash"), clip(reason))
                for row in part
                if row["id"] in done
            ],
            request_id,
        )
        ids += sorted(done)
    return ids


def batched(rows: Sequence[T]) -> Iterator[Sequence[T]]:
    """The rows in pieces that one statement handles well within its time limit."""
    for start in range(0, len(rows), BATCH_ROWS):
        yield rows[start : start + BATCH_ROWS]


def log_tasks(
    actor: Actor,
    entries: Sequence[tuple[Any, ...]],
    request_id: str | None,
    excuses: Mapping[int, Excuse | None] | None = None,
) -> Op[None]:
    """Write the audit rows of moved tasks: (task, event, from, worker, nonce hash, reason), excuses by id."""
    if entries:
        known = excuses or {}
        rows = [(*entry, known.get(entry[0])) for entry in entries]
        yield query("log_tasks", g=rows, actor=actor.value, request_id=request_id)


def close_jobs(job_ids: Iterable[str], *, request_id: str | None = None) -> Op[list[str]]:
    """Roll up: close every listed job in which nothing is left to do; answers with their ids."""
    wanted = [(job_id,) for job_id in sorted(set(job_ids))]
    if not wanted:
        return []
    rows = yield query("closable_jobs", j=wanted)
    if not rows:
        return []
    found = {row["id"]: row for row in rows}
    closed = yield query(
        "close_jobs",
        g=[(row["id"], row["from_status"], row["to_status"], clip(row["error"])) for row in rows],
    )
    entries = [
        (row["id"], _CLOSING[row["status"]], found[row["id"]]["from_status"], clip(found[row["id"]]["error"]))
        for row in closed
    ]
    if entries:
        yield query("log_jobs", g=entries, actor=JOB.move("complete").actor.value, request_id=request_id)
        yield query("add_messages", g=[_announcement(row["id"], row["status"]) for row in closed])
    return [row["id"] for row in closed]


def clip(text: str | None) -> str | None:
    """An error text that can be stored: without NUL, and only its end if it is too long."""
    if text is None:
        return None
    clean = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= ERROR_CHARS_MAX else "…" + clean[-(ERROR_CHARS_MAX - 1) :]


def _announcement(job_id: str, status: str) -> tuple[str, str, str]:
    return f"job.{status}", job_id, canonical_json({"job_id": job_id, "status": status})
