"""The rows as Python values: frozen, so that nothing but the store can change state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from takeup.core.budget import Excuse
from takeup.core.ids import Token

Control = Literal["READY", "PAUSED", "SKIP"]
CONTROLS: tuple[Control, ...] = ("READY", "PAUSED", "SKIP")

Order = Literal["continue", "drain", "cancel", "stalled", "lost"]
"""What a holder is told by a renewal: go on, finish and stop taking work, or stop now and why."""

ERROR_CHARS_MAX = 2000


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job as lists show it: all of it but its spec, which may be long."""

    id: str
    pipeline: str
    subject: str | None
    generation: int
    user_id: str
    idempotency_key: str | None
    priority: int
    control: Control
    status: str
    error: str | None
    version: int
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Job(ListedJob):
    """One run of a pipeline for one subject."""

    spec: Mapping[str, Any]


class JobPlace(NamedTuple):
    """Where a job stands among all jobs, newest first."""

    id: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Task:
    """The row that is leased: one stage of one job, for one segment or for the whole."""

    id: int
    job_id: str
    pipeline: str
    stage: str
    segment: int | None
    generation: int
    status: str
    phase: str
    priority: int
    control: Control
    job_control: Control
    available_at: datetime
    ready_at: datetime | None
    attempt: int
    max_attempts: int
    refunds: int
    epoch: int
    lease_s: float
    stall_s: float | None
    lease_owner: str | None
    lease_slot: int | None
    lease_expires_at: datetime | None
    claimed_at: datetime | None
    progress_percent: float
    progress_note: str | None
    progress_at: datetime | None
    parameters: Mapping[str, Any]
    result: Mapping[str, Any] | None
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class Lease(NamedTuple):
    """The right to finish one task, as the worker that claimed it receives it."""

    task_id: int
    job_id: str
    pipeline: str
    stage: str
    segment: int | None
    generation: int
    attempt: int
    max_attempts: int
    priority: int
    lease_s: float
    expires_at: datetime
    parameters: Mapping[str, Any]
    token: Token
    brief: "Brief | None" = None
    """What to know of its job, if the store had it at hand."""

    @property
    def held(self) -> "Held":
        """The part of the lease that a report must carry."""
        return Held(self.task_id, self.token)


class Held(NamedTuple):
    """A task and the token its caller believes to hold it with."""

    task_id: int
    token: Token


@dataclass(frozen=True, slots=True)
class Artifact:
    """An output file of a task as its manifest names it."""

    name: str
    key: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Progress:
    """A renewal; without percent and note it extends the lease but does not count as progress."""

    held: Held
    percent: float | None = None
    note: str | None = None


NO_RESULT: Mapping[str, Any] = {}
"""Of a stage that says nothing; never changed."""


class Completion(NamedTuple):
    """A finished task with its result and outputs."""

    held: Held
    result: Mapping[str, Any] = NO_RESULT
    artifacts: tuple[Artifact, ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt; `after_s` overrides the policy's delay."""

    held: Held
    error: str
    retryable: bool = True
    after_s: float | None = None
    sign: str = ""
    """How the error begins, where a second one in a row that begins so is the last."""
    excuse: Excuse | None = None
    """Told by who knows it, and never read out of the error: that is the stage's own text."""


class Answer(NamedTuple):
    """What the store says to one report: accepted, or refused and changing nothing.

    The same report repeated with the same token gives the same answer again.
    """

    task_id: int
    accepted: bool
    status: str | None
    order: Order = "continue"
    expires_at: datetime | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker says of itself when it registers."""

    id: str
    name: str = ""
    kind: Literal["local", "remote"] = "local"
    slots: int = 1
    capabilities: frozenset[str] = frozenset()
    stages: tuple[str, ...] = ("*",)
    """What it can run: `*`, `pipeline/*` or `pipeline/stage`."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    process: str = ""
    """Tells a repeated registration from a new process; empty where calls cannot be repeated by a network."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A registered worker; idle and busy are derived from its live leases."""

    id: str
    name: str
    kind: str
    status: str
    disabled: bool
    slots: int
    capabilities: frozenset[str]
    stages: tuple[str, ...]
    metadata: Mapping[str, Any]
    incarnation: int
    registered_at: datetime
    last_heartbeat_at: datetime | None
    quarantined_at: datetime | None = None
    """Since when it gets nothing new, because it failed what others finished."""
    quarantine_reason: str | None = None
    trusted_at: datetime | None = None
    """When an operator enabled it last; failures before that do not count any more."""
    load: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """An outside effect that happens after commit: a webhook, a hint, a deletion."""

    id: int
    topic: str
    subject: str
    body: Mapping[str, Any]
    status: str
    attempt: int
    created_at: datetime
    available_at: datetime


class Brief(NamedTuple):
    """What a worker must know of a job to run its tasks."""

    spec: Mapping[str, Any]
    subject: str | None


class HeldTask(NamedTuple):
    """A task that is held now, as far as its holder's files and words are concerned."""

    task_id: int
    job_id: str
    pipeline: str
    stage: str
    segment: int | None
    generation: int
    lease_s: float
    brief: Brief


class MadeInput(NamedTuple):
    """What one finished task of a needed stage made: its result, and the key of each file."""

    segment: int | None
    result: Mapping[str, Any]
    files: Mapping[str, str]
    task_id: int = 0
    epoch: int = 0


class InputPage(NamedTuple):
    """Some of what a needed stage made; `after` is where the next page begins, None at the end."""

    made: tuple[MadeInput, ...]
    after: int | None


class Glance(NamedTuple):
    """A look at one worker: its status, and which of the tasks it asked about it still holds."""

    status: str
    held: frozenset[int]


class Fate(NamedTuple):
    """What became of an attempt: held, open (the task goes on), won, over, or gone (no such task)."""

    folder: tuple[int, int, str]
    fate: str
    object_key: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a stage or a worker wrote about a job."""

    job_id: str
    task_id: int | None
    epoch: int | None
    level: Literal["debug", "info", "warn", "error"]
    stage: str | None
    message: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    id: int = 0
    logged_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One command that a stage ran, with its last words."""

    job_id: str
    task_id: int
    epoch: int
    step_id: str
    type: str
    command: str
    id: int = 0
    started_at: datetime | None = None
    completed_at: datetime | None = None
    duration_ms: int | None = None
    exit_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None
    success: bool | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a command ended that was noted when it began."""

    id: int
    started_at: datetime
    ago_s: float
    duration_ms: int | None
    exit_code: int | None
    stdout: str | None
    stderr: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One claim of a task and how it ended, folded from the audit log."""

    task_id: int
    stage: str
    segment: int | None
    epoch: int
    attempt: int
    owner: str
    claimed_at: datetime
    outcome: str | None
    ended_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the audit log."""

    seq: int
    logged_at: datetime
    noun: str
    event: str
    actor: str
    from_status: str | None
    to_status: str | None
    job_id: str | None = None
    task_id: int | None = None
    worker_id: str | None = None
    message_id: int | None = None
    generation: int | None = None
    epoch: int | None = None
    nonce_hash: str | None = None
    attempt: int | None = None
    lease_expires_at: datetime | None = None
    available_at: datetime | None = None
    request_id: str | None = None
    reason: str | None = None
    excuse: Excuse | None = None
