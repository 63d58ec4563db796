"""A key that ends while its call is under way: what it asked for is not given any more."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from takeup.api import access
from takeup.app import App
from takeup.core.keys import parse_key
from takeup.core.model import Lease
from takeup.core.remote import LENGTH_HEADER, TOKEN_HEADER
from tests.api.afar import Hire, hire, submit
from tests.api.conftest import Client
from tests.api.test_jobs import refused
from tests.api.test_uploads import PART, WAV, begin
from tests.api.test_videos import RAW, files

__all__ = ["hire"]
HALF = len(WAV) // 2


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/takeup.db"


async def revoke(app: App, http: httpx2.AsyncClient, path: str = "/api/jobs") -> None:
    """End the key of this client, and wait until the server knows."""
    key = parse_key(bare(http))
    assert key
    assert await app.store.keys.revoke(key.id)
    async with asyncio.timeout(5):
        while (await http.get(path)).status_code != 401:
            await asyncio.sleep(0.02)


async def halves(between: Callable[[], Awaitable[object]]) -> AsyncIterator[bytes]:
    """A file of which the first half comes before something happens."""
    yield WAV[:HALF]
    await between()
    yield WAV[HALF:]


async def test_s6_who_waits_for_work_gets_none(
    app: App, hire: Hire, client: Client, monkeypatch: pytest.MonkeyPatch
):
    afar, has_looked, claim = await hire("a"), asyncio.Event(), app.store.worker.claim

    async def noted(*arguments: Any, **options: Any) -> list[Lease]:
        found = await claim(*arguments, **options)
        has_looked.set()
        return found

    monkeypatch.setattr(app.store.worker, "claim", noted)
    body = {"request_id": "r", "secret": "0" * 32, "wait": 20}
    waiting = asyncio.create_task(client(afar.key, timeout=30).post("/api/worker/claim", json=body))
    await asyncio.wait_for(has_looked.wait(), 5)
    await revoke(app, client(afar.key), "/api/worker/me")
    (job_id,) = await submit(app)
    app.bell.ring("work")
    refused(await asyncio.wait_for(waiting, 10), 401, "unauthenticated")
    (task,) = await app.store.read.tasks(job_id)
    assert task.status == "READY", "it is there for others"


async def test_s6_a_file_that_is_being_sent_becomes_no_video(
    app: App, operator: httpx2.AsyncClient, client: Client
):
    assert (await operator.get("/api/videos")).status_code == 200  # so that it is known when it begins
    sent = halves(lambda: revoke(app, client(bare(operator))))
    refused(await operator.post("/api/videos", content=sent, headers=RAW), 401, "unauthenticated")
    assert await app.store.videos.page() == []
    assert files(app) == []


async def test_s6_nor_does_a_last_part(app: App, operator: httpx2.AsyncClient, client: Client):
    """Nor later, when it is looked for files whose end nobody has seen: its end is not kept."""
    path = await begin(operator)
    sent = halves(lambda: revoke(app, client(bare(operator))))
    answer = await operator.patch(path, content=sent, headers={**PART, "Upload-Offset": "0"})
    refused(answer, 401, "unauthenticated")
    (upload,) = await app.store.uploads.page()
    assert app.intake.size(upload) == HALF
    assert await app.intake.adopt(upload) is None
    assert await app.store.videos.page() == []


async def test_s6_an_output_is_not_taken_to_its_end(app: App, hire: Hire, client: Client):
    await submit(app)
    afar = await hire("a")
    lease = await afar.one()
    place = f"/api/worker/tasks/{lease.task_id}/outputs"
    token = {TOKEN_HEADER: f"{lease.token.epoch}.{lease.token.nonce}"}
    sent = halves(lambda: revoke(app, client(afar.key), "/api/worker/me"))
    told = {**token, LENGTH_HEADER: str(len(WAV)), **RAW}
    answer = await client(afar.key).put(f"{place}/a.bin", content=sent, headers=told)
    refused(answer, 401, "unauthenticated")
    assert sorted(path.stat().st_size for path in app.settings.storage.rglob("a.bin")) in ([], [HALF])


async def test_s6_while_a_file_comes_it_is_asked_now_and_then(
    app: App, operator: httpx2.AsyncClient, client: Client, monkeypatch: pytest.MonkeyPatch
):
    """Whoever sends without an end is not taken from without an end."""
    monkeypatch.setattr(access, "CHECK_S", 0.0)

    async def endless() -> AsyncIterator[bytes]:
        yield WAV
        await revoke(app, client(bare(operator)))
        async with asyncio.timeout(10):
            while True:
                yield bytes(1000)
                await asyncio.sleep(0)

    with suppress(httpx2.TransportError):  # he may be sending still when his connection is closed
        refused(await operator.post("/api/videos", content=endless(), headers=RAW), 401, "unauthenticated")
    assert files(app) == []


def bare(http: httpx2.AsyncClient) -> str:
    return str(http.headers["authorization"]).removeprefix("Bearer ")
