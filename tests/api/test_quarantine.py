"""A worker elsewhere that fails what others finish: what it is told, who sees it, and how it is let back."""

import secrets
from collections.abc import Mapping
from typing import get_args

import httpx2
import pytest

from takeup.app import App
from takeup.core.budget import Excuse
from takeup.core.model import Completion, Failure
from takeup.testing.clocks import ManualClock
from tests.api.afar import Afar, Hire, hire, submit
from tests.api.test_edge import refused

__all__ = ["hire"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def more_settings() -> Mapping[str, object]:
    return {"worker_error_budget": 2}


async def spend(
    app: App,
    clock: ManualClock,
    bad: Afar,
    good: Afar,
    count: int = 2,
    *,
    error: str = "no device",
    excuse: Excuse | None = None,
) -> None:
    """Tasks that one fails and the other finishes; then recovery looks."""
    for _ in range(count):
        await submit(app)
        lease = await bad.one()
        await bad.source.fail(bad.id, [Failure(lease.held, error, after_s=0.0, excuse=excuse)])
        clock.advance(1)
        await app.store.recovery.wake()
        lease = await good.one()
        await good.source.complete(good.id, [Completion(lease.held, {})])
    await app.recovery().run_once()


async def ask(client: httpx2.AsyncClient) -> dict:
    """A claim by hand."""
    body = {"request_id": secrets.token_hex(8), "secret": secrets.token_hex(16), "limit": 1}
    told = await client.post("/api/worker/claim", json=body)
    assert told.status_code == 200
    return told.json()


async def test_it_gets_nothing_and_is_told_why(app: App, hire: Hire, client, clock: ManualClock):
    bad, good = await hire("bad"), await hire("good")
    await submit(app)
    held = await bad.one()
    await spend(app, clock, bad, good)
    await submit(app)
    told = await ask(client(bad.key))
    assert (told["leases"], told["jobs"]) == ([], {})
    assert told["reason"].startswith(
        "quarantined: it failed 2 tasks within 3600 s that other workers finished"
    )
    assert await bad.source.heartbeat([bad.id]) == {bad.id: "quarantined"}
    (done,) = await bad.source.complete(bad.id, [Completion(held.held, {})])
    assert done.accepted, "it finishes what it has"
    assert (await ask(client(good.key)))["reason"] is None
    assert (await ask(client(good.key)))["reason"] is None, "there is nothing, but for no fault of its own"


async def test_a_restart_does_not_let_it_back_but_an_operator_does(
    app: App, hire: Hire, client, admin, viewer, clock: ManualClock
):
    bad, good = await hire("bad"), await hire("good")
    await spend(app, clock, bad, good)
    (job_id,) = await submit(app)
    start = {"protocol": 1, "version": "0", "slots": 1, "stages": ["*"]}
    start["protocol"] = (await client(bad.key).get("/api/worker/me")).json()["protocol"]
    begun = (await client(bad.key).post("/api/worker/start", json=start)).json()
    assert begun == {"status": "quarantined"}, "as its heartbeats say it"
    assert await bad.claim() == []
    (row,) = [one for one in (await viewer.get("/api/workers")).json()["items"] if one["id"] == bad.id]
    assert (row["status"], row["disabled"]) == ("active", False)
    assert row["quarantined_at"] is not None
    assert row["quarantine_reason"].startswith("it failed 2 tasks")
    await good.source.leave([good.id])
    (why,) = (await viewer.get(f"/api/jobs/{job_id}/why")).json()
    assert f"{bad.id} is quarantined (`takeup workers enable ID` lets a worker back)" in why
    refused(await viewer.post(f"/api/workers/{bad.id}/enable", json={}), 403, "scope")
    back = (await admin.post(f"/api/workers/{bad.id}/enable", json={"reason": "new disk"})).json()
    assert (back["quarantined_at"], back["quarantine_reason"]) == (None, None)
    await bad.one()
    await app.recovery().run_once()
    assert (await app.store.read.worker(bad.id)).quarantined_at is None, "what was is forgiven"


@pytest.mark.parametrize("words", ["it asked to be tried again", "its outputs were not taken"])
async def test_no_error_talks_itself_out_of_it(app: App, hire: Hire, clock: ManualClock, words: str):
    bad, good = await hire("bad"), await hire("good")
    await spend(app, clock, bad, good, error=f"{words}: no device")
    assert (await app.store.read.worker(bad.id)).quarantined_at is not None


@pytest.mark.parametrize("excuse", get_args(Excuse))
async def test_what_is_excused_by_name_does_not_count(
    app: App, hire: Hire, clock: ManualClock, excuse: Excuse
):
    bad, good = await hire("bad"), await hire("good")
    await spend(app, clock, bad, good, excuse=excuse)
    assert (await app.store.read.worker(bad.id)).quarantined_at is None


class TestOff:
    """Without a budget nobody is judged."""

    @pytest.fixture
    def more_settings(self) -> Mapping[str, object]:
        return {"worker_error_budget": 0}

    async def test_nobody_is_quarantined(self, app: App, hire: Hire, clock: ManualClock):
        bad, good = await hire("bad"), await hire("good")
        await spend(app, clock, bad, good, 6)
        assert (await app.store.read.worker(bad.id)).quarantined_at is None
