"""The oracle's operator facade: submit, cancel, pause, resume, skip, priority, workers."""

import json
from collections.abc import Sequence
from dataclasses import replace

from takeup.core.control import Adoption
from takeup.core.errors import (
    IdempotencyMismatch,
    IllegalMove,
    InvalidInput,
    NotFound,
    SubjectBusy,
    VersionMismatch,
)
from takeup.core.ids import RandomBytes, new_id
from takeup.core.machine import JOB, TASK, WAITING, Actor
from takeup.core.model import CONTROLS, Control, Job
from takeup.core.plan import JobPlan, NewJob, plan_job
from takeup.core.policy import check_priority
from takeup.store.ops.control import check_adoptions
from takeup.testing.oracle.recovery import OracleOrchestrator, OracleRecovery, check_workers, expand
from takeup.testing.oracle.state import JobRow, State, TaskRow, clip

CONTROL_EVENTS = {"READY": "resume", "PAUSED": "pause", "SKIP": "skip"}


class OracleOperator:
    """What people may do."""

    def __init__(self, state: State, random: RandomBytes) -> None:
        """Work on these tables."""
        self._state = state
        self._random = random
        self._recovery = OracleRecovery(state)

    async def submit(
        self,
        jobs: Sequence[NewJob],
        *,
        request_id: str | None = None,
        hint: str = "",  # noqa: ARG002 - nobody listens here
    ) -> list[str]:
        """Create jobs, all or none; a job whose key is known is not created again."""
        plans = [(new_id("job", self._random), plan_job(job)) for job in jobs]
        known = {
            (row.plan.user_id, row.plan.idempotency_key): (job_id, row.plan)
            for job_id, row in [*self._state.jobs.items(), *self._state.archived.items()]
            if row.plan.idempotency_key is not None
        }
        answers, fresh = [], []
        for job_id, plan in plans:
            first = (job_id, plan)
            if plan.idempotency_key is not None:
                first = known.setdefault((plan.user_id, plan.idempotency_key), first)
            if not plan.repeats(first[1].spec_hash, first[1].request_hash):
                raise IdempotencyMismatch(f"{plan.idempotency_key!r} was used with another body")
            answers.append(first[0])
            if first[0] == job_id:
                fresh.append((job_id, plan))
        self._check_subjects([plan for _, plan in fresh])
        for job_id, plan in fresh:
            self._add(job_id, plan, request_id)
        return answers

    async def retry(self, job_ids: Sequence[str], *, request_id: str | None = None) -> list[str]:
        """Run finished jobs again as new ones."""
        jobs = [(job_id, new_id("job", self._random)) for job_id in job_ids]
        plans = []
        for old, new in jobs:
            (row,) = self._jobs([old])
            if row.job.status in JOB.live:
                raise IllegalMove(f"job {old} is {row.job.status} and cannot be retried before it ended")
            waiting = {need.stage for need in row.plan.needs}
            tasks = tuple(
                replace(task, status="NEW" if task.stage in waiting else "READY") for task in row.plan.tasks
            )
            plan = replace(
                row.plan,
                idempotency_key=None,
                priority=row.job.priority,
                control="READY",
                not_before=None,
                tasks=tasks,
            )
            plans.append((new, plan))
        self._check_subjects([plan for _, plan in plans])
        for new, plan in plans:
            self._add(new, plan, request_id)
        return [new for new, _ in plans]

    async def adopt(
        self, adoptions: Sequence[Adoption], *, reason: str = "adopted", request_id: str | None = None
    ) -> list[str | None]:
        """Create jobs for subjects that never had one, each at the stage where its work goes on."""
        plans = [(new_id("job", self._random), plan_job(one.job), one) for one in adoptions]
        check_adoptions(adoptions)
        answers: list[str | None] = []
        for job_id, plan, _ in plans:
            rows = [*self._state.jobs.values(), *self._state.archived.values()]
            is_known = any(row.job.subject == plan.subject for row in rows)
            answers.append(None if is_known else job_id)
            if not is_known:
                self._add(job_id, plan, request_id)
        started = [job_id for job_id, _, one in plans if job_id in answers and one.done]
        skipped = [job_id for job_id, _, one in plans if job_id in answers and one.is_skipped]
        for job_id, _, one in plans:
            for task in self._state.tasks_of(job_id):
                if task.task.stage in one.done:
                    self._state.move_task(task, "skip", reason=clip(reason))
        await self.set_control(skipped, "SKIP", reason=reason)
        await OracleOrchestrator(self._state).advance([i for i in started if i not in skipped])
        return answers

    async def cancel(
        self,
        job_ids: Sequence[str],
        *,
        reason: str = "cancelled by an operator",
        must_be_live: bool = False,
    ) -> list[str]:
        """Cancel every live task of these jobs."""
        reason = clip(reason) or ""
        rows = self._jobs(job_ids)
        for row in rows:
            if must_be_live and row.job.status in ("completed", "failed"):
                raise IllegalMove(f"job {row.job.id} is {row.job.status} and cannot be cancelled")
        live = [row for row in rows if row.job.status in JOB.live]
        for row in live:
            expand(self._state, row)
            for task in self._live_tasks(row):
                self._state.move_task(task, "cancel", reason=reason)
        self._state.close_jobs(row.job.id for row in live)
        return [row.job.id for row in live]

    async def set_control(
        self,
        job_ids: Sequence[str],
        control: Control,
        *,
        reason: str | None = None,
        version: int | None = None,
    ) -> list[str]:
        """Pause (PAUSED), resume (READY) or skip (SKIP) jobs."""
        check_control(control)
        reason = clip(reason)
        rows = [row for row in self._live_jobs(job_ids, version) if row.job.control != control]
        for row in rows:
            self._change(row, control=control)
            self._state.log_job(row, CONTROL_EVENTS[control], Actor.OPERATOR, row.job.status, reason=reason)
            if control == "SKIP":
                expand(self._state, row)
            for task in self._live_tasks(row):
                task.task = replace(task.task, job_control=control)
                if control == "SKIP":
                    self._skip(task, reason)
            if control == "SKIP":
                expand(self._state, row)
        if control == "SKIP":
            self._state.close_jobs(row.job.id for row in rows)
        return [row.job.id for row in rows]

    async def set_task_control(
        self, task_ids: Sequence[int], control: Control, *, reason: str | None = None
    ) -> list[int]:
        """Pause, resume or skip single tasks."""
        check_control(control)
        reason = clip(reason)
        wanted = sorted(set(task_ids))
        for task_id in wanted:
            if task_id not in self._state.tasks:
                raise NotFound(f"no task has the id {task_id}")
        for task_id in wanted:
            if self._state.tasks[task_id].task.status in TASK.final:
                raise IllegalMove(f"task {task_id} is finished and cannot be changed")
        rows = [self._state.tasks[task_id] for task_id in wanted]
        for row in rows:
            row.task = replace(row.task, control=control)
            if control == "SKIP":
                self._skip(row, reason)
            else:
                event, status = CONTROL_EVENTS[control], row.task.status
                self._state.log_task(row, event, Actor.OPERATOR, status, reason=reason)
        if control == "SKIP":
            self._state.close_jobs(row.task.job_id for row in rows)
        return wanted

    async def set_priority(
        self, job_ids: Sequence[str], priority: int, *, version: int | None = None
    ) -> list[str]:
        """Change the priority of jobs and of everything in them that is not finished."""
        check_priority(priority)
        rows = self._live_jobs(job_ids, version)
        for row in rows:
            self._change(row, priority=priority)
            for task in self._live_tasks(row):
                task.task = replace(task.task, priority=priority)
            self._state.log_job(row, "set_priority", Actor.OPERATOR, row.job.status, reason=str(priority))
        return [row.job.id for row in rows]

    async def drain(self, worker_ids: Sequence[str]) -> list[str]:
        """Give workers nothing new."""
        return self._recovery.move_workers("drain", worker_ids)

    async def disable(self, worker_ids: Sequence[str], *, reason: str | None = None) -> None:
        """Switch workers off; their leases run out."""
        self._set_disabled(worker_ids, "disable", reason)

    async def enable(self, worker_ids: Sequence[str], *, reason: str | None = None) -> None:
        """Switch workers on again."""
        self._set_disabled(worker_ids, "enable", reason)

    def _set_disabled(self, worker_ids: Sequence[str], event: str, reason: str | None) -> None:
        check_workers(self._state, worker_ids)
        for worker_id in sorted(set(worker_ids)):
            worker = replace(self._state.workers[worker_id], disabled=event == "disable")
            if event == "enable":
                now = self._state.now()
                worker = replace(worker, quarantined_at=None, quarantine_reason=None, trusted_at=now)
            self._state.workers[worker_id] = worker
            self._state.log_worker(worker_id, event, Actor.OPERATOR, worker.status, reason)

    def _check_subjects(self, plans: Sequence[JobPlan]) -> None:
        live = {row.job.subject for row in self._state.jobs.values() if row.job.status in JOB.live}
        for plan in plans:
            if plan.subject is not None and plan.subject in live:
                raise SubjectBusy(f"{plan.subject!r} already has a live job")
            live.add(plan.subject)

    def _add(self, job_id: str, plan: JobPlan, request_id: str | None) -> None:
        state = self._state
        earlier = [
            row.job.generation
            for row in [*state.jobs.values(), *state.archived.values()]
            if plan.subject is not None and row.job.subject == plan.subject
        ]
        job = new_job(job_id, plan, 1 + max(earlier, default=0), state)
        whole = {stage.stage for stage in plan.stages if stage.splitter is None}
        row = state.jobs[job_id] = JobRow(job, plan, whole)
        state.log_job(row, "create", Actor.OPERATOR, None, request_id=request_id)
        state.add_tasks(row, plan.tasks, Actor.OPERATOR, request_id)

    def _skip(self, row: TaskRow, reason: str | None) -> None:
        if row.task.status == "RUNNING":
            self._state.move_task(row, "revoke", reason=reason or "skipped by an operator")
        assert row.task.status in WAITING
        self._state.move_task(row, "skip", reason=reason)

    def _change(self, row: JobRow, *, control: Control | None = None, priority: int | None = None) -> None:
        row.job = replace(
            row.job,
            control=control or row.job.control,
            priority=row.job.priority if priority is None else priority,
            version=row.job.version + 1,
            updated_at=self._state.now(),
        )

    def _live_tasks(self, row: JobRow) -> list[TaskRow]:
        return [task for task in self._state.tasks_of(row.job.id) if task.task.status in TASK.live]

    def _jobs(self, job_ids: Sequence[str]) -> list[JobRow]:
        wanted = sorted(set(job_ids))
        missing = [job_id for job_id in wanted if job_id not in self._state.jobs]
        if missing:
            raise NotFound(f"no job has the id {missing[0]!r}")
        return [self._state.jobs[job_id] for job_id in wanted]

    def _live_jobs(self, job_ids: Sequence[str], version: int | None) -> list[JobRow]:
        rows = self._jobs(job_ids)
        for row in rows:
            if version is not None and row.job.version != version:
                raise VersionMismatch(f"job {row.job.id} has version {row.job.version}, not {version}")
            if row.job.status not in JOB.live:
                raise IllegalMove(f"job {row.job.id} is {row.job.status} and cannot be changed")
        return rows


def check_control(control: str) -> None:
    """Refuse a word that is no control."""
    if control not in CONTROLS:
        raise InvalidInput(f"control {control!r} is not one of {', '.join(CONTROLS)}")


def new_job(job_id: str, plan: JobPlan, generation: int, state: State) -> Job:
    """A job row as it is born."""
    return Job(
        id=job_id,
        pipeline=plan.pipeline,
        subject=plan.subject,
        generation=generation,
        user_id=plan.user_id,
        idempotency_key=plan.idempotency_key,
        priority=plan.priority,
        control=plan.control,
        status=JOB.initial[0],
        spec=json.loads(plan.spec),
        error=None,
        version=1,
        created_at=state.now(),
        updated_at=state.now(),
        started_at=None,
        finished_at=None,
    )
