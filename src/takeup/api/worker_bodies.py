"""What workers send and are told, in JSON."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from takeup.api.pages import Body
from takeup.core.budget import Excuse
from takeup.core.ids import NONCE_BYTES, Token
from takeup.core.model import (
    Answer,
    Artifact,
    Completion,
    Failure,
    Held,
    Lease,
    LogLine,
    Order,
    Progress,
    Step,
    StepEnd,
)
from takeup.core.remote import WAIT_S_MAX
from takeup.core.report import ARTIFACTS_MAX

BATCH_MAX = 500
ID_CHARS_MAX = 200
NAME_CHARS_MAX = 1024
BIGGEST = 2**63 - 1
RequestId = Field(min_length=1, max_length=ID_CHARS_MAX)
NONCE = rf"^[0-9a-f]{{{2 * NONCE_BYTES}}}$"


class RegisterBody(Body):
    """A new worker, as an administrator makes it known."""

    worker_name: str = Field(min_length=1, max_length=ID_CHARS_MAX)
    worker_type: Literal["remote"] = "remote"
    capabilities: list[str] = Field(default_factory=list, max_length=256)
    metadata: dict[str, Any] = Field(default_factory=dict)


class Registered(BaseModel):
    """The new worker; its key is told this once."""

    worker_id: str
    api_key: str


class Me(BaseModel):
    """Who the key is of, and what the server speaks."""

    worker_id: str
    name: str
    capabilities: list[str]
    """Those it was registered with, or began with last."""
    protocol: int
    version: str


class StartBody(Body):
    """A process of the worker begins: what it can do. What its predecessor held is over."""

    protocol: int
    version: str = Field(max_length=64)
    slots: int = Field(ge=1, le=1000)
    capabilities: list[str] = Field(default_factory=list, max_length=256)
    stages: list[str] = Field(min_length=1, max_length=10_000)
    pipelines: dict[str, int] = Field(default_factory=dict, max_length=1000)
    """The version of each pipeline that it runs stages of."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    process: str = Field(default="", max_length=ID_CHARS_MAX)
    """A random name of this process: sent again by the same one, the call changes nothing."""


class HeartbeatBody(Body):
    """A sign of life; what it says of itself is not believed but looked up."""

    status: Literal["idle", "busy"] | None = None


class Status(BaseModel):
    """How the server sees the worker."""

    status: str


class ClaimBody(Body):
    """A request for work. Sent again with the same id and secret it is answered with the same leases."""

    request_id: str = RequestId
    secret: str = Field(min_length=32, max_length=ID_CHARS_MAX)
    limit: int = Field(default=1, ge=1, le=100)
    wait: float = Field(default=0.0, ge=0, le=WAIT_S_MAX)
    """Seconds to wait for work if there is none."""
    takes_back: bool = True
    """Whether leases of others that are over may be taken back for it."""


class LeaseLine(BaseModel):
    """The right to finish one task."""

    model_config = ConfigDict(from_attributes=True)

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
    epoch: int
    nonce: str

    @classmethod
    def of(cls, lease: Lease) -> "LeaseLine":
        """With the two parts of its token."""
        fields = {name: getattr(lease, name) for name in cls.model_fields if name not in ("epoch", "nonce")}
        return cls(**fields, epoch=lease.token.epoch, nonce=lease.token.nonce)


class BriefLine(BaseModel):
    """What to know of a job to run its tasks."""

    spec: Mapping[str, Any]
    subject: str | None


class Claimed(BaseModel):
    """Leases, and the jobs they are of."""

    leases: list[LeaseLine]
    jobs: Mapping[str, BriefLine]
    reason: str | None = None
    """Why this worker gets nothing, whatever there is: it is quarantined."""


class HeldBody(Body):
    """A task and the token it is held with."""

    task_id: int = Field(ge=1, le=BIGGEST)
    epoch: int = Field(ge=1, le=BIGGEST)
    nonce: str = Field(pattern=NONCE)

    @property
    def held(self) -> Held:
        """As the store takes it."""
        return Held(self.task_id, Token(self.epoch, self.nonce))


class ProgressLine(HeldBody):
    """How far a task is; without percent and note its lease is only extended."""

    percent: float | None = None
    note: str | None = Field(default=None, max_length=2000)

    @property
    def report(self) -> Progress:
        """As the store takes it."""
        return Progress(self.held, self.percent, self.note)


class ProgressBody(Body):
    """Renewals."""

    request_id: str = RequestId
    reports: list[ProgressLine] = Field(min_length=1, max_length=BATCH_MAX)


class ArtifactLine(Body):
    """An output file that was sent."""

    name: str = Field(min_length=1, max_length=NAME_CHARS_MAX)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0, le=BIGGEST)


class CompleteLine(HeldBody):
    """A finished task."""

    result: dict[str, Any] = Field(default_factory=dict)
    artifacts: list[ArtifactLine] = Field(default_factory=list, max_length=ARTIFACTS_MAX)

    @property
    def report(self) -> Completion:
        """As the store takes it; where the files go is not for the sender to say."""
        files = tuple(Artifact(one.name, one.name, one.sha256, one.size_bytes) for one in self.artifacts)
        return Completion(self.held, self.result, files) if self.result or files else Completion(self.held)


