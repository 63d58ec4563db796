"""Live events against those who try them, and for as long as they may be heard."""

import asyncio
import socket
import time
from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest

from takeup.api import protocol, sse
from takeup.api.build import build_api
from takeup.api.listening import listen, serve
from takeup.app import App
from takeup.core.model import WorkerSpec
from tests.api.conftest import Client, flow, key_of
from tests.api.listening_in import Heard, listening
from tests.api.test_jobs import refused


@pytest.fixture
def url(tmp_path: Path) -> str:
    """One database is enough for what does not depend on it."""
    return f"sqlite:///{tmp_path}/takeup.db"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "CHECK_S", 0.1)


async def test_s105_s106_who_may_listen(app: App, client: Client, viewer: httpx2.AsyncClient):
    path = "/api/events?channel=worker_status"
    refused(await client().get(path), 401, "unauthenticated")
    reader = await app.store.keys.add("reader", frozenset({"read"}))
    refused(await client(reader.text).get(path), 403, "scope")
    refused(await client().get(f"{path}&token={reader.text}"), 400, "key_in_url")
    refused(await viewer.get("/api/events"), 422, "invalid_input")
    refused(await viewer.get(f"{path}&last=1"), 422, "invalid_input")
    for name in ("job", "jobs:1", "worker_status:1", "", "x" * 300):
        refused(await viewer.get("/api/events", params={"channel": name}), 422, "invalid_input")
    for name in ("job:job_nobody", "transcode_progress:nobody", "transcode_complete:nobody"):
        refused(await viewer.get("/api/events", params={"channel": name}), 404, "not_found")
    many = "&".join("channel=worker_status" for _ in range(33))
    refused(await viewer.get(f"/api/events?{many}"), 422, "invalid_input")
    only = await app.store.keys.add("follower", frozenset({"events"}))
    async with listening(client(only.text), "worker_status") as ears:
        assert await ears.hear()


@pytest.mark.parametrize("way", ["revoke", "expire"])
async def test_s107_a_key_that_ended_hears_nothing_more(app: App, client: Client, way: str):
    key = await app.store.keys.add("mine", frozenset({"events"}))
    async with listening(client(key.text), "worker_status") as ears:
        await ears.hear()
        if way == "revoke":
            await app.store.keys.revoke(key.id)
        else:
            await app.store.keys.expire(key.id, after_s=0.1)
        ended_at = time.monotonic()
        end = (await ears.until(lambda heard: heard.kind == "end"))[-1]
        assert end.data == {"reason": "refused"}
        assert await ears.hear() is None
        assert time.monotonic() - ended_at < 5


@pytest.mark.parametrize("last_id", ["nonsense", "999999999", "5~"])
async def test_who_cannot_go_on_is_told_to_begin_anew(app: App, viewer: httpx2.AsyncClient, last_id: str):
    await app.store.worker.register(WorkerSpec("w"))
    async with listening(viewer, "worker_status", last_id=last_id) as ears:
        told = [await ears.hear(), await ears.hear()]
        assert [heard.kind for heard in told if heard] == ["reset", "worker_status"]
        assert told[0]
        assert told[0].data == {"channel": None, "reason": "unknown position"}
        place = told[0].id
    async with listening(viewer, "worker_status", last_id=place) as ears:
        after = await ears.until(lambda heard: heard.kind == "worker_status")
        assert "reset" not in [heard.kind for heard in after], "from there he can go on"


async def test_a_server_that_stops_ends_its_streams(app: App, client: Client):
    stop, opened = asyncio.Event(), listen("127.0.0.1", 0)
    running = asyncio.create_task(serve(build_api(app, {"flow": flow}), opened, stop))
    key = await key_of(app, "viewer")
    address = f"http://127.0.0.1:{opened.getsockname()[1]}"
    async with (
        httpx2.AsyncClient(
            base_url=address, headers={"Authorization": f"Bearer {key}"}, trust_env=False
        ) as own,
        listening(own, "worker_status") as ears,
    ):
        await ears.hear()
        started_at = time.monotonic()
        stop.set()
        end = (await ears.until(lambda heard: heard.kind == "end"))[-1]
        assert end.data == {"reason": "shutdown"}
        assert await ears.hear() is None
    await running
    opened.close()
    assert time.monotonic() - started_at < 3


class TestHeartbeats:
    @pytest.fixture
    def more_settings(self) -> Mapping[str, object]:
        return {"sse_heartbeat_interval": 0.1, "sse_reconnect_timeout": 1.5}

    async def test_silence_is_not_death(self, viewer: httpx2.AsyncClient):
        async with listening(viewer, "worker_status") as ears:
            heard = [await ears.hear() for _ in range(5)]
        assert ears.retry == "1500"
        assert [one.kind for one in heard if one] == ["id", ":", "id", ":", "id"]


class TestFewPlaces:
    @pytest.fixture
    def more_settings(self) -> Mapping[str, object]:
        return {"sse_clients_max": 2}

    async def test_s109_there_are_only_so_many_places(
        self, app: App, client: Client, viewer: httpx2.AsyncClient
    ):
        path = "/api/events?channel=worker_status"
        others = [client(await key_of(app, "viewer")) for _ in range(2)]
        async with listening(others[0], "worker_status") as first:
            await first.hear()
            async with listening(others[1], "worker_status") as second:
                await second.hear()
                answer = await viewer.get(path)
                refused(answer, 503, "too_many_listeners")
                assert int(answer.headers["retry-after"]) > 0
                refused(await viewer.get("/api/events?channel=job:no"), 503, "too_many_listeners")
            end = time.monotonic() + 5
            while time.monotonic() < end:
                try:
                    async with listening(viewer, "worker_status") as third:
                        assert isinstance(await third.hear(), Heard)
                        break
                except AssertionError:
                    await asyncio.sleep(0.05)
            else:
                pytest.fail("the place of one who left is not free")


async def test_s109_a_client_that_reads_nothing_keeps_nothing(app: App, monkeypatch: pytest.MonkeyPatch):
    """Not its place, not its memory, not its connection."""
    for module, name, value in (
        (sse, "SEND_S_MAX", 0.3),
        (protocol, "LOOK_S", 0.05),
        (protocol, "STALLED_S_MAX", 0.2),
    ):
        monkeypatch.setattr(module, name, value)
    await app.store.worker.register(WorkerSpec("w"))
    key = await key_of(app, "viewer")
    stop, opened = asyncio.Event(), listen("127.0.0.1", 0)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    api = build_api(app, {"flow": flow})
    running = asyncio.create_task(serve(api, opened, stop))
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(opened.getsockname())
    head = f"GET /api/events?channel=worker_status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
    deaf.sendall(head.encode())
    feed = api.state.feed
    async with asyncio.timeout(20):
        while not feed._listeners:
            await asyncio.sleep(0.01)
        while feed._listeners:
            for _ in range(5):
                await app.store.operator.disable(["w"], reason="x" * 1900)
                await app.store.operator.enable(["w"], reason="x" * 1900)
            await asyncio.sleep(0.05)
    stopped_at = time.monotonic()
    stop.set()
    await running
    assert time.monotonic() - stopped_at < 3, "nobody waits for what it never reads"
    deaf.close()
    opened.close()
