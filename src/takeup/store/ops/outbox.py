"""The outbox: messages are taken under a short lease, delivered, retried or parked; at least once each."""

from collections.abc import Sequence

from takeup.core.machine import OUTBOX
from takeup.core.model import Message
from takeup.store.op import Op, query
from takeup.store.ops.moves import clip
from takeup.store.rows import message_of


def take(limit_count: int, lease_s: float) -> Op[list[Message]]:
    """Take due messages to send; those of a sender that died become due again first."""
    stuck = yield query("overdue_messages", limit_count=limit_count)
    if stuck:
        freed = yield query("free_messages", g=[(row["id"],) for row in stuck])
        yield from _log("free", [row["id"] for row in freed], None)
    due = yield query("due_messages", limit_count=limit_count)
    if not due:
        return []
    rows = yield query("take_messages", g=[(row["id"],) for row in due], lease_s=lease_s)
    yield from _log("take", [row["id"] for row in rows], None)
    return sorted((message_of(row) for row in rows), key=lambda message: message.id)


def deliver(messages: Sequence[Message]) -> Op[list[int]]:
    """These were delivered."""
    return (yield from _end("deliver", messages, None, 0.0))


def retry(messages: Sequence[Message], error: str, delay_s: float) -> Op[list[int]]:
    """These failed; try again after the delay."""
    return (yield from _end("retry", messages, error, delay_s))


def park(messages: Sequence[Message], error: str) -> Op[list[int]]:
    """These failed for good; kept for an operator to look at."""
    return (yield from _end("park", messages, error, 0.0))


def _end(name: str, messages: Sequence[Message], error: str | None, delay_s: float) -> Op[list[int]]:
    target = OUTBOX.move(name).target
    rows = yield query("end_messages", g=[(m.id, m.attempt, target, clip(error), delay_s) for m in messages])
    ids = sorted(row["id"] for row in rows)
    yield from _log(name, ids, clip(error))
    return ids


def _log(name: str, ids: Sequence[int], reason: str | None) -> Op[None]:
    move = OUTBOX.move(name)
    if ids:
        entries = [(message_id, name, move.sources[0], reason) for message_id in ids]
        yield query("log_messages", g=entries, actor=move.actor.value)
