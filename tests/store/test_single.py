"""What PostgreSQL does at once for a job that comes alone: submitted, told of and claimed with its spec."""

import asyncio

import pytest

from takeup.core.plan import NewJob
from takeup.store.store import Store
from tests.store.scenes import ONE, add_worker, claim_request


@pytest.fixture
async def store(postgres_url):
    store = await Store.open(postgres_url)
    yield store
    await store.close()


async def test_a_hint_is_heard_when_its_job_can_be_claimed(store: Store):
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    listening = asyncio.create_task(store.driver.listen(lambda *words: heard.put_nowait(words)))
    await add_worker(store, "w")
    while heard.empty():
        await store.driver.notify("listen", "now")
        await asyncio.sleep(0.01)
    for number in range(2):  # the first has to make its lane before
        (job_id,) = await store.operator.submit([NewJob(ONE)], hint=f"work {number}")
        (lease,) = await store.worker.claim(claim_request("w"))
        assert lease.job_id == job_id
    await store.operator.submit([NewJob(ONE)])
    await store.driver.notify("work", "the last")
    told: list[str] = []
    async with asyncio.timeout(5):
        while "the last" not in told:
            topic, text = await heard.get()
            told += [text] if topic == "work" else []
    assert told == ["0", "1", "the last"], "once each, and only what was asked for"
    listening.cancel()


async def test_a_claim_of_one_brings_the_brief_of_its_job_and_so_does_its_repetition(store: Store):
    await add_worker(store, "w", slots=3)
    (job_id,) = await store.operator.submit([NewJob(ONE, {"a": [1]}, subject="s")])
    asked = claim_request("w")
    (lease,) = await store.worker.claim(asked)
    assert lease.brief == (await store.worker.briefs([job_id]))[job_id]
    assert await store.worker.claim(asked) == [lease]
    await store.operator.submit([NewJob(ONE), NewJob(ONE)])
    many = claim_request("w", limit=2)
    leases = await store.worker.claim(many)
    assert [lease.brief for lease in leases] == [None, None], "a spec is not sent once for every task"
    assert await store.worker.claim(many) == leases
