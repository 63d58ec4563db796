"""A claim on PostgreSQL goes on where the last one ended, and yet nothing is overlooked for long."""

from dataclasses import replace

import asyncpg
import pytest

from takeup.core.model import Completion
from takeup.core.plan import NewJob
from takeup.store.bookmarks import FRESH_S, Bookmarks
from takeup.store.drivers.postgres import SETTINGS
from takeup.store.ops import claim
from takeup.store.store import Store
from takeup.testing.clocks import ManualClock
from tests.store.explain import buffers_of, plans_of
from tests.store.scenes import FAN, ONE, add_worker, claim_request

SEGMENTS = 10_000
FEW = 50
BEFORE = """
SET session_replication_role = replica;
ALTER TABLE tasks SET (autovacuum_enabled = off);
UPDATE tasks SET status = 'SKIPPED', finished_at = now() WHERE stage = 'encode' AND segment < 9000;
"""
"""The first tasks of the lane have left it a moment ago, by a short cut."""


@pytest.fixture
async def store(postgres_url):
    store = await Store.open(postgres_url)
    yield store
    await store.close()


@pytest.fixture
def moments() -> ManualClock:
    return ManualClock()


@pytest.fixture
def bookmarks(moments: ManualClock) -> Bookmarks:
    return Bookmarks(lambda: moments.now().timestamp())


async def take(store: Store, bookmarks: Bookmarks, limit: int = 1) -> list[str]:
    """The jobs of the tasks that a worker with these bookmarks gets."""
    leases = await store.driver.run(claim.claim, claim_request("w", limit), bookmarks)
    return [lease.job_id for lease in leases]


async def test_what_left_a_lane_is_not_stepped_over_again(store: Store, bookmarks: Bookmarks, postgres_url):
    await add_worker(store, "w", slots=1000)
    (job_id,) = await store.operator.submit([NewJob(FAN)])
    (cut,) = await store.worker.claim(claim_request("w"))
    await store.worker.complete("w", [Completion(cut.held, {"segments": SEGMENTS})])
    await store.orchestrator.advance([job_id])
    connection = await asyncpg.connect(postgres_url, server_settings=SETTINGS)
    try:
        await connection.execute(BEFORE)
        assert len(await take(store, bookmarks, FEW)) == FEW
        pages = {}
        for name, marks in ("on", bookmarks), ("all over", Bookmarks()):
            request = claim_request("w")
            plans = await plans_of(connection, lambda r=request, m=marks: claim.claim(r, m))
            pages[name] = buffers_of(plans["claim_tasks"], "tasks_ready")
    finally:
        await connection.close()
    assert pages["on"] < pages["all over"] / 4, pages


async def test_what_comes_before_a_bookmark_waits_a_moment_at_most(
    store: Store, bookmarks: Bookmarks, moments: ManualClock
):
    await add_worker(store, "w", slots=100)
    usual = await store.operator.submit([NewJob(ONE) for _ in range(4)])
    assert await take(store, bookmarks) == usual[:1]
    urgent = await store.operator.submit([NewJob(ONE, priority=10) for _ in range(2)])
    assert await take(store, bookmarks) == usual[1:2]
    moments.advance(FRESH_S)
    assert await take(store, bookmarks) == urgent[:1]
    assert await take(store, bookmarks, 9) == [urgent[1], *usual[2:]], "from where the last look ended"


async def test_when_nothing_is_left_after_the_bookmarks_the_rest_is_found_at_once(
    store: Store, bookmarks: Bookmarks
):
    await add_worker(store, "w", slots=100)
    usual = await store.operator.submit([NewJob(ONE) for _ in range(3)])
    assert await take(store, bookmarks) == usual[:1]
    urgent = await store.operator.submit([NewJob(ONE, priority=10)])
    assert await take(store, bookmarks, 9) == usual[1:]
    assert await take(store, bookmarks, 9) == urgent, "less than wanted was found, so everything is looked at"
    urgent = await store.operator.submit([NewJob(ONE, priority=10)])
    assert await take(store, bookmarks) == urgent, "nothing was found, so everything is looked at"


async def test_a_request_repeated_with_bookmarks_is_answered_with_its_leases(
    store: Store, bookmarks: Bookmarks
):
    await add_worker(store, "w", slots=100)
    await store.operator.submit([NewJob(ONE) for _ in range(3)])
    asked = claim_request("w", 2)
    leases = await store.driver.run(claim.claim, asked, bookmarks)
    assert len(leases) == 2
    assert await store.driver.run(claim.claim, asked, bookmarks) == leases
    assert len(await take(store, bookmarks, 9)) == 1


async def test_an_urgent_task_is_found_though_another_lane_is_never_without_one(
    store: Store, bookmarks: Bookmarks, moments: ManualClock
):
    await add_worker(store, "w", slots=100)
    await store.operator.submit([NewJob(pipeline) for pipeline in (ONE, FAN) for _ in range(4)])
    await take(store, bookmarks, 2)
    (urgent,) = await store.operator.submit([NewJob(FAN, priority=9)])
    got = []
    for _ in range(3):
        await store.operator.submit([NewJob(ONE, priority=10) for _ in range(2)])
        moments.advance(FRESH_S)
        got += [job for _ in range(4) for job in await take(store, bookmarks)]
    assert urgent in got


@pytest.mark.parametrize("may_skim", [True, False])
async def test_only_who_may_skim_is_answered_from_bookmarks(store: Store, may_skim, monkeypatch):
    monkeypatch.setattr("takeup.store.bookmarks.FRESH_S", 600.0)
    await add_worker(store, "w", slots=100)
    await add_worker(store, "other", slots=100)
    usual = await store.operator.submit([NewJob(ONE) for _ in range(3)])

    async def ask(worker_id: str) -> str:
        request = replace(claim_request(worker_id), may_skim=may_skim)
        (lease,) = await store.worker.claim(request)
        return lease.job_id

    first = await ask("w")
    urgent = await store.operator.submit([NewJob(ONE, priority=10) for _ in range(2)])
    assert [first, await ask("w")] == [usual[0], usual[1] if may_skim else urgent[0]]
    assert await ask("other") in urgent, "the bookmarks of one worker are not those of another"
