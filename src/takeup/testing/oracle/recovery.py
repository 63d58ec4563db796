"""The oracle's recovery and orchestrator facades: what is overdue, and what can go on."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from takeup.core.budget import ErrorBudget, Judged
from takeup.core.errors import NotFound
from takeup.core.machine import JOB, OUTBOX, WAITING, WORKER, Actor
from takeup.core.model import Message
from takeup.core.plan import plan_segments
from takeup.store.ops.orchestrate import Advance
from takeup.testing.oracle.quarantine import judge
from takeup.testing.oracle.state import JobRow, MessageRow, State, TaskRow, clip, legal_target

ADVANCE_MAX = 20_000


class OracleRecovery:
    """What recovery may do."""

    def __init__(self, state: State) -> None:
        """Work on these tables."""
        self._state = state

    async def expire(self, *, limit: int = 1000) -> list[int]:
        """Take back tasks whose lease is over."""
        state = self._state
        overdue = [
            row
            for row in state.tasks.values()
            if row.task.lease_expires_at is not None and row.task.lease_expires_at <= state.now()
        ]
        return self.take_back(overdue[:limit])

    def take_back(self, overdue: Sequence[TaskRow]) -> list[int]:
        """End these leases."""
        state, moved = self._state, []
        for row in overdue:
            task = row.task
            reason = (
                f"the lease of {task.lease_owner} ran out in attempt {task.attempt} of {task.max_attempts}"
            )
            name = "expire" if task.attempt < task.max_attempts else "bury"
            state.move_task(row, name, reason=reason, error=reason)
            moved.append(row)
        state.close_jobs(row.task.job_id for row in moved if row.task.status == "FAILED")
        return sorted(row.task.id for row in moved)

    async def wake(self, *, limit: int = 1000) -> list[int]:
        """Make tasks READY whose back-off is over."""
        state = self._state
        due = [r for r in state.tasks.values() if r.task.status == "ERROR"]
        due = [r for r in due if r.task.available_at <= state.now()]
        due = sorted(due, key=lambda r: (r.task.available_at, r.task.id))[:limit]
        for row in due:
            state.move_task(row, "wake")
        return sorted(row.task.id for row in due)

    async def lose_workers(self, threshold_s: float, *, limit: int = 1000) -> list[str]:
        """Mark workers offline that have been silent for longer than this."""
        state = self._state
        silent = sorted(
            worker.id
            for worker in state.workers.values()
            if worker.status in WORKER.move("lose").sources
            and (worker.last_heartbeat_at or worker.registered_at) < state.ago(threshold_s)
        )[:limit]
        for worker_id in silent:
            state.move_worker(worker_id, "lose")
        return silent

    async def quarantine(self, budget: ErrorBudget) -> Judged:
        """Give workers nothing new that fail what others finish."""
        return judge(self._state, budget)

    async def archive(self, older_than_s: float, *, limit: int = 100) -> list[str]:
        """Archive jobs that finished longer ago than this."""
        state = self._state
        old = sorted(
            (row.job.finished_at, row.job.id)
            for row in state.jobs.values()
            if row.job.finished_at is not None and row.job.finished_at < state.ago(older_than_s)
        )
        gone = [job_id for _, job_id in old[:limit]]
        for job_id in gone:
            row = state.archived[job_id] = state.jobs.pop(job_id)
            for task_id in row.task_ids:
                del state.tasks[task_id]
        state.events = [event for event in state.events if event.job_id not in gone]
        state.artifacts = {key: value for key, value in state.artifacts.items() if key[0] in state.tasks}
        return gone

    async def forget_messages(self, sent_s: float, parked_s: float, *, limit: int = 1000) -> int:
        """Remove messages that were sent, or given up, longer ago than this."""
        state, gone = self._state, set[int]()
        for status, age_s in (("SENT", sent_s), ("PARKED", parked_s)):
            old = sorted(
                (row.finished_at, row.message.id)
                for row in state.messages.values()
                if row.message.status == status and row.message.subject not in state.jobs
                if row.finished_at is not None and row.finished_at < state.ago(age_s)
            )
            gone.update(message_id for _, message_id in old[:limit])
        state.messages = {number: row for number, row in state.messages.items() if number not in gone}
        state.events = [event for event in state.events if event.message_id not in gone]
        return len(gone)

    async def forget_workers(self, older_than_s: float, *, limit: int = 100) -> list[str]:
        """Remove workers that have been offline for longer than this and hold nothing."""
        state = self._state
        gone = sorted(
            worker.id
            for worker in state.workers.values()
            if worker.status == "offline" and not worker.disabled and worker.quarantined_at is None
            if not state.load(worker.id)
            if (worker.last_heartbeat_at or worker.registered_at) < state.ago(older_than_s)
        )[:limit]
        for worker_id in gone:
            del state.workers[worker_id]
            state.processes.pop(worker_id, None)
        state.events = [e for e in state.events if e.noun != "worker" or e.worker_id not in gone]
        return gone

    async def add_months(self, month_count: int = 3) -> int:
        """There are no partitions in memory."""
        del month_count
        return 0

    async def forget_claims(self, older_than_s: float = 86_400.0) -> None:
        """Drop the records of old claim requests."""
        limit = self._state.ago(older_than_s)
        self._state.claims = {name: when for name, when in self._state.claims.items() if when >= limit}

    async def take_messages(self, *, limit: int = 100, lease_s: float = 60.0) -> list[Message]:
        """Take due outbox messages to send; those of a sender that died become due again first."""
        state, now = self._state, self._state.now()
        stuck = [r for r in state.messages.values() if r.lease_expires_at and r.lease_expires_at <= now]
        for row in stuck[:limit]:
            self._move_message(row, "free", None)
        due = [r for r in state.messages.values() if r.message.status == "WAITING"]
        due = [r for r in due if r.message.available_at <= now]
        due = sorted(due, key=lambda r: (r.message.available_at, r.message.id))[:limit]
        for row in due:
            self._move_message(row, "take", None, attempt=row.message.attempt + 1)
            row.lease_expires_at = now + timedelta(seconds=lease_s)
        return sorted((row.message for row in due), key=lambda message: message.id)

    async def deliver(self, messages: Sequence[Message]) -> list[int]:
        """Note that these messages were delivered."""
        return self._end_messages("deliver", messages, None)

    async def retry_messages(self, messages: Sequence[Message], error: str, delay_s: float) -> list[int]:
        """Send these messages again later."""
        available_at = self._state.now() + timedelta(seconds=delay_s)
        return self._end_messages("retry", messages, error, available_at=available_at)

    async def park(self, messages: Sequence[Message], error: str) -> list[int]:
        """Give these messages up and keep them for an operator."""
        return self._end_messages("park", messages, error)

    def move_workers(self, name: str, worker_ids: Sequence[str]) -> list[str]:
        """Make the named move for every worker whose state allows it."""
        state = self._state
        check_workers(state, worker_ids)
        legal = [i for i in sorted(set(worker_ids)) if state.workers[i].status in WORKER.move(name).sources]
        for worker_id in legal:
            state.move_worker(worker_id, name)
        return legal

    def _end_messages(
        self, name: str, messages: Sequence[Message], error: str | None, **sets: Any
    ) -> list[int]:
        ended = []
        for message in messages:
            row = self._state.messages.get(message.id)
            if row and row.message.status == "SENDING" and row.message.attempt == message.attempt:
                row.error = clip(error)
                self._move_message(row, name, row.error, **sets)
                ended.append(message.id)
        return sorted(ended)

    def _move_message(self, row: MessageRow, name: str, reason: str | None, **sets: Any) -> None:
        before = row.message.status
        target = legal_target(OUTBOX, name, before)
        row.message = replace(row.message, status=target, **sets)
        self._state.log(
            "message",
            name,
            OUTBOX.move(name).actor,
            from_status=before,
            to_status=target,
            message_id=row.message.id,
            attempt=row.message.attempt,
            available_at=row.message.available_at,
            reason=reason,
        )
        row.lease_expires_at = None
        row.finished_at = self._state.now() if target in OUTBOX.final else None


class OracleOrchestrator:
    """What the orchestrator may do."""

    def __init__(self, state: State) -> None:
        """Work on these tables."""
        self._state = state

    async def advance(self, job_ids: Sequence[str], *, limit: int = ADVANCE_MAX) -> Advance:
        """Do all that can be done now for these jobs."""
        known = [self._state.jobs[i] for i in sorted(set(job_ids)) if i in self._state.jobs]
        rows = [row for row in known if row.job.status in JOB.live]
        if not rows:
            return Advance()
        expanded = sum(expand(self._state, row) for row in rows)
        tasks = sorted((task for row in rows for task in self._tasks(row)), key=lambda r: r.task.id)
        broken = {r.task.job_id for r in tasks if r.task.status in ("FAILED", "CANCELLED")}
        doomed = [r for r in tasks if r.task.status in WAITING and r.task.job_id in broken][:limit]
        for task in doomed:
            self._state.move_task(task, "abandon", reason="another task of the job failed or was cancelled")
        ready = self._ready(tasks)[:limit]
        for task in ready:
            self._state.move_task(task, "ready")
        closed = self._state.close_jobs(job_ids)
        has_more = limit in (len(doomed), len(ready))
        return Advance(expanded, len(ready), len(doomed), closed, has_more)

    async def live_jobs(self, *, after: str = "", limit: int = 500) -> list[str]:
        """A window of unfinished jobs to sweep over."""
        live = [row.job.id for row in self._state.jobs.values() if row.job.status in JOB.live]
        return sorted(job_id for job_id in live if job_id > after)[:limit]

    def _tasks(self, row: JobRow) -> list[TaskRow]:
        return [self._state.tasks[i] for i in row.task_ids]

    def _ready(self, tasks: Sequence[TaskRow]) -> list[TaskRow]:
        """The NEW and due ones with every prerequisite DONE or SKIPPED and, if it is split, expanded."""
        statuses: dict[tuple[str, str, int | None], set[str]] = {}
        for row in tasks:
            task = row.task
            for key in {(task.job_id, task.stage, task.segment), (task.job_id, task.stage, None)}:
                statuses.setdefault(key, set()).add(task.status)
        waiting = [r for r in tasks if r.task.status == "NEW" and r.task.available_at <= self._state.now()]
        return [row for row in waiting if self._has_all(row, statuses)]

    def _has_all(self, row: TaskRow, statuses: dict[tuple[str, str, int | None], set[str]]) -> bool:
        job, task = self._state.jobs[row.task.job_id], row.task
        for need in job.plan.needs:
            if need.stage != task.stage:
                continue
            segment = task.segment if need.per_segment else None
            if need.needs not in job.expanded:
                return False
            if not statuses.get((task.job_id, need.needs, segment), set()) <= {"DONE", "SKIPPED"}:
                return False
        return True


def expand(state: State, row: JobRow) -> int:
    """Create the tasks of segment stages whose splitter is done; each stage exactly once."""
    count = 0
    for stage in row.plan.stages:
        if stage.splitter is None or stage.stage in row.expanded:
            continue
        splitter = next(t.task for t in state.tasks_of(row.job.id) if t.task.stage == stage.splitter)
        if splitter.status in ("DONE", "SKIPPED"):
            row.expanded.add(stage.stage)
            plans = plan_segments(stage.stage, splitter.result) if splitter.result else ()
            count += state.add_tasks(row, plans, Actor.ORCHESTRATOR)
    return count


def check_workers(state: State, worker_ids: Sequence[str]) -> None:
    """Refuse ids that no worker has."""
    missing = sorted(set(worker_ids) - set(state.workers))
    if missing:
        raise NotFound(f"no worker has the id {missing[0]!r}")
