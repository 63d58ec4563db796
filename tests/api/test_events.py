"""Live events over HTTP: of jobs, videos and workers, to those who may hear them, as long as they may."""

import asyncio
import time
from collections.abc import Mapping

import httpx2
import pytest

from takeup.api import sse
from takeup.api.build import build_api
from takeup.api.listening import listen, serve
from takeup.app import App
from takeup.core.model import Completion, Progress, WorkerSpec
from takeup.core.plan import NewJob
from tests.api.conftest import Client, flow, key_of
from tests.api.listening_in import Heard, listening
from tests.api.test_jobs import create, refused
from tests.store.scenes import FAN, claim_request


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "CHECK_S", 0.1)


async def test_a_job_is_followed_to_its_end(
    app: App, operator: httpx2.AsyncClient, viewer: httpx2.AsyncClient
):
    job_id = await create(operator, subject="film")
    await app.store.worker.register(WorkerSpec("w"))
    async with listening(viewer, f"job:{job_id}") as ears:
        first = (await ears.until(lambda heard: heard.kind == "job"))[-1]
        assert ears.retry == "3000"
        assert first.id is None
        assert (first.data["event"], first.data["status"], first.data["percent"]) == ("state", "pending", 0)
        assert first.data["channel"] == f"job:{job_id}"
        (lease,) = await app.store.worker.claim(claim_request("w"))
        entered = (await ears.until(lambda heard: heard.data.get("event") == "enter_processing"))[-1]
        assert (entered.data["status"], bool(entered.id)) == ("processing", True)
        await app.store.worker.renew("w", [Progress(lease.held, 40.0)])
        written_at = time.monotonic()
        half = (await ears.until(lambda heard: heard.data.get("percent") == 40))[-1]
        assert time.monotonic() - written_at < 1
        assert half.data["stages"] == [
            {
                "stage": "only",
                "phase": "processing",
                "total": 1,
                "done": 0,
                "running": 1,
                "failed": 0,
                "percent": 40,
            }
        ]
        await app.store.worker.complete("w", [Completion(lease.held)])
        end = (await ears.until(lambda heard: heard.data.get("event") == "complete"))[-1]
        assert (end.data["status"], end.data["percent"], end.data["error"]) == ("completed", 100, None)
        place = end.id
    async with listening(viewer, f"job:{job_id}", last_id=place) as ears:
        again = await ears.until(lambda heard: heard.kind == "job")
        assert [heard.data["event"] for heard in again if heard.kind == "job"] == ["state"], (
            "nothing is told twice"
        )


async def test_a_video_is_followed_by_its_newest_job(app: App, viewer: httpx2.AsyncClient):
    await app.store.worker.register(WorkerSpec("w", slots=9))
    (job_id,) = await app.store.operator.submit([NewJob(FAN, subject="video:v1")])
    channels = ("transcode_progress:v1", "transcode_complete:v1")
    async with listening(viewer, *channels) as ears:
        (cut,) = await app.store.worker.claim(claim_request("w"))
        rungs = {"encode": [["720p"]]}
        await app.store.worker.complete("w", [Completion(cut.held, {"segments": 2, "rungs": rungs})])
        await app.store.orchestrator.advance([job_id])
        leases = await app.store.worker.claim(claim_request("w", 2))
        await app.store.worker.renew("w", [Progress(leases[0].held, 50.0)])
        told = (await ears.until(lambda h: any(q["percent"] == 25 for q in h.data.get("qualities", ()))))[-1]
        assert told.kind == "transcode_progress"
        assert (told.data["video"], told.data["job"], told.data["status"]) == ("v1", job_id, "processing")
        await app.store.operator.cancel([job_id], reason="enough")
        end = (await ears.until(lambda heard: heard.kind == "transcode_complete"))[-1]
        assert (end.data["status"], end.data["job_status"], bool(end.id)) == ("failed", "cancelled", True)
        (again,) = await app.store.operator.retry([job_id])
        fresh = (await ears.until(lambda heard: heard.data.get("job") == again))[-1]
        assert (fresh.kind, fresh.data["status"]) == ("transcode_progress", "pending")
        await app.store.operator.cancel([again])
        end = (await ears.until(lambda heard: heard.kind == "transcode_complete"))[-1]
        assert (end.data["job"], end.data["generation"]) == (again, 2)
    async with listening(viewer, channels[1]) as ears:
        late = (await ears.until(lambda heard: heard.kind == "transcode_complete"))[-1]
        assert late.data["event"] == "state", "whoever comes late still hears how it ended"


async def test_workers_are_followed(app: App, operator: httpx2.AsyncClient, viewer: httpx2.AsyncClient):
    async with listening(viewer, "worker_status") as ears:
        await ears.hear()
        await app.store.worker.register(WorkerSpec("w", slots=2))
        born = (await ears.until(lambda heard: heard.kind == "worker_status"))[-1]
        assert (born.data["id"], born.data["event"], born.data["activity"]) == ("w", "register", "idle")
        await create(operator)
        await app.store.worker.claim(claim_request("w"))
        busy = (await ears.until(lambda heard: heard.data.get("load") == 1))[-1]
        assert (busy.data["activity"], busy.data["slots"], busy.id) == ("busy", 2, None)
        evil = 'a\nid: 1\nevent: evil\ndata: {"x": 1}\n\n'
        await app.store.operator.disable(["w"], reason=evil)
        disabled = (await ears.until(lambda heard: heard.data.get("event") == "disable"))[-1]
        assert (disabled.data["reason"], disabled.data["disabled"]) == (evil, True), "s108"
        await app.store.worker.leave(["w"])
        gone = (await ears.until(lambda heard: heard.data.get("event") == "leave"))[-1]
        assert (gone.data["status"], gone.data["activity"]) == ("offline", "offline")


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
