"""Capabilities over HTTP: who cannot do a task never gets it, and who can leaves it a while to who should."""

import asyncio
import secrets

import pytest

from takeup import Pipeline
from takeup.app import App
from takeup.core.budget import ErrorBudget
from takeup.core.model import Completion, Failure, WorkerSpec
from takeup.core.plan import NewJob
from takeup.core.remote import STORAGE
from takeup.store.ops.claim import ClaimRequest
from takeup.testing.clocks import ManualClock
from tests.api.afar import Hire, hire

__all__ = ["hire"]
HEARTBEAT_S = 30.0
soft = Pipeline("soft")
hard = Pipeline("hard")
both = Pipeline("both")


@soft.stage(prefers="gpu")
def likes(ctx):
    return {}


@hard.stage(requires={"gpu"})
def needs(ctx):
    return {}


@both.stage(prefers="gpu", requires={"av1"})
def needs_and_likes(ctx):
    return {}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def submit(app: App, pipeline: Pipeline, count: int = 1) -> None:
    await app.submit([NewJob(pipeline)] * count)


async def test_it_is_left_for_two_heartbeats_and_no_longer(app: App, hire: Hire, clock: ManualClock):
    cpu, gpu = await hire("cpu"), await hire("gpu", "gpu")
    await submit(app, soft)
    for _ in range(2):
        assert await cpu.claim() == []
        clock.advance(HEARTBEAT_S - 0.001)
        await gpu.source.heartbeat([gpu.id])
    assert await cpu.claim() == []
    clock.advance(0.002)
    await gpu.source.heartbeat([gpu.id])
    await cpu.one()


class TestShort:
    """The wait follows the heartbeat."""

    @pytest.fixture
    def more_settings(self) -> dict[str, object]:
        return {"worker_heartbeat_interval": 5.0}

    async def test_quick_heartbeats_make_a_short_wait(self, app: App, hire: Hire, clock: ManualClock):
        cpu, gpu = await hire("cpu"), await hire("gpu", "gpu")
        await submit(app, soft)
        clock.advance(9.9)
        await gpu.source.heartbeat([gpu.id])
        assert await cpu.claim() == []
        clock.advance(0.1)
        await gpu.source.heartbeat([gpu.id])
        await cpu.one()


async def test_a_claim_that_waits_is_answered_when_the_wait_is_over(app: App, hire: Hire, clock: ManualClock):
    cpu, gpu = await hire("cpu", wait_s=60.0), await hire("gpu", "gpu")
    await submit(app, soft)
    waiting = asyncio.create_task(cpu.claim())
    await gpu.source.heartbeat([gpu.id])
    assert not waiting.done()
    clock.advance(2 * HEARTBEAT_S)
    assert len(await asyncio.wait_for(waiting, 30)) == 1


async def test_as_many_tasks_are_left_to_an_idle_gpu_worker_as_it_has_free_slots(app: App, hire: Hire):
    cpu, gpu = await hire("cpu"), await hire("gpu", "gpu", slots=2)
    await submit(app, soft, 3)
    assert len(await cpu.claim(limit=3)) == 1
    assert len(await gpu.claim(limit=3)) == 2


async def test_who_lacks_what_is_required_never_gets_it(app: App, hire: Hire, clock: ManualClock):
    cpu = await hire("cpu")
    await submit(app, hard)
    clock.advance(10 * HEARTBEAT_S)
    assert await cpu.claim() == []
    gpu = await hire("gpu", "gpu")
    await gpu.one()


async def test_nothing_is_left_to_those_that_take_nothing(app: App, hire: Hire, admin, clock: ManualClock):
    cpu, silent = await hire("cpu"), await hire("silent", "gpu")
    clock.advance(2 * HEARTBEAT_S)
    busy = await hire("busy", "gpu", slots=1)
    await submit(app, soft)
    await busy.one()
    for change in ("disable", "drain"):
        off = await hire(change, "gpu")
        assert (await admin.post(f"/api/workers/{off.id}/{change}", json={})).status_code == 200
    gone = await hire("gone", "gpu")
    await gone.source.leave([gone.id])
    await submit(app, soft)
    await cpu.one()
    await submit(app, soft)
    await silent.source.heartbeat([silent.id])
    assert await cpu.claim() == [], "it is there again"


async def test_nothing_is_left_to_one_that_lacks_something_else(app: App, hire: Hire):
    cpu, _ = await hire("cpu", "av1"), await hire("gpu", "gpu")
    await submit(app, both)
    await cpu.one()


async def test_nothing_is_left_to_a_quarantined_one_until_it_is_let_back(app: App, hire: Hire, admin, clock):
    cpu, gpu = await hire("cpu"), await hire("gpu", "gpu")
    await submit(app, soft)
    lease = await gpu.one()
    await gpu.source.fail(gpu.id, [Failure(lease.held, "no device", after_s=0.0)])
    clock.advance(1)
    await app.store.recovery.wake()
    clock.advance(2 * HEARTBEAT_S)
    lease = await cpu.one()
    await cpu.source.complete(cpu.id, [Completion(lease.held, {})])
    await gpu.source.heartbeat([gpu.id])
    assert (await app.store.recovery.quarantine(ErrorBudget(1, 600))).quarantined == (gpu.id,)
    await submit(app, soft)
    await cpu.one()
    assert (await admin.post(f"/api/workers/{gpu.id}/enable", json={})).json()["quarantined_at"] is None
    await submit(app, soft)
    assert await cpu.claim() == []
    await gpu.one()


async def test_a_worker_of_the_database_defers_to_one_elsewhere(app: App, hire: Hire):
    gpu = await hire("gpu", "gpu")
    await app.store.worker.register(WorkerSpec("here", capabilities=frozenset({STORAGE})))
    await submit(app, soft)
    wanted = ClaimRequest("here", secrets.token_hex(8), secrets.token_hex(16), defer_s=app.settings.defer_s)
    assert await app.store.worker.claim(wanted) == []
    await gpu.one()
