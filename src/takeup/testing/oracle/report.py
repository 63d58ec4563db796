"""The oracle's reports: renew, complete, fail, release, accepted only from the token that holds the task."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from takeup.core.ids import nonce_hash
from takeup.core.model import Answer, Completion, Failure, Held, Order, Progress
from takeup.core.plan import lists_segments
from takeup.core.policy import REFUNDS_MAX, RetryPolicy
from takeup.core.report import check_after_s, check_artifacts, check_batch, check_percent, result_text, weigh
from takeup.testing.oracle.state import State, TaskRow, clip


class OracleReports:
    """What the holder of a lease may report."""

    def __init__(self, state: State, luck: Callable[[], float]) -> None:
        """Work on these tables; `luck` spreads the delays of retries."""
        self._state = state
        self._luck = luck

    async def renew(
        self, worker_id: str, reports: Sequence[Progress], *, request_id: str | None = None
    ) -> list[Answer]:
        """Extend leases and note progress."""
        check_batch([report.held for report in reports])
        for report in reports:
            check_percent(report.percent)
        return [self._renew(worker_id, report, request_id) for report in reports]

    async def complete(
        self, worker_id: str, reports: Sequence[Completion], *, request_id: str | None = None
    ) -> list[Answer]:
        """Finish tasks."""
        check_batch([report.held for report in reports])
        for report in reports:
            check_artifacts(report.artifacts)
        results = [json.loads(result_text(report.result)) for report in reports]
        answers, jobs = [], []
        for report, result in zip(reports, results, strict=True):
            row = self._held_by(worker_id, report.held)
            if row is None or (row.splits and not lists_segments(result)):
                answers.append(self._refusal(worker_id, report.held, ("complete",)))
                continue
            for artifact in report.artifacts:
                self._state.artifacts[row.task.id, artifact.name] = artifact, row.task.epoch
            self._state.move_task(
                row, "complete", request_id=request_id, result=result, error=None, progress_percent=100.0
            )
            answers.append(Answer(row.task.id, accepted=True, status=row.task.status))
            jobs.append(row.task.job_id)
        self._state.close_jobs(jobs, request_id=request_id)
        return answers

    async def fail(
        self, worker_id: str, reports: Sequence[Failure], *, request_id: str | None = None
    ) -> list[Answer]:
        """End attempts that failed."""
        check_batch([report.held for report in reports])
        for report in reports:
            check_after_s(report.after_s)
        answers = []
        for report in reports:
            row = self._held_by(worker_id, report.held)
            if row is None:
                answers.append(self._refusal(worker_id, report.held, ("fail", "give_up")))
                continue
            task = row.task
            words, retryable = weigh(report, task.error)
            error = clip(words)
            told: dict[str, Any] = {
                "request_id": request_id,
                "reason": error,
                "error": error,
                "excuse": report.excuse,
            }
            if retryable and task.attempt < task.max_attempts:
                delay_s = RetryPolicy(**json.loads(row.plan.retry)).delay_s(task.attempt, self._luck())
                if report.after_s is not None:
                    delay_s = report.after_s
                available_at = self._state.now() + timedelta(seconds=delay_s)
                self._state.move_task(row, "fail", **told, available_at=available_at)
            else:
                self._state.move_task(row, "give_up", **told)
            answers.append(Answer(task.id, accepted=True, status=row.task.status))
        self._close(answers, request_id)
        return answers

    async def release(
        self, worker_id: str, held: Sequence[Held], *, reason: str = "released", request_id: str | None = None
    ) -> list[Answer]:
        """Hand tasks back unfinished."""
        check_batch(held)
        answers = []
        for lease in held:
            row = self._held_by(worker_id, lease)
            if row is None:
                answers.append(self._refusal(worker_id, lease, ("release", "give_up")))
                continue
            task = row.task
            if task.refunds < REFUNDS_MAX:
                given: dict[str, Any] = {"attempt": task.attempt - 1, "refunds": task.refunds + 1}
                self._state.move_task(row, "release", request_id=request_id, reason=clip(reason), **given)
            elif task.attempt < task.max_attempts:
                self._state.move_task(row, "release", request_id=request_id, reason=clip(reason))
            else:
                error = clip(f"{reason}, once too often")
                self._state.move_task(row, "give_up", request_id=request_id, reason=clip(reason), error=error)
            answers.append(Answer(task.id, accepted=True, status=row.task.status))
        self._close(answers, request_id)
        return answers

    def _close(self, answers: Sequence[Answer], request_id: str | None) -> None:
        failed = [a.task_id for a in answers if a.accepted and a.status == "FAILED"]
        jobs = [self._state.tasks[i].task.job_id for i in failed if i in self._state.tasks]
        self._state.close_jobs(jobs, request_id=request_id)

    def _renew(self, worker_id: str, report: Progress, request_id: str | None) -> Answer:
        state = self._state
        row = self._held_by(worker_id, report.held)
        has_progress = report.percent is not None or report.note is not None
        if row is None or (not has_progress and self._is_stalled(row)):
            return self._refusal(worker_id, report.held, ())
        task = row.task
        later = state.now() + timedelta(seconds=task.lease_s)
        percent = check_percent(report.percent)
        state.move_task(
            row,
            "renew",
            request_id=request_id,
            lease_expires_at=max(task.lease_expires_at or later, later),
            progress_percent=task.progress_percent if percent is None else percent,
            progress_note=task.progress_note if report.note is None else clip(report.note),
            progress_at=state.now() if has_progress else task.progress_at,
        )
        order: Order = "drain" if state.workers[worker_id].status == "draining" else "continue"
        return Answer(
            task.id, accepted=True, status="RUNNING", order=order, expires_at=row.task.lease_expires_at
        )

    def _is_stalled(self, row: TaskRow) -> bool:
        stall_s, progress_at = row.task.stall_s, row.task.progress_at
        return stall_s is not None and progress_at is not None and progress_at <= self._state.ago(stall_s)

    def _held_by(self, worker_id: str, held: Held) -> TaskRow | None:
        """The task, if this token of an enabled worker holds it now."""
        row, worker = self._state.tasks.get(held.task_id), self._state.workers.get(worker_id)
        if row is None or worker is None or worker.disabled or not self._has_token(worker_id, held, row):
            return None
        return row

    def _has_token(self, worker_id: str, held: Held, row: TaskRow) -> bool:
        task = row.task
        return (
            task.lease_expires_at is not None
            and task.lease_expires_at > self._state.now()
            and task.lease_owner == worker_id
            and task.epoch == held.token.epoch
            and row.nonce_hash == nonce_hash(held.token.nonce)
        )

    def _refusal(self, worker_id: str, held: Held, same: Sequence[str]) -> Answer:
        """What a refused report is told; one that repeats what ended its token is answered the same again."""
        row, worker = self._state.tasks.get(held.task_id), self._state.workers.get(worker_id)
        if row is None:
            return Answer(held.task_id, accepted=False, status=None, order="lost", reason="no such task")
        ended = self._state.ended.get((held.task_id, held.token.epoch, nonce_hash(held.token.nonce)))
        if ended and ended.event in same and ended.owner == worker_id:
            return Answer(held.task_id, accepted=True, status=ended.status, reason="repeated")
        order: Order = "lost"
        reason = "the token does not hold this task"
        if ended and ended.event in ("cancel", "revoke"):
            order, reason = "cancel", ended.reason or "cancelled"
        elif worker is None or worker.disabled:
            reason = "the worker is disabled"
        elif self._has_token(worker_id, held, row) and "complete" in same:
            order, reason = "continue", "the result must list the segments to split by"
        elif self._has_token(worker_id, held, row):
            order, reason = "stalled", "no progress within the limit"
        return Answer(held.task_id, accepted=False, status=row.task.status, order=order, reason=reason)
