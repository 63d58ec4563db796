"""Live events over HTTP: jobs, videos and workers are followed as they change."""

import time
from collections.abc import Mapping

import httpx2
import pytest

from takeup.app import App
from takeup.core.model import Completion, Progress, WorkerSpec
from takeup.core.plan import NewJob
from takeup.engine import feed
from tests.api.listening_in import listening
from tests.api.test_jobs import create
from tests.store.scenes import FAN, claim_request, quarantine


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


class TestLooksOften:
    @pytest.fixture(autouse=True)
    def often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(feed, "WORKERS_S", 0.1)
        monkeypatch.setattr(feed, "STATE_S", 0.1)

    @pytest.fixture
    def more_settings(self) -> Mapping[str, object]:
        return {"sse_interval": 0.1}

    async def test_a_video_is_followed_by_its_newest_job(self, app: App, viewer: httpx2.AsyncClient):
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
            told = (await ears.until(lambda h: any(q["percent"] == 25 for q in h.data.get("qualities", ()))))[
                -1
            ]
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

    async def test_workers_are_followed(
        self, app: App, operator: httpx2.AsyncClient, viewer: httpx2.AsyncClient
    ):
        async with listening(viewer, "worker_status") as ears:
            await ears.hear()
            await app.store.worker.register(WorkerSpec("w", slots=2))
            born = (await ears.until(lambda heard: heard.data.get("event") == "register"))[-1]
            assert (born.data["id"], born.data["status"], born.data["activity"]) == ("w", "active", "idle")
            await create(operator)
            await app.store.worker.claim(claim_request("w"))
            busy = (await ears.until(lambda heard: heard.data.get("load") == 1))[-1]
            assert (busy.data["activity"], busy.data["slots"], busy.id) == ("busy", 2, None)
            evil = 'a\nid: 1\nevent: evil\ndata: {"x": 1}\n\n'
            await app.store.operator.disable(["w"], reason=evil)
            disabled = (await ears.until(lambda heard: heard.data.get("event") == "disable"))[-1]
            assert (disabled.data["reason"], disabled.data["disabled"]) == (evil, True), "s108"
            await quarantine(app.store)
            kept_away = (await ears.until(lambda heard: heard.data.get("event") == "quarantine"))[-1]
            assert (kept_away.data["id"], kept_away.data["quarantined"]) == ("broken", True)
            assert kept_away.data["reason"].startswith("it failed 1 tasks")
            await app.store.worker.leave(["w"])
            gone = (await ears.until(lambda heard: heard.data.get("event") == "leave"))[-1]
            assert (gone.data["status"], gone.data["activity"]) == ("offline", "offline")
