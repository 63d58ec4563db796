"""A lease in hand: how long it may be trusted, where its task runs, and what is known of its end."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from takeup.artifacts.layout import TaskFolder
from takeup.core.ids import nonce_hash
from takeup.core.model import Lease, Progress
from takeup.core.policy import renew_every_s, trusted_until
from takeup.engine.wire import Start

MARGIN_S_MAX = 10.0
MARGIN_SHARE = 6
"""A sixth of a lease is not trusted, ten seconds at most: time to stop the work, and room for clocks."""

Why = Literal["cancel", "lost", "stalled", "timeout", "drained"]
"""Why a task is being stopped."""


def margin_s(lease_s: float) -> float:
    """The last part of a lease, which its holder does not use."""
    return min(MARGIN_S_MAX, lease_s / MARGIN_SHARE)


@dataclass(eq=False, slots=True)
class Holding:
    """One leased task of this worker."""

    lease: Lease
    runner: int
    asked_at: float
    """When the claim or the last accepted renewal was sent, by this worker's clock."""
    started_at: float
    timeout_s: float | None = None
    stall_s: float | None = None
    percent: float | None = None
    note: str | None = None
    has_news: bool = False
    """Whether progress was made that no renewal has told yet."""
    renew_at: float = 0.0
    has_ended: bool = False
    """Whether the stage ended; the report of that may still be on its way."""
    stopping: Why | None = None
    kill_at: float | None = None
    renew_every_s: float = 0.0
    """A third of the lease, or more often if a stall must be noticed earlier."""
    trust_s: float = 0.0
    """How long it is trusted after it was asked for."""

    def __post_init__(self) -> None:
        """What is asked for often, and does not change, is reckoned once."""
        lease_s = self.lease.lease_s
        every_s = renew_every_s(lease_s)
        self.renew_every_s = every_s if self.stall_s is None else min(every_s, self.stall_s / 2)
        self.renew_at = self.renew_at or self.asked_at + self.renew_every_s
        self.trust_s = trusted_until(0.0, lease_s, margin_s(lease_s))

    @property
    def folder(self) -> TaskFolder:
        """Whose its files are."""
        lease = self.lease
        return TaskFolder(lease.task_id, lease.token.epoch, nonce_hash(lease.token.nonce))

    @property
    def start(self) -> Start:
        """What its runner is told."""
        lease = self.lease
        token = lease.token
        return Start(
            lease.task_id,
            token.epoch,
            nonce_hash(token.nonce),
            lease.job_id,
            lease.pipeline,
            lease.stage,
            lease.segment,
            lease.generation,
            lease.attempt,
            lease.max_attempts,
            lease.parameters,
        )

    @property
    def about(self) -> dict[str, Any]:
        """What every log line about this attempt carries."""
        lease = self.lease
        return {
            "job": lease.job_id,
            "task": lease.task_id,
            "stage": lease.stage,
            "attempt": lease.attempt,
            "epoch": lease.token.epoch,
        }

    @property
    def dies_at(self) -> float:
        """When its process must be gone at the latest."""
        return self.trusted_until if self.kill_at is None else min(self.trusted_until, self.kill_at)

    @property
    def trusted_until(self) -> float:
        """After this the worker must not write for this task any more."""
        return self.asked_at + self.trust_s

    def renewal(self) -> Progress:
        """What the next renewal says."""
        if not self.has_news:
            return Progress(self.lease.held)
        self.has_news = False
        return Progress(self.lease.held, self.percent, self.note)


class Hand:
    """All leases of a worker, by task and epoch: an old attempt may still be ending beside a new one."""

    def __init__(self) -> None:
        """Empty."""
        self._held: dict[tuple[int, int], Holding] = {}

    def __len__(self) -> int:
        """How many leases are held."""
        return len(self._held)

    def __iter__(self) -> Iterator[Holding]:
        """The leases, as a copy that may change meanwhile."""
        return iter(list(self._held.values()))

    def add(self, holding: Holding) -> None:
        """A new lease."""
        self._held[holding.lease.task_id, holding.lease.token.epoch] = holding

    def get(self, task_id: int, epoch: int) -> Holding | None:
        """The lease of a task in this epoch, if it is held."""
        return self._held.get((task_id, epoch))

    def drop(self, holding: Holding) -> None:
        """The lease is over or was given up."""
        self._held.pop((holding.lease.task_id, holding.lease.token.epoch), None)

    def on(self, runner: int) -> list[Holding]:
        """The leases whose tasks run in this runner and have not ended."""
        return [holding for holding in self if holding.runner == runner and not holding.has_ended]
