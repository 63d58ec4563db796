"""The oracle's worker facade: register, heartbeat, claim; the reports are in `oracle_report`."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from takeup.core.errors import WorkerRefused
from takeup.core.ids import Token, canonical_json, lease_nonces, nonce_hash
from takeup.core.machine import PHASES, WORKER, Actor
from takeup.core.model import Lease, Worker, WorkerSpec
from takeup.core.plan import LanePlan
from takeup.store.ops.claim import ClaimRequest
from takeup.store.ops.worker import check_spec, processes_of
from takeup.testing.oracle.brief import OracleBriefs
from takeup.testing.oracle.quarantine import is_able
from takeup.testing.oracle.recovery import OracleRecovery
from takeup.testing.oracle.report import OracleReports
from takeup.testing.oracle.state import State, TaskRow

CLAIM_EXPIRES_MAX = 8


class OracleWorker(OracleReports, OracleBriefs):
    """What a worker may do."""

    def __init__(self, state: State, luck: Callable[[], float]) -> None:
        """Work on these tables."""
        super().__init__(state, luck)
        self._recovery = OracleRecovery(state)

    async def register(self, spec: WorkerSpec) -> None:
        """Become known and active."""
        check_spec(spec)
        state, known = self._state, self._state.workers.get(spec.id)
        if known and known.disabled:
            raise WorkerRefused(f"worker {spec.id} is disabled")
        state.processes[spec.id] = processes_of(spec, state.processes.get(spec.id, ()))
        fields: dict[str, Any] = {
            "name": spec.name,
            "kind": spec.kind,
            "slots": spec.slots,
            "capabilities": spec.capabilities,
            "stages": spec.stages,
            "metadata": json.loads(canonical_json(dict(spec.metadata))),
            "registered_at": state.now(),
            "last_heartbeat_at": None,
        }
        if known:
            state.move_worker(spec.id, "register", incarnation=known.incarnation + 1, **fields)
            self._cut(spec.id)
            return
        state.workers[spec.id] = Worker(
            id=spec.id, status=WORKER.initial[0], disabled=False, incarnation=1, **fields
        )
        state.log_worker(spec.id, "register", Actor.WORKER, None)

    def _cut(self, worker_id: str) -> None:
        """End the leases of the process that had this id before."""
        now = self._state.now()
        for row in self._state.tasks.values():
            expires_at = row.task.lease_expires_at
            if row.task.lease_owner == worker_id and expires_at is not None and expires_at > now:
                reason = "a newer process of the worker registered"
                self._state.move_task(row, "cut", reason=reason, lease_expires_at=now)

    async def heartbeat(self, worker_ids: Sequence[str]) -> dict[str, str]:
        """Say that these workers live."""
        answers = {}
        for worker_id in sorted(set(worker_ids) & set(self._state.workers)):
            worker = self._state.workers[worker_id]
            if worker.disabled:
                answers[worker_id] = "disabled"
                continue
            if worker.status == "offline":
                self._state.move_worker(worker_id, "revive")
            worker = replace(self._state.workers[worker_id], last_heartbeat_at=self._state.now())
            self._state.workers[worker_id] = worker
            is_kept_away = worker.quarantined_at is not None and worker.status == "active"
            answers[worker_id] = "quarantined" if is_kept_away else worker.status
        return answers

    async def leave(self, worker_ids: Sequence[str]) -> list[str]:
        """Say good-bye."""
        return self._recovery.move_workers("leave", worker_ids)

    async def claim(self, request: ClaimRequest, *, takes_back: bool = True) -> list[Lease]:
        """Lease tasks; a claim that finds none may take back a few leases that are over and look again."""
        leases = self._claim(request)
        if not leases and takes_back and await self._recovery.expire(limit=CLAIM_EXPIRES_MAX):
            leases = self._claim(request)
        return leases

    async def claim_task(self, request: ClaimRequest, task_id: int) -> Lease | None:
        """Lease this one task; a lease on it that is over is taken back first."""
        state, row = self._state, self._state.tasks.get(task_id)
        worker = self._claimer(request)
        may_serve = worker and row and row.plan.lane.fits(worker.capabilities, worker.stages)
        if worker and row and may_serve and row.task.control == row.task.job_control == "READY":
            expires_at = row.task.lease_expires_at
            if expires_at is not None and expires_at <= state.now():
                self._recovery.take_back([row])
            free = self._free_slots(worker)
            if free and self._is_claimable(row):
                self._lease(row, free[0], lease_nonces(request.secret, 1)[0], request)
                self._start_jobs([row], request.request_id)
        return next(iter(self._leases_of(replace(request, limit=1))), None)

    def _claimer(self, request: ClaimRequest) -> Worker | None:
        """The worker of a request that may take something new."""
        worker = self._state.workers.get(request.worker_id)
        may_claim = worker is not None and is_able(worker)
        return worker if may_claim and request.request_id not in self._state.claims else None

    def _free_slots(self, worker: Worker) -> list[int]:
        state = self._state
        used = {row.task.lease_slot for row in state.tasks.values() if row.task.lease_owner == worker.id}
        free = [slot for slot in range(1, worker.slots + 1) if slot not in used]
        return free[: max(worker.slots - state.load(worker.id), 0)]

    def _claim(self, request: ClaimRequest) -> list[Lease]:
        worker = self._claimer(request)
        if worker:
            offers = self._offers(worker, request)
            for row, slot, nonce in offers:
                self._lease(row, slot, nonce, request)
            self._start_jobs([row for row, _, _ in offers], request.request_id)
        return self._leases_of(request)

    def _leases_of(self, request: ClaimRequest) -> list[Lease]:
        """What this request holds now."""
        nonces = {nonce_hash(nonce): nonce for nonce in lease_nonces(request.secret, request.limit)}
        leases = [
            lease_of(row, nonces[row.nonce_hash])
            for row in self._state.tasks.values()
            if row.task.lease_owner == request.worker_id
            and row.claim_request == request.request_id
            and row.nonce_hash in nonces
        ]
        return sorted(leases, key=lambda lease: (-lease.priority, lease.task_id))

    def _offers(self, worker: Worker, request: ClaimRequest) -> list[tuple[TaskRow, int, str]]:
        """Which tasks this claim takes, on which slots and with which nonces."""
        state = self._state
        free = self._free_slots(worker)
        lanes: dict[LanePlan, list[TaskRow]] = {}
        for row in sorted(state.tasks.values(), key=urgency):
            if self._is_claimable(row) and row.plan.lane.fits(worker.capabilities, worker.stages):
                lanes.setdefault(row.plan.lane, []).append(row)
        offered = []
        for lane, rows in lanes.items():
            reserved = self._reserved(lane, worker, request.defer_s)
            offered += [
                row for rank, row in enumerate(rows) if rank >= reserved or self._waited(row, request)
            ]
        nonces = lease_nonces(request.secret, request.limit)
        return list(zip(sorted(offered, key=urgency), free, nonces, strict=False))

    def _is_claimable(self, row: TaskRow) -> bool:
        task = row.task
        return (
            task.status == "READY"
            and task.control == task.job_control == "READY"
            and task.available_at <= self._state.now()
            and task.attempt < task.max_attempts
        )

    def _waited(self, row: TaskRow, request: ClaimRequest) -> bool:
        assert row.task.ready_at is not None
        return row.task.ready_at <= self._state.ago(request.defer_s)

    def _reserved(self, lane: LanePlan, worker: Worker, defer_s: float) -> int:
        """How many tasks of this lane are left to the free slots of the workers it prefers."""
        if lane.suits(worker.capabilities):
            return 0
        return sum(
            max(other.slots - self._state.load(other.id), 0)
            for other in self._state.workers.values()
            if is_able(other)
            if lane.fits(other.capabilities, other.stages) and lane.suits(other.capabilities)
            if (other.last_heartbeat_at or other.registered_at) > self._state.ago(defer_s)
        )

    def _lease(self, row: TaskRow, slot: int, nonce: str, request: ClaimRequest) -> None:
        state, task = self._state, row.task
        now = state.now()
        state.claims[request.request_id] = now
        row.nonce_hash, row.claim_request = nonce_hash(nonce), request.request_id
        state.move_task(
            row,
            "claim",
            request_id=request.request_id,
            attempt=task.attempt + 1,
            epoch=task.epoch + 1,
            lease_owner=request.worker_id,
            lease_slot=slot,
            lease_expires_at=now + timedelta(seconds=task.lease_s),
            claimed_at=now,
            started_at=task.started_at or now,
            progress_at=now,
            progress_percent=0.0,
            progress_note=None,
        )

    def _start_jobs(self, rows: Sequence[TaskRow], request_id: str) -> None:
        """Let each job enter the furthest phase of the tasks that were claimed of it."""
        for job_id in {row.task.job_id for row in rows}:
            job = self._state.jobs[job_id]
            rank = max(PHASES.index(row.task.phase) for row in rows if row.task.job_id == job_id)
            if rank > PHASES.index(job.job.status):
                started_at = job.job.started_at or self._state.now()
                self._state.move_job(
                    job, f"enter_{PHASES[rank]}", request_id=request_id, started_at=started_at
                )


def urgency(row: TaskRow) -> tuple[Any, ...]:
    """The order of claims: priority, then due time, then age."""
    return -row.task.priority, row.task.available_at, row.task.id


def lease_of(row: TaskRow, nonce: str) -> Lease:
    """A lease as its holder receives it."""
    task = row.task
    assert task.lease_expires_at is not None
    return Lease(
        task_id=task.id,
        job_id=task.job_id,
        pipeline=task.pipeline,
        stage=task.stage,
        segment=task.segment,
        generation=task.generation,
        attempt=task.attempt,
        max_attempts=task.max_attempts,
        priority=task.priority,
        token=Token(task.epoch, nonce),
        lease_s=task.lease_s,
        expires_at=task.lease_expires_at,
        parameters=task.parameters,
    )
