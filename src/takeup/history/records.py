"""What the checker reads and what it says: the client log, the final tables, the settings, the violations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from takeup.core.model import Event
from takeup.store.op import Op, Row, Script

Phase = Literal["invoke", "ok", "fail", "info"]
"""Started, answered, refused with nothing done, or outcome unknown."""

Fence = tuple[int, int, str]
"""A task with the epoch and the hash of the nonce that some caller carries."""


@dataclass(frozen=True, slots=True)
class Call:
    """One line of the client log, in the order in which its process wrote them.

    | op | args, in every phase | value of `ok` |
    | --- | --- | --- |
    | register | worker, slots, capabilities, stages | |
    | heartbeat | worker | status |
    | claim | worker | task, epoch, nonce_hash, lease_s of each lease |
    | renew, complete, release | worker, held: fences | task, accepted, status of each |
    | fail | worker, held, retryable, after_s of each | task, accepted, status of each |
    | submit | jobs: user, key, spec_hash, priority of each | ids |
    | stage, publish | task, epoch, nonce_hash, job, subject, generation, source | |
    | remove | subject, generation | |
    | restart | | |

    Files and restarts have no invocation: the harness did it. `source` says on whose word something was
    published: `answer` (of the completion) or `outbox`.
    """

    process: str
    op: str
    phase: Phase
    mono: float
    request_id: str | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    value: Any = None
    wall: datetime | None = None
    """The database's time, where the harness knows it."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that the history breaks, with the evidence."""

    invariant: str
    message: str
    task_id: int | None = None
    job_id: str | None = None
    worker_id: str | None = None
    events: tuple[Event, ...] = ()
    calls: tuple[Call, ...] = ()

    def __str__(self) -> str:
        """One line for people."""
        where = [
            f"task {self.task_id}" if self.task_id is not None else "",
            self.job_id or "",
            self.worker_id or "",
        ]
        seqs = ",".join(str(event.seq) for event in self.events)
        place = " ".join(part for part in where if part)
        return f"{self.invariant} {place}: {self.message}" + (f" [seq {seqs}]" if seqs else "")


@dataclass(frozen=True, slots=True)
class Tables:
    """The final rows; they say what the log does not: limits, prerequisites, abilities, back-off."""

    jobs: Sequence[Row] = ()
    tasks: Sequence[Row] = ()
    stages: Sequence[Row] = ()
    needs: Sequence[Row] = ()
    lanes: Sequence[Row] = ()
    workers: Sequence[Row] = ()
    outbox: Sequence[Row] = ()


_TABLE_NAMES = {
    "jobs": "jobs",
    "tasks": "tasks",
    "stages": "job_stages",
    "needs": "task_deps",
    "lanes": "lanes",
    "workers": "workers",
    "outbox": "outbox",
}


def read_tables() -> Op[Tables]:
    """The final rows of a database, as an operation that any driver runs."""
    found = {}
    for name, table in _TABLE_NAMES.items():
        found[name] = tuple((yield Script(f"SELECT * FROM {table}")))  # noqa: S608 - a constant
    return Tables(**found)


@dataclass(frozen=True, slots=True)
class Settings:
    """The promises by which a history is judged, and what is known of how it was made."""

    recovery_s: float = 5.0
    poll_s: float = 5.0
    defer_s: float = 60.0
    """How long a lane may be left to the workers it prefers."""
    slack_s: float = 1.0
    log_lag_s: float = 0.1
    """How much later than the move itself its log row may be stamped: the longest transaction."""
    race_s: float = 5.0
    """How long a concurrent transaction may act on what it read before another one committed."""
    margin_s: float = 10.0
    """How much of its lease a worker does not trust."""
    stop_s: float = 2.0
    """How long a worker may take to stop what it lost."""
    offline_s: float = 60.0
    is_serial: bool = False
    """Whether one writer made the log, so that its order is the order of the transactions."""
    quiet_from: datetime | None = None
    """From when on nothing disturbed the system; None: liveness is not judged."""
    ended_at: datetime | None = None
    """When the quiet phase ended, by the database's clock; by then everything must be finished."""
    canaries: tuple[str, ...] = ()
    """Secrets that must not occur in any text of the log."""

    @property
    def log_lag(self) -> timedelta:
        """`log_lag_s` as a length of time."""
        return timedelta(seconds=self.log_lag_s)


FINISHES: dict[str, tuple[str, ...]] = {
    "complete": ("complete",),
    "fail": ("fail", "give_up"),
    "release": ("release", "give_up"),
}
"""The events that each finishing call may lead to."""


def by_request(calls: Iterable[Call]) -> dict[str, Call]:
    """The first invocation of every request."""
    found: dict[str, Call] = {}
    for call in calls:
        if call.phase == "invoke" and call.request_id is not None:
            found.setdefault(call.request_id, call)
    return found
