"""Where a worker gets its tasks and reports to: the store itself, or a server in front of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

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
from takeup.store.ops.claim import ClaimRequest


class Source(Protocol):
    """What a worker asks of the other side; `WorkerStore` is one, an HTTP client will be another."""

    async def register(self, spec: WorkerSpec) -> None: ...

    async def heartbeat(self, worker_ids: Sequence[str]) -> dict[str, str]: ...

    async def leave(self, worker_ids: Sequence[str]) -> list[str]: ...

    async def claim(self, request: ClaimRequest, *, takes_back: bool = True) -> list[Lease]: ...

    async def renew(
        self, worker_id: str, reports: Sequence[Progress], *, request_id: str | None = None
    ) -> list[Answer]: ...

    async def complete(
        self, worker_id: str, reports: Sequence[Completion], *, request_id: str | None = None
    ) -> list[Answer]: ...

    async def fail(
        self, worker_id: str, reports: Sequence[Failure], *, request_id: str | None = None
    ) -> list[Answer]: ...

    async def release(
        self, worker_id: str, held: Sequence[Held], *, reason: str = "released", request_id: str | None = None
    ) -> list[Answer]: ...

    async def briefs(self, job_ids: Sequence[str]) -> dict[str, Brief]: ...

    async def inputs(self, lease: Lease, needs: str, *, after: int = -2) -> InputPage: ...

    async def glance(self, worker_id: str, held: Sequence[Held]) -> Glance: ...

    async def fates(self, folders: Sequence[tuple[int, int, str]]) -> list[Fate]: ...

    async def add_logs(self, lines: Sequence[LogLine]) -> None: ...

    async def add_steps(
        self, steps: Sequence[Step], ages_s: Sequence[float]
    ) -> dict[str, tuple[int, datetime]]: ...

    async def end_steps(self, ends: Sequence[StepEnd]) -> None: ...
