"""What the holder of a row shows to renew or release it; the table itself is not needed for that."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from takeup.core.errors import InvalidInput
from takeup.core.ids import Token
from takeup.core.model import Answer, Completion, Failure, Held, Lease, Progress
from takeup.store.store import Store

Ending = Literal["COMPLETED", "ERROR"]
TICKET = re.compile(r"(\d{1,18})\.(\d{1,18})\.([0-9a-f]{1,128})\.(.{1,200})", re.ASCII)
"""Numbers that every database can hold, a nonce, and a worker's id."""


class Ticket(NamedTuple):
    """What a claimer must show to renew or release; as text it fits on a command line."""

    worker_id: str
    task_id: int
    token: Token

    def __str__(self) -> str:
        """The one text of a ticket."""
        return f"{self.task_id}.{self.token.epoch}.{self.token.nonce}.{self.worker_id}"

    @classmethod
    def parse(cls, text: str) -> "Ticket":
        """The ticket of this text."""
        found = TICKET.fullmatch(text)
        if found is None or not text.isprintable():
            raise InvalidInput("a ticket reads TASK.EPOCH.NONCE.WORKER, as a claim printed it")
        task_id, epoch, nonce, worker_id = found.groups()
        return cls(worker_id, int(task_id), Token(int(epoch), nonce))


@dataclass(frozen=True, slots=True)
class Claimed:
    """A row that is now held by this worker."""

    url: str
    iteration: int
    worker_id: str
    lease: Lease

    @property
    def ticket(self) -> Ticket:
        """What releases it."""
        return Ticket(self.worker_id, self.lease.task_id, self.lease.token)


async def renew(store: Store, claimed: Claimed | Ticket, *, percent: float | None = None) -> Answer:
    """Extend a lease by its length."""
    worker_id, held = _shown(claimed)
    (answer,) = await store.worker.renew(worker_id, [Progress(held, percent)])
    return answer


async def release(
    store: Store,
    claimed: Claimed | Ticket,
    status: Ending = "COMPLETED",
    *,
    error: str | None = None,
    result: Mapping[str, Any] | None = None,
) -> Answer:
    """End a claim: the next stage can go on, or this one is tried again as its policy says.

    The answer tells whether the token still held the row; if not, nothing was changed.
    """
    worker_id, held = _shown(claimed)
    if status == "COMPLETED":
        (answer,) = await store.worker.complete(worker_id, [Completion(held, result or {})])
    elif status == "ERROR":
        (answer,) = await store.worker.fail(worker_id, [Failure(held, error or "released as ERROR")])
    else:
        raise InvalidInput(f"a claim is released as COMPLETED or ERROR, not {status!r}")
    if answer.accepted:
        task = await store.read.task(held.task_id)
        await store.orchestrator.advance([task.job_id])
    return answer


def _shown(claimed: Claimed | Ticket) -> tuple[str, Held]:
    ticket = claimed.ticket if isinstance(claimed, Claimed) else claimed
    return ticket.worker_id, Held(ticket.task_id, ticket.token)
