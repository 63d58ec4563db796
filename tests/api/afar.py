"""A worker elsewhere, as the tests of its calls have one."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from takeup.app import App
from takeup.core.model import (
    Lease,
    WorkerSpec,
)
from takeup.core.plan import NewJob
from takeup.engine.enrolment import enrol
from takeup.engine.remote.client import Client
from takeup.engine.remote.source import HttpSource
from takeup.store.ops.claim import ClaimRequest
from tests.api.conftest import flow


@dataclass
class Afar:
    """A worker elsewhere: its calls, and the client that makes them."""

    id: str
    key: str
    client: Client
    source: HttpSource

    async def one(self) -> Lease:
        """A claim that must get exactly one task."""
        (lease,) = await self.claim()
        return lease

    async def claim(self, request_id: str = "", secret: str = "", limit: int = 1) -> list[Lease]:
        request = ClaimRequest(
            self.id, request_id or secrets.token_hex(8), secret or secrets.token_hex(16), limit
        )
        return await self.source.claim(request)


Hire = Callable[..., Awaitable[Afar]]


@pytest.fixture
async def hire(app: App, address: str) -> AsyncIterator[Hire]:
    clients: list[Client] = []

    async def hire(name: str, *able: str, slots: int = 4, wait_s: float = 0.0) -> Afar:
        worker_id, key = await enrol(app.store, name)
        client = Client(address, key.text)
        clients.append(client)
        source = HttpSource(client, wait_s=wait_s)
        await source.register(WorkerSpec(worker_id, name, "remote", slots, frozenset(able)))
        return Afar(worker_id, key.text, client, source)

    yield hire
    for client in clients:
        await client.close()


async def submit(app: App, count: int = 1) -> list[str]:
    ids = await app.submit([NewJob(flow, {"n": n}) for n in range(count)])
    await app.store.orchestrator.advance(ids)
    return ids
