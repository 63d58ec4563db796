"""A server as the source of a worker's tasks: every call of the port is one call over HTTP."""

import asyncio
import secrets
from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import Any

from takeup import __version__
from takeup.core.errors import InvalidInput
from takeup.core.model import (
    Answer,
    Brief,
    Completion,
    Failure,
    Fate,
    Glance,
    Held,
    InputPage,
    Lease,
    LogLine,
    Progress,
    Step,
    StepEnd,
    WorkerSpec,
)
from takeup.core.remote import PROTOCOL
from takeup.engine.remote import forms
from takeup.engine.remote.client import ANSWER_S, AllRefused, Client
from takeup.store.ops.claim import ClaimRequest

CALLS = "/api/worker"
CLAIM_MAX = 100
URGENT_S = 5.0
"""What keeps leases alive is asked of another server, or again, while there is still time for it."""


class HttpSource:
    """What a worker asks of the other side, asked of a server."""

    def __init__(self, client: Client, *, wait_s: float, pipelines: dict[str, int] | None = None) -> None:
        """An idle claim waits at the server for `wait_s`."""
        self._client = client
        self._wait_s = wait_s
        self._pipelines = dict(pipelines or {})
        self._hurry = asyncio.Event()
        self._process = secrets.token_hex(8)

    def stop_waiting(self) -> None:
        """Let no claim wait any more."""
        self._hurry.set()

    async def register(self, spec: WorkerSpec) -> None:
        """Begin: what this process can do."""
        await self._post(
            "start",
            protocol=PROTOCOL,
            version=__version__,
            slots=spec.slots,
            capabilities=sorted(spec.capabilities),
            stages=list(spec.stages),
            pipelines=self._pipelines,
            metadata=dict(spec.metadata),
            process=spec.process or self._process,
        )

    async def heartbeat(self, worker_ids: Sequence[str]) -> dict[str, str]:
        """Say that this worker lives."""
        told = await self._post("heartbeat", URGENT_S)
        return {} if told["status"] == "unknown" else dict.fromkeys(worker_ids, told["status"])

    async def leave(self, worker_ids: Sequence[str]) -> list[str]:
        """Say good-bye."""
        await self._post("leave")
        return list(worker_ids)

    async def claim(self, request: ClaimRequest, *, takes_back: bool = True) -> list[Lease]:
        """Lease tasks, wait for some at the server; told to hurry, ask once more what was granted by now."""
        body = {
            "request_id": request.request_id,
            "secret": request.secret,
            "limit": min(request.limit, CLAIM_MAX),
            "takes_back": takes_back,
        }
        if not self._hurry.is_set():
            patient = {**body, "wait": self._wait_s}
            call = self._client.call("POST", f"{CALLS}/claim", patient, within_s=ANSWER_S + self._wait_s)
            if (told := await self._unless_in_hurry(call)) is not None:
                return forms.leases(told)
        return forms.leases(await self._client.call("POST", f"{CALLS}/claim", {**body, "wait": 0.0}))

    async def _unless_in_hurry(self, call: Coroutine[Any, Any, Any]) -> Any:
        """What the server says, or None if there is no time to wait for it."""
        waiting, hurry = asyncio.create_task(call), asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait((waiting, hurry), return_when=asyncio.FIRST_COMPLETED)
            return await waiting if waiting.done() else None
        finally:
            for task in (waiting, hurry):
                task.cancel()
            await asyncio.gather(waiting, hurry, return_exceptions=True)

    async def renew(
        self, worker_id: str, reports: Sequence[Progress], *, request_id: str | None = None
    ) -> list[Answer]:
        """Extend leases and tell progress."""
        del worker_id  # the key says it
        rows = [forms.progress(one) for one in reports]
        return await self._report("progress", rows, request_id, within_s=URGENT_S)

    async def complete(
        self, worker_id: str, reports: Sequence[Completion], *, request_id: str | None = None
    ) -> list[Answer]:
        """Finish tasks whose files were sent before."""
        del worker_id
        return await self._report("complete", [forms.completion(one) for one in reports], request_id)

    async def fail(
        self, worker_id: str, reports: Sequence[Failure], *, request_id: str | None = None
    ) -> list[Answer]:
        """End attempts that failed."""
        del worker_id
        return await self._report("fail", [forms.failure(one) for one in reports], request_id)

    async def release(
        self, worker_id: str, held: Sequence[Held], *, reason: str = "released", request_id: str | None = None
    ) -> list[Answer]:
        """Hand tasks back unfinished."""
        del worker_id
        return await self._report("release", [forms.held(one) for one in held], request_id, reason=reason)

    async def briefs(self, job_ids: Sequence[str]) -> dict[str, Brief]:
        """A claim brings what is to be known of its jobs."""
        raise InvalidInput(f"the server told nothing of job {next(iter(job_ids), '?')}")

    async def inputs(self, lease: Lease, needs: str, *, after: int = -2) -> InputPage:
        """A page of what a stage made."""
        return forms.page(await self._post("inputs", **forms.held(lease.held), needs=needs, after=after))

    async def glance(self, worker_id: str, held: Sequence[Held]) -> Glance:
        """What is still held."""
        del worker_id
        return forms.glance(await self._post("glance", URGENT_S, held=[forms.held(one) for one in held]))

    async def fates(self, folders: Sequence[tuple[int, int, str]]) -> list[Fate]:
        """What became of attempts."""
        return forms.fates(await self._post("fates", folders=[list(folder) for folder in folders]))

    async def add_logs(self, lines: Sequence[LogLine]) -> None:
        """Keep log lines."""
        await self._post("logs", lines=[forms.log_line(one) for one in lines])

    async def add_steps(
        self, steps: Sequence[Step], ages_s: Sequence[float]
    ) -> dict[str, tuple[int, datetime]]:
        """Note commands that began."""
        rows = [forms.step(one, max(ago_s, 0.0)) for one, ago_s in zip(steps, ages_s, strict=True)]
        told = await self._post("steps", steps=rows)
        return {step_id: (row["id"], forms.moment(row["started_at"])) for step_id, row in told.items()}

    async def end_steps(self, ends: Sequence[StepEnd]) -> None:
        """Note how they ended."""
        await self._post("steps/end", ends=[forms.step_end(one) for one in ends])

    async def _report(
        self,
        call: str,
        reports: list[dict[str, object]],
        request_id: str | None,
        *,
        within_s: float = ANSWER_S,
        **more: object,
    ) -> list[Answer]:
        body = {"request_id": request_id or "-", "reports": reports, **more}
        try:
            told = await self._client.call("POST", f"{CALLS}/{call}", body, within_s=within_s)
        except AllRefused as refused:
            return forms.answers(refused.answers)
        return forms.answers(told["answers"])

    async def _post(self, call: str, within_s: float = ANSWER_S, **body: object) -> dict[str, Any]:
        told: dict[str, Any] = await self._client.call("POST", f"{CALLS}/{call}", body, within_s=within_s)
        return told
