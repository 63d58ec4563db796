"""A control table in use: sync, worklist, claim and release, toggles, watchdog.

Every row is a job. A claim is a lease with a token, and everything that its holder writes must carry it, so
whoever was too slow can change nothing any more.
"""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

from takeup.core.control import (
    ADOPT_MAX,
    Adoption,
    Claimable,
    ControlRow,
    check_pipeline,
    control_job,
    control_subject,
)
from takeup.core.errors import InvalidInput, NotFound
from takeup.core.ids import Token
from takeup.core.model import (
    CONTROLS,
    Answer,
    Completion,
    Control,
    Failure,
    Held,
    Lease,
    Progress,
    WorkerSpec,
)
from takeup.core.pipeline import Pipeline
from takeup.pipelines.control.report import SyncReport, WatchdogReport
from takeup.store.ops.claim import ClaimRequest
from takeup.store.ops.control import ControlFilter
from takeup.store.store import Store

CLAIM_TRIES = 32
"""How many rows a claim for any row tries before it says that there is none."""
SWEEP_JOBS, SWEEP_MAX = 500, 20
"""How many jobs the watchdog moves on in one transaction, and in how many of them at most."""


class Ticket(NamedTuple):
    """What a claimer must show to renew or release; as text it fits on a command line."""

    worker_id: str
    task_id: int
    token: Token

    def __str__(self) -> str:
        """The one text of a ticket."""
        return f"{self.task_id}.{self.token.epoch}.{self.token.nonce}.{self.worker_id}"

    @classmethod
    def parse(cls, text: str) -> "Ticket":
        """The ticket of this text."""
        try:
            task_id, epoch, nonce, worker_id = text.split(".", 3)
            return cls(worker_id, int(task_id), Token(int(epoch), nonce))
        except ValueError:
            raise InvalidInput("a ticket reads TASK.EPOCH.NONCE.WORKER, as a claim printed it") from None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A row that is now held by this worker."""

    url: str
    iteration: int
    worker_id: str
    lease: Lease

    @property
    def ticket(self) -> Ticket:
        """What releases it."""
        return Ticket(self.worker_id, self.lease.task_id, self.lease.token)


class ControlTable:
    """The rows of one pipeline with the key (url, iteration), in one store."""

    def __init__(self, store: Store, pipeline: Pipeline) -> None:
        """Work on the jobs of this pipeline."""
        check_pipeline(pipeline)
        self.store = store
        self.pipeline = pipeline
        self._swept = ""

    async def sync(self, rows: Iterable[Mapping[str, Any]], *, task_state: Control = "READY") -> SyncReport:
        """Create the rows that never were there, with this toggle; every other row is left as it is."""
        if task_state not in CONTROLS:
            raise InvalidInput(f"task_state {task_state!r} is not one of {', '.join(CONTROLS)}")
        inserted = existing = 0
        iterator = iter(rows)
        while batch := list(islice(iterator, ADOPT_MAX)):
            adoptions = [
                Adoption(control_job(self.pipeline, row, task_state), is_skipped=task_state == "SKIP")
                for row in batch
            ]
            created = sum(i is not None for i in await self.store.operator.adopt(adoptions, reason="sync"))
            inserted, existing = inserted + created, existing + len(batch) - created
        return SyncReport(inserted, existing)

    async def rows(
        self, where: ControlFilter | None = None, *, after: str = "", limit: int = 1000
    ) -> list[ControlRow]:
        """A page of the table; `after` is the job id of the last row before it."""
        return await self.store.read.control_rows(self.pipeline.name, where, after=after, limit=limit)

    async def row(self, url: str, iteration: int) -> ControlRow:
        """One row."""
        found = await self.store.read.control_row(control_subject(self.pipeline, url, iteration))
        if found is None:
            raise NotFound(f"the table of {self.pipeline.name} has no row ({url!r}, {iteration})")
        return found

    async def worklist(self, stage: str | None = None, *, limit: int = 100) -> list[Claimable]:
        """What can be claimed now: toggled READY, at a stage that is READY and due, not leased."""
        if stage is not None:
            self.pipeline.get(stage)
        return await self.store.read.worklist(self.pipeline.name, stage=stage, limit=limit)

    async def enlist(self, worker_id: str, *, slots: int = 1, capabilities: Iterable[str] = ()) -> None:
        """Make a claimer known as a worker of this pipeline.

        One that is known as such is only noted to live: to register it again would end the leases it holds.
        """
        spec = WorkerSpec(
            worker_id,
            slots=slots,
            capabilities=frozenset(capabilities),
            stages=(f"{self.pipeline.name}/*",),
        )
        try:
            known = await self.store.read.worker(worker_id)
        except NotFound:
            known = None
        ours = (spec.slots, spec.capabilities, spec.stages)
        if known is None or known.disabled or (known.slots, known.capabilities, known.stages) != ours:
            await self.store.worker.register(spec)
        else:
            await self.store.worker.heartbeat([worker_id])

    async def claim(self, worker_id: str, url: str, iteration: int) -> Claimed | None:
        """Lease this row to the worker; None if it cannot be claimed now or another was faster."""
        subject = control_subject(self.pipeline, url, iteration)
        return await self._take(worker_id, await self.store.read.worklist_of(subject, limit=CLAIM_TRIES))

    async def claim_next(self, worker_id: str, stage: str | None = None) -> Claimed | None:
        """Lease the most urgent row, of this stage if one is named; None if there is none left to take."""
        return await self._take(worker_id, await self.worklist(stage, limit=CLAIM_TRIES))

    async def renew(self, claimed: Claimed | Ticket, *, percent: float | None = None) -> Answer:
        """Extend a lease by its length."""
        worker_id, held = _shown(claimed)
        (answer,) = await self.store.worker.renew(worker_id, [Progress(held, percent)])
        return answer

    async def release(
        self,
        claimed: Claimed | Ticket,
        status: Literal["COMPLETED", "ERROR"] = "COMPLETED",
        *,
        error: str | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> Answer:
        """End a claim: the next stage can go on, or this one is tried again as its policy says.

        The answer tells whether the token still held the row; if not, nothing was changed.
        """
        worker_id, held = _shown(claimed)
        if status == "COMPLETED":
            done = Completion(held, result or {})
            (answer,) = await self.store.worker.complete(worker_id, [done])
        elif status == "ERROR":
            failure = Failure(held, error or "released as ERROR")
            (answer,) = await self.store.worker.fail(worker_id, [failure])
        else:
            raise InvalidInput(f"a claim is released as COMPLETED or ERROR, not {status!r}")
        if answer.accepted:
            task = await self.store.read.task(held.task_id)
            await self.store.orchestrator.advance([task.job_id])
        return answer

    async def pause(self, url: str, iteration: int, *, reason: str | None = None) -> ControlRow:
        """Let nothing new of this row be claimed; what runs may finish its stage."""
        return await self._toggle(url, iteration, "PAUSED", reason)

    async def resume(self, url: str, iteration: int, *, reason: str | None = None) -> ControlRow:
        """Let this row go on."""
        return await self._toggle(url, iteration, "READY", reason)

    async def skip(self, url: str, iteration: int, *, reason: str | None = None) -> ControlRow:
        """End this row without its work; whoever holds it loses it at once."""
        return await self._toggle(url, iteration, "SKIP", reason)

    async def watchdog(self, *, limit: int = 1000) -> WatchdogReport:
        """Take back overdue leases, wake due retries and move jobs on, for when no engine runs beside."""
        expired = await self.store.recovery.expire(limit=limit)
        woken = await self.store.recovery.wake(limit=limit)
        advanced = 0
        for _ in range(SWEEP_MAX):
            jobs = await self.store.orchestrator.live_jobs(after=self._swept, limit=SWEEP_JOBS)
            self._swept = jobs[-1] if len(jobs) == SWEEP_JOBS else ""
            if jobs:
                moved = await self.store.orchestrator.advance(jobs)
                advanced += moved.expanded + moved.ready + moved.abandoned + moved.closed
            if not self._swept:
                break
        return WatchdogReport(len(expired), len(woken), advanced)

    async def _take(self, worker_id: str, candidates: Iterable[Claimable]) -> Claimed | None:
        for row in candidates:
            request = ClaimRequest(worker_id, secrets.token_hex(12), secrets.token_hex(16))
            lease = await self.store.worker.claim_task(request, row.task_id)
            if lease is not None:
                return Claimed(row.url, row.iteration, worker_id, lease)
        return None

    async def _toggle(self, url: str, iteration: int, control: Control, reason: str | None) -> ControlRow:
        found = await self.row(url, iteration)
        await self.store.operator.set_control([found.job_id], control, reason=reason)
        return await self.row(url, iteration)


def _shown(claimed: Claimed | Ticket) -> tuple[str, Held]:
    ticket = claimed.ticket if isinstance(claimed, Claimed) else claimed
    return ticket.worker_id, Held(ticket.task_id, ticket.token)