class CompleteBody(Body):
    """Finished tasks."""

    request_id: str = RequestId
    reports: list[CompleteLine] = Field(min_length=1, max_length=BATCH_MAX)


class FailLine(HeldBody):
    """A failed attempt."""

    error: str = Field(min_length=1, max_length=20_000)
    retryable: bool = True
    after_s: float | None = Field(default=None, ge=0)
    sign: str = Field(default="", max_length=200)
    excuse: Excuse | None = None
    """Why the failure does not count against the worker."""

    @property
    def report(self) -> Failure:
        """As the store takes it."""
        return Failure(self.held, self.error, self.retryable, self.after_s, self.sign, self.excuse)


class FailBody(Body):
    """Failed attempts."""

    request_id: str = RequestId
    reports: list[FailLine] = Field(min_length=1, max_length=BATCH_MAX)


class ReleaseBody(Body):
    """Tasks that are handed back unfinished."""

    request_id: str = RequestId
    reason: str = Field(default="released", min_length=1, max_length=2000)
    reports: list[HeldBody] = Field(min_length=1, max_length=BATCH_MAX)


class AnswerLine(BaseModel):
    """What is said to one report: accepted, or refused and changing nothing."""

    model_config = ConfigDict(from_attributes=True)

    task_id: int
    accepted: bool
    status: str | None
    order: Order
    expires_at: datetime | None
    reason: str | None


class Answers(BaseModel):
    """One answer a report, in their order."""

    answers: list[AnswerLine]

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> "Answers":
        """As the store gave them."""
        return cls(answers=[AnswerLine.model_validate(answer) for answer in answers])


class GlanceBody(Body):
    """Which of these are still held?"""

    held: list[HeldBody] = Field(default_factory=list, max_length=BATCH_MAX)


class Glanced(BaseModel):
    """The status of the worker, and the tasks that it still holds."""

    status: str
    held: list[int]


class InputsBody(HeldBody):
    """What did the stage make that the held one needs?"""

    needs: str = Field(min_length=1, max_length=63)
    after: int = Field(default=-2, ge=-2, le=BIGGEST)


class MadeLine(BaseModel):
    """What one finished task made; each file can be had by its key."""

    model_config = ConfigDict(from_attributes=True)

    segment: int | None
    result: Mapping[str, Any]
    files: Mapping[str, str]


class Inputs(BaseModel):
    """A page of what a stage made."""

    made: list[MadeLine]
    after: int | None


class FatesBody(Body):
    """What became of these attempts? By task, epoch and the hash of the nonce."""

    folders: list[Annotated[tuple[int, int, str], Field(strict=False)]] = Field(max_length=BATCH_MAX)
    """JSON has no tuples; what stands in these is taken as strictly as everything."""


class FateLine(BaseModel):
    """What became of an attempt."""

    folder: tuple[int, int, str]
    fate: str


class Fates(BaseModel):
    """As asked for, in no order."""

    fates: list[FateLine]


class LogBody(Body):
    """A line that a stage of this worker wrote."""

    job_id: str = Field(max_length=ID_CHARS_MAX)
    task_id: int = Field(ge=1, le=BIGGEST)
    epoch: int = Field(ge=1, le=BIGGEST)
    level: Literal["debug", "info", "warn", "error"]
    stage: str | None = Field(default=None, max_length=63)
    message: str = Field(max_length=20_000)
    metadata: dict[str, Any] = Field(default_factory=dict)

    @property
    def line(self) -> LogLine:
        """As the store takes it."""
        return LogLine(**self.model_dump())


class StepBody(Body):
    """A command that began."""

    job_id: str = Field(max_length=ID_CHARS_MAX)
    task_id: int = Field(ge=1, le=BIGGEST)
    epoch: int = Field(ge=1, le=BIGGEST)
    step_id: str = Field(min_length=1, max_length=ID_CHARS_MAX)
    type: str = Field(min_length=1, max_length=64)
    command: str = Field(max_length=200_000)
    ago_s: float = Field(default=0.0, ge=0)

    @property
    def step(self) -> Step:
        """As the store takes it."""
        return Step(**self.model_dump(exclude={"ago_s"}))


class StepEndBody(Body):
    """How a command ended."""

    id: int = Field(ge=1, le=BIGGEST)
    started_at: datetime = Field(strict=False)
    ago_s: float = Field(ge=0)
    duration_ms: int | None = Field(default=None, ge=0, le=BIGGEST)
    exit_code: int | None = Field(default=None, ge=-(2**31), le=2**31 - 1)
    stdout: str | None = Field(default=None, max_length=200_000)
    stderr: str | None = Field(default=None, max_length=200_000)
    error: str | None = Field(default=None, max_length=20_000)

    @property
    def end(self) -> StepEnd:
        """As the store takes it."""
        return StepEnd(**self.model_dump())


class LogsBody(Body):
    """Lines for people."""

    lines: list[LogBody] = Field(min_length=1, max_length=BATCH_MAX)


class StepsBody(Body):
    """Commands that began."""

    steps: list[StepBody] = Field(min_length=1, max_length=BATCH_MAX)


class StepKey(BaseModel):
    """Under what a command was noted."""

    id: int
    started_at: datetime


class StepEndsBody(Body):
    """Commands that ended."""

    ends: list[StepEndBody] = Field(min_length=1, max_length=BATCH_MAX)
