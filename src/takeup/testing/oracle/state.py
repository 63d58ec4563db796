"""The oracle's tables, as dicts: rows, the audit log, and the one place where a row changes its state.

Every change of state is checked against the machine tables of the core before it is made, and the row's shape
after it, so that a mistake of the oracle stops the test that made it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from takeup.core.budget import Excuse
from takeup.core.machine import JOB, TASK, WORKER, Actor, Machine
from takeup.core.model import ERROR_CHARS_MAX, Artifact, Event, Job, Message, Task, Worker
from takeup.core.plan import JobPlan, StagePlan, TaskPlan
from takeup.core.ports import Clock
from takeup.core.schedule import ScheduleRow

NO_LEASE: dict[str, Any] = {
    "lease_owner": None,
    "lease_slot": None,
    "lease_expires_at": None,
    "claimed_at": None,
}


@dataclass(slots=True)
class TaskRow:
    """A task with what only the store knows of it."""

    task: Task
    plan: StagePlan
    splits: bool
    nonce_hash: str | None = None
    claim_request: str | None = None


@dataclass(slots=True)
class JobRow:
    """A job with its plan; a stage that runs for each segment is expanded once."""

    job: Job
    plan: JobPlan
    expanded: set[str]
    task_ids: list[int] = field(default_factory=list)


@dataclass(slots=True)
class MessageRow:
    """An outbox message with its sender's lease."""

    message: Message
    lease_expires_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a token ended."""

    event: str
    status: str
    owner: str | None
    reason: str | None


class State:
    """All tables and the clock."""

    def __init__(self, clock: Clock) -> None:
        """Start empty."""
        self.clock = clock
        self.jobs: dict[str, JobRow] = {}
        self.tasks: dict[int, TaskRow] = {}
        self.workers: dict[str, Worker] = {}
        self.processes: dict[str, list[str]] = {}
        self.messages: dict[int, MessageRow] = {}
        self.events: list[Event] = []
        self.artifacts: dict[tuple[int, str], tuple[Artifact, int]] = {}
        self.claims: dict[str, datetime] = {}
        self.archived: dict[str, JobRow] = {}
        self.schedules: dict[str, ScheduleRow] = {}
        self.ended: dict[tuple[int, int, str], Ended] = {}
        self._task_count = 0
        self._event_count = 0
        self._message_count = 0

    def now(self) -> datetime:
        """The clock's moment."""
        return self.clock.now()

    def ago(self, seconds: float) -> datetime:
        """The moment this long before now."""
        return self.now() - timedelta(seconds=seconds)

    def log(self, noun: str, event: str, actor: Actor, **columns: Any) -> None:
        """Write one audit row."""
        self._event_count += 1
        self.events.append(
            Event(self._event_count, self.now(), noun, event, actor.value, **{**_NO_STATUS, **columns})
        )

    def add_tasks(
        self, row: JobRow, plans: Iterable[TaskPlan], actor: Actor, request_id: str | None = None
    ) -> int:
        """Create task rows in their order."""
        stages = {stage.stage: stage for stage in row.plan.stages}
        splitters = {stage.splitter for stage in row.plan.stages}
        first = self._task_count
        for plan in plans:
            assert plan.status in TASK.initial
            self._task_count += 1
            task = new_task(self._task_count, row, stages[plan.stage], plan, self.now())
            self.tasks[task.id] = TaskRow(task, stages[plan.stage], splits=plan.stage in splitters)
            row.task_ids.append(task.id)
            self.log_task(self.tasks[task.id], "create", actor, None, request_id=request_id)
        return self._task_count - first

    def move_task(
        self,
        row: TaskRow,
        name: str,
        *,
        request_id: str | None = None,
        reason: str | None = None,
        excuse: Excuse | None = None,
        **sets: Any,
    ) -> None:
        """Make the named move; every move but claim and renew ends the lease there was."""
        before, now = row.task, self.now()
        target = legal_target(TASK, name, before.status)
        owner, nonce_hash = before.lease_owner, row.nonce_hash
        if target != "RUNNING":
            row.nonce_hash = row.claim_request = None
            sets = {**NO_LEASE, **sets}
        if target == "READY":
            sets = {"ready_at": now, **sets}
        if target in TASK.final:
            sets = {"finished_at": max(now, before.started_at or now), **sets}
        row.task = replace(before, status=target, **sets)
        if name == "claim":
            owner, nonce_hash = row.task.lease_owner, row.nonce_hash
        if before.status == "RUNNING" != target:
            key = (before.id, before.epoch, nonce_hash or "")
            self.ended[key] = Ended(name, target, owner, reason)
        check_shape(row)
        move = TASK.move(name)
        self.log_task(
            row,
            name,
            move.actor,
            before.status,
            worker_id=owner,
            nonce_hash=nonce_hash,
            request_id=request_id,
            reason=reason,
            excuse=excuse,
        )

    def move_job(
        self, row: JobRow, name: str, *, request_id: str | None = None, reason: str | None = None, **sets: Any
    ) -> None:
        """Make the named move of a job."""
        before = row.job
        target = legal_target(JOB, name, before.status)
        row.job = replace(before, status=target, version=before.version + 1, updated_at=self.now(), **sets)
        assert (row.job.finished_at is not None) == (target in JOB.final)
        self.log_job(row, name, JOB.move(name).actor, before.status, request_id=request_id, reason=reason)

    def move_worker(self, worker_id: str, move: str, /, **sets: Any) -> None:
        """Make the named move of a worker."""
        before = self.workers[worker_id]
        target = legal_target(WORKER, move, before.status)
        self.workers[worker_id] = replace(before, status=target, **sets)
        self.log_worker(worker_id, move, WORKER.move(move).actor, before.status)

    def log_job(
        self,
        row: JobRow,
        event: str,
        actor: Actor,
        from_status: str | None,
        *,
        request_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        """One audit row of a job."""
        self.log(
            "job",
            event,
            actor,
            from_status=from_status,
            to_status=row.job.status,
            job_id=row.job.id,
            generation=row.job.generation,
            request_id=request_id,
            reason=reason,
        )

    def log_worker(
        self, worker_id: str, event: str, actor: Actor, from_status: str | None, reason: str | None = None
    ) -> None:
        """One audit row of a worker."""
        self.log(
            "worker",
            event,
            actor,
            from_status=from_status,
            to_status=self.workers[worker_id].status,
            worker_id=worker_id,
            reason=reason,
        )

    def tasks_of(self, job_id: str) -> list[TaskRow]:
        """A job's tasks in the order they were created."""
        row = self.jobs.get(job_id)
        return [self.tasks[i] for i in row.task_ids] if row else []

    def load(self, worker_id: str) -> int:
        """How many leases a worker holds."""
        return sum(row.task.lease_owner == worker_id for row in self.tasks.values())

    def close_jobs(self, job_ids: Iterable[str], *, request_id: str | None = None) -> int:
        """Roll up: close every listed live job in which nothing is left to do."""
        count = 0
        for job_id in sorted(set(job_ids)):
            row = self.jobs.get(job_id)
            ending = row and self._ending(row)
            if not row or not ending:
                continue
            name, error = ending
            self.move_job(
                row,
                name,
                request_id=request_id,
                reason=error,
                error=error,
                finished_at=max(self.now(), row.job.started_at or self.now()),
            )
            self.add_message(row.job)
            count += 1
        return count

    def add_message(self, job: Job) -> None:
        """Announce that a job has ended."""
        self._message_count += 1
        number, now = self._message_count, self.now()
        body = {"job_id": job.id, "status": job.status}
        self.messages[number] = MessageRow(
            Message(number, f"job.{job.status}", job.id, body, "WAITING", 0, now, now)
        )

    def _ending(self, row: JobRow) -> tuple[str, str | None] | None:
        if row.job.status in JOB.final:
            return None
        tasks = [self.tasks[i].task for i in row.task_ids]
        statuses = {task.status for task in tasks}
        if statuses & set(TASK.live):
            return None
        if "FAILED" in statuses:
            errors = [f"{t.stage}: {t.error or 'failed'}" for t in tasks if t.status == "FAILED"]
            return "fail", clip(min(errors))
        if "CANCELLED" in statuses:
            return "cancel", None
        is_expanded = all(stage.stage in row.expanded for stage in row.plan.stages)
        return ("complete", None) if is_expanded else None

    def log_task(
        self, row: TaskRow, event: str, actor: Actor, from_status: str | None, **columns: Any
    ) -> None:
        """One audit row of a task."""
        task = row.task
        self.log(
            "task",
            event,
            actor,
            from_status=from_status,
            to_status=task.status,
            job_id=task.job_id,
            task_id=task.id,
            generation=task.generation,
            epoch=task.epoch,
            attempt=task.attempt,
            lease_expires_at=task.lease_expires_at,
            available_at=task.available_at,
            **columns,
        )


_NO_STATUS: dict[str, Any] = {"from_status": None, "to_status": None}


def legal_target(machine: Machine, name: str, status: str) -> str:
    """Where the named move leads from this state; the table must allow it."""
    move = machine.move(name)
    assert status in move.sources, f"{machine.noun}: no move {name} from {status}"
    return move.target


def check_shape(row: TaskRow) -> None:
    """Lease exactly while RUNNING, finished exactly when final, attempts within bounds."""
    task = row.task
    lease = (task.lease_owner, task.lease_slot, task.lease_expires_at, task.claimed_at)
    secret = (row.nonce_hash, row.claim_request)
    is_running = task.status == "RUNNING"
    assert all((value is not None) == is_running for value in (*lease, *secret)), task
    assert (task.finished_at is not None) == (task.status in TASK.final), task
    assert 0 <= task.attempt <= task.max_attempts, task
    assert task.attempt <= task.epoch, task
    assert task.status != "DONE" or task.result is not None, task


def new_task(task_id: int, row: JobRow, stage: StagePlan, plan: TaskPlan, now: datetime) -> Task:
    """A task row as it is born."""
    job = row.job
    return Task(
        id=task_id,
        job_id=job.id,
        pipeline=job.pipeline,
        stage=stage.stage,
        segment=plan.segment,
        generation=job.generation,
        status=plan.status,
        phase=stage.phase,
        priority=job.priority,
        control="READY",
        job_control=job.control,
        available_at=(row.plan.not_before if plan.segment is None else None) or job.created_at,
        ready_at=now if plan.status == "READY" else None,
        attempt=0,
        max_attempts=stage.max_attempts,
        refunds=0,
        epoch=0,
        lease_s=stage.lease_s,
        stall_s=stage.stall_s,
        lease_owner=None,
        lease_slot=None,
        lease_expires_at=None,
        claimed_at=None,
        progress_percent=0.0,
        progress_note=None,
        progress_at=None,
        parameters=json.loads(plan.parameters),
        result=None,
        error=None,
        created_at=now,
        started_at=None,
        finished_at=None,
    )


def clip(text: str | None) -> str | None:
    """A text as it can be stored: without NUL or broken surrogates, and of a long one the end."""
    if text is None:
        return None
    clean = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= ERROR_CHARS_MAX else "…" + clean[-(ERROR_CHARS_MAX - 1) :]
