"""A server that is killed while it fetches a file goes on where it was when it is there again."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from takeup.engine.videos.receiving import BLOCK_BYTES
from tests.hosting import Server, running
from tests.videos.making import sound
from tests.videos.origin import Origin, origin_of

WAV = sound(200.0)
LEASE_S = 2.0
HALF = 50.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    allowed = {"pull_http": "allowed", "pull_allowed_networks": "127.0.0.1/32", "pull_lease": LEASE_S}
    with running(Server(tmp_path, "--workers", "0", "--stages", "transcode/publish", **allowed)) as one:
        yield one


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    """It gives one half, and the other when it is told to."""
    async with origin_of(WAV) as one:
        one.may_go_on = asyncio.Event()
        yield one


@pytest.fixture
async def client(server: Server) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {"Authorization": f"Bearer {server.key()}"}
    async with httpx2.AsyncClient(base_url=server.address, headers=headers, trust_env=False) as one:
        yield one


async def test_killed_in_the_middle_it_goes_on(server: Server, origin: Origin, client: httpx2.AsyncClient):
    made = await client.post("/api/pulls", json={"url": origin.url, "title": "Fetched"})
    assert made.status_code == 201, made.text
    path = made.headers["location"]
    told = await until(client, path, lambda now: now["received_bytes"] >= len(WAV) // 2)
    assert (told["status"], told["length_bytes"]) == ("RUNNING", len(WAV))
    await asyncio.to_thread(server.kill)
    go_on(origin)
    await asyncio.to_thread(server.start)
    told = await until(client, path, lambda now: now["finished_at"] is not None)
    assert (told["status"], told["error"], told["failures"]) == ("DONE", None, 0)
    video = (await client.get(f"/api/videos/{told['video_id']}")).json()
    assert (video["sha256"], video["title"]) == (hashlib.sha256(WAV).hexdigest(), "Fetched")
    assert len((await client.get("/api/jobs")).json()["items"]) == 1
    begun, gone_on = origin.asked
    assert "range" not in begun
    place = int(gone_on["range"].removeprefix("bytes=").rstrip("-"))
    assert place > len(WAV) // 2 - BLOCK_BYTES, "only what was on its way to the disk comes again"
    assert server.files == [f"{video['id']}.source"]


async def test_its_progress_is_told_live(server: Server, origin: Origin, client: httpx2.AsyncClient):
    none = await client.get(f"/api/events?channel=pull:pul_{'0' * 24}")
    assert none.status_code == 404
    made = (await client.post("/api/pulls", json={"url": origin.url})).json()
    heard: list[dict[str, Any]] = []
    async with client.stream("GET", f"/api/events?channel=pull:{made['id']}", timeout=30) as events:
        async for line in events.aiter_lines():
            if line.startswith("data: "):
                heard.append(json.loads(line.removeprefix("data: ")))
                if (heard[-1]["percent"] or 0) >= HALF:
                    go_on(origin)
                if heard[-1]["status"] == "DONE":
                    break
    assert heard[-1]["video"] == made["video_id"]
    told = [one["percent"] for one in heard if one["percent"] is not None]
    assert told == sorted(told)
    assert told[-1] == 100.0
    assert any(HALF <= percent < HALF + 1 for percent in told)
    assert {one["channel"] for one in heard} == {f"pull:{made['id']}"}


def go_on(origin: Origin) -> None:
    assert origin.may_go_on
    origin.may_go_on.set()


async def until(client: httpx2.AsyncClient, path: str, holds) -> dict[str, object]:
    """How a pull stands once this is true of it."""
    async with asyncio.timeout(60):
        while not holds(now := (await client.get(path)).json()):
            await asyncio.sleep(0.05)
    return now
