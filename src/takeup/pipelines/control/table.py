"""A control table in use: sync, worklist, claim and release, toggles, watchdog.

Every row is a job. A claim is a lease with a token, and everything that its holder writes must carry it, so
whoever was too slow can change nothing any more.
"""

import secrets
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

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
from takeup.core.model import CONTROLS, Answer, Control, WorkerSpec
from takeup.core.pipeline import Pipeline
from takeup.pipelines.control.report import SyncReport, WatchdogReport
from takeup.pipelines.control.tickets import Claimed, Ending, Ticket, release, renew
from takeup.pipelines.control.watchdog import watch
from takeup.store.ops.claim import ClaimRequest
from takeup.store.ops.control import ControlFilter
from takeup.store.store import Store

CLAIM_TRIES = 32
"""How many rows a claim for any row tries before it says that there is none."""


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
        return await renew(self.store, claimed, percent=percent)

    async def release(
        self,
        claimed: Claimed | Ticket,
        status: Ending = "COMPLETED",
        *,
        error: str | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> Answer:
        """End a claim; the answer tells whether the token still held the row."""
        return await release(self.store, claimed, status, error=error, result=result)

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
        report, self._swept = await watch(self.store, after=self._swept, limit=limit)
        return report

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
