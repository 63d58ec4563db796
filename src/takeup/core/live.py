"""What is looked at for those who follow live: rows of the log, and how jobs and workers stand."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from takeup.core.machine import JOB
from takeup.core.progress import JobProgress
from takeup.core.quality import Quality

SETTLE_S = 30.0
"""No transaction of ours lasts so long, whatever else holds the database's horizon back."""
PENDING_MAX = 1000


class LogRow(NamedTuple):
    """A change of a job or a worker, as the log keeps it."""

    seq: int
    at: datetime
    noun: Literal["job", "worker"]
    id: str
    event: str
    status: str | None
    """That of the row after it."""
    reason: str | None


@dataclass(frozen=True, slots=True)
class JobLook:
    """A job as it stands."""

    id: str
    subject: str | None
    generation: int
    status: str
    control: str
    error: str | None
    finished_at: datetime | None
    progress: JobProgress
    phases: Mapping[str, str]
    """Of each stage."""
    rungs: tuple[Quality, ...] = ()
    written_at: datetime | None = None
    """When the latest of what is told of its tasks was written down."""

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in JOB.final


class WorkerLook(NamedTuple):
    """A worker as it stands."""

    id: str
    name: str
    status: str
    is_disabled: bool
    is_quarantined: bool
    slots: int
    load: int

    @property
    def activity(self) -> str:
        """In one word: offline, busy or idle; who is not offline is online."""
        if self.status == "offline":
            return "offline"
        return "busy" if self.load else "idle"


class Frontier(NamedTuple):
    """How far the log reaches, and what tells later that nothing below can come any more.

    Once the oldest transaction still under way is younger than `writer`, every row up to `newest` is there.
    """

    newest: int
    writer: int | None
    oldest: int


@dataclass(frozen=True, slots=True)
class Watch:
    """What listeners named."""

    jobs: Sequence[str] = ()
    subjects: Sequence[str] = ()
    workers: bool = False


@dataclass(frozen=True, slots=True)
class LogLook:
    """What the log says after some place."""

    frontier: Frontier
    rows: Sequence[LogRow] = ()
    jobs_of: Mapping[str, Sequence[str]] | None = None
    """The jobs of each subject, the newest first; None if nothing was looked up."""
    reach: int | None = None
    """Where it was cut off, if there is more."""


@dataclass(slots=True)
class Settling:
    """Up to where every row of the log is known to be there."""

    low: int
    _pending: deque[tuple[int, int, float]] = field(default_factory=lambda: deque(maxlen=PENDING_MAX))

    def see(self, frontier: Frontier, now: float) -> int:
        """The same after one more look at the log."""
        last = self._pending[-1][0] if self._pending else self.low
        if frontier.writer is not None and frontier.newest > last:
            self._pending.append((frontier.newest, frontier.writer, now))
        while self._pending:
            newest, writer, at = self._pending[0]
            if writer >= frontier.oldest and now - at < SETTLE_S:
                break
            self.low = newest
            self._pending.popleft()
        return self.low
