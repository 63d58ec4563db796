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
    await asyncio.sleep(0.3)
    await add_worker(store, "w")
    for _ in range(2):  # the first has to make its lane before
        (job_id,) = await store.operator.submit([NewJob(ONE)], hint="work somebody")
        assert await asyncio.wait_for(heard.get(), 5) == ("work", "somebody")
        (lease,) = await store.worker.claim(claim_request("w"))
        assert lease.job_id == job_id
        while not heard.empty():
            heard.get_nowait()
    await store.operator.submit([NewJob(ONE)])
    await asyncio.sleep(0.1)
    assert heard.empty(), "nothing is told that was not asked for"
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
