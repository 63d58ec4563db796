"""What the log says so far: the state of every task, job and worker, folded event by event."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from takeup.core.model import Event
from takeup.core.plan import LanePlan
from takeup.core.policy import RetryPolicy
from takeup.history.records import Call, Settings, Tables, Violation, by_request
from takeup.store.op import Row


@dataclass(slots=True)
class TaskState:
    """A task as the log left it; `row` is its final row, if known."""

    id: int
    job: "JobState"
    row: Row | None
    status: str = "NEW"
    epoch: int = 0
    attempt: int = 0
    refunds: int = 0
    is_paused: bool = False
    paused_at: datetime | None = None
    owner: str | None = None
    nonce: str | None = None
    expires: datetime | None = None
    not_before: datetime | None = None
    since: datetime | None = None
    """When it came into its status."""
    claimed: Event | None = None
    last: Event | None = None

    @property
    def max_attempts(self) -> int | None:
        """How many claims it may have, if known."""
        return None if self.row is None else self.row["max_attempts"]


@dataclass(slots=True)
class JobState:
    """A job as the log left it."""

    id: str
    row: Row | None
    status: str = "pending"
    is_paused: bool = False
    paused_at: datetime | None = None
    priority: int | None = None
    last: Event | None = None
    tasks: list[TaskState] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """How many of its tasks are in each status."""


@dataclass(slots=True)
class WorkerState:
    """A worker as the log left it."""

    id: str
    status: str | None = None
    is_disabled: bool = False
    is_quarantined: bool = False
    since: datetime | None = None
    """When its status, or whether it may work at all, changed last."""
    load: int = 0
    idle_since: datetime | None = None
    """Since when it has had a free slot without claiming anything."""
    seen: datetime | None = None
    """The last sign of life that the log itself shows."""
    last: Event | None = None


class History:
    """The fold of one log, with the tables and calls that explain it."""

    def __init__(self, settings: Settings, tables: Tables | None, calls: Sequence[Call]) -> None:
        """Index what is known beforehand."""
        self.settings = settings
        self.tables = tables
        self.calls = calls
        self.requests = by_request(calls)
        self.tasks: dict[int, TaskState] = {}
        self.jobs: dict[str, JobState] = {}
        self.workers: dict[str, WorkerState] = {}
        self.messages: dict[int, str] = {}
        """The status of every message that was ever taken."""
        self.nonces: set[str] = set()
        self.open_counts: Counter[tuple[str, str]] = Counter()
        """How many tasks of each (job, stage) are not DONE or SKIPPED."""
        self.by_segment: dict[tuple[str, str, int | None], TaskState] = {}
        self.violations: list[Violation] = []
        self.settled: dict[str, str] = {}
        """How each job ended that was compared with its rows already and forgotten."""
        known = tables or Tables()
        self.task_rows: dict[int, Row] = {}
        self.job_rows: dict[str, Row] = {}
        self.needs: dict[tuple[str, str], list[Row]] = {}
        self.retries: dict[tuple[str, str], str] = {}
        self.learn(known)
        self.lanes = {row["id"]: _lane(row) for row in known.lanes}
        self.abilities = _abilities(known.workers, calls)
        self._policies: dict[str, RetryPolicy] = {}

    def learn(self, tables: Tables) -> None:
        """Take in the rows of more jobs."""
        self.task_rows.update((row["id"], row) for row in tables.tasks)
        self.job_rows.update((row["id"], row) for row in tables.jobs)
        for row in tables.needs:
            self.needs.setdefault((row["job_id"], row["stage"]), []).append(row)
        self.retries.update(((row["job_id"], row["stage"]), row["retry"]) for row in tables.stages)

    def settle(self, job_id: str) -> None:
        """Forget all of a finished job but how it ended, so that a long log needs little memory."""
        job = self.jobs.pop(job_id)
        self.settled[job_id] = job.status
        self.job_rows.pop(job_id, None)
        for state in job.tasks:
            self.tasks.pop(state.id, None)
            self.task_rows.pop(state.id, None)
            if state.row is not None:
                stage = state.row["stage"]
                self.by_segment.pop((job_id, stage, state.row["segment"]), None)
                for known in (self.open_counts, self.needs, self.retries):
                    known.pop((job_id, stage), None)

    def status_of(self, job_id: str) -> str | None:
        """The status that the log gives a job; None for a job that it does not name."""
        if job_id in self.settled:
            return self.settled[job_id]
        return self.jobs[job_id].status if job_id in self.jobs else None

    def policy(self, state: TaskState) -> RetryPolicy | None:
        """The retry policy of a task's stage, if known."""
        if state.row is None:
            return None
        text = self.retries.get((state.job.id, state.row["stage"]))
        if text is None:
            return None
        if text not in self._policies:
            self._policies[text] = RetryPolicy(**json.loads(text))
        return self._policies[text]

    def lane(self, state: TaskState) -> LanePlan | None:
        """The lane of a task, if known."""
        return None if state.row is None else self.lanes.get(state.row["lane_id"])

    def job(self, job_id: str) -> JobState:
        """The job, new if the log has not named it before."""
        if job_id not in self.jobs:
            self.jobs[job_id] = JobState(job_id, self.job_rows.get(job_id))
        return self.jobs[job_id]

    def worker(self, worker_id: str) -> WorkerState:
        """The worker, new if the log has not named it before."""
        if worker_id not in self.workers:
            self.workers[worker_id] = WorkerState(worker_id)
        return self.workers[worker_id]

    def break_task(self, invariant: str, message: str, state: TaskState, *events: Event | None) -> None:
        """Note a violation by a task."""
        shown = tuple(event for event in events if event is not None)
        self.violations.append(Violation(invariant, message, state.id, state.job.id, None, shown))

    def break_job(self, invariant: str, message: str, state: JobState, *events: Event | None) -> None:
        """Note a violation by a job."""
        shown = tuple(event for event in events if event is not None)
        self.violations.append(Violation(invariant, message, None, state.id, None, shown))

    def break_worker(self, invariant: str, message: str, state: WorkerState, *events: Event | None) -> None:
        """Note a violation by a worker."""
        shown = tuple(event for event in events if event is not None)
        self.violations.append(Violation(invariant, message, None, None, state.id, shown))


@dataclass(frozen=True, slots=True)
class Ability:
    """What a worker can do."""

    slots: int
    capabilities: frozenset[str]
    stages: tuple[str, ...]


def _abilities(rows: Sequence[Row], calls: Sequence[Call]) -> dict[str, Ability]:
    """From the tables where a worker registered once, else from what it said in the client log."""
    found = {
        row["id"]: Ability(
            row["slots"], frozenset(json.loads(row["capabilities"])), tuple(json.loads(row["stages"]))
        )
        for row in rows
        if row["incarnation"] == 1
    }
    for call in calls:
        if call.op == "register" and call.phase == "invoke":
            args: Mapping[str, object] = call.args
            found[str(args["worker"])] = Ability(
                call.args["slots"], frozenset(call.args["capabilities"]), tuple(call.args["stages"])
            )
    return found


def _lane(row: Row) -> LanePlan:
    return LanePlan(row["pipeline"], row["stage"], tuple(json.loads(row["requires"])), row["prefers"])
