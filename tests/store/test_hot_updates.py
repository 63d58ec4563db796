"""Renewals are the most frequent write: on PostgreSQL they must not touch any index."""

import asyncio

import asyncpg

from takeup.core.model import Lease, Progress
from takeup.core.plan import NewJob
from takeup.store.store import Store
from tests.store.scenes import ONE, add_worker, claim_request

RUNNING = 100
ROUNDS = 20
BATCH = 20
TRIES = 5
ENOUGH = 0.95

COUNTS = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'tasks'"


async def counted(connection: asyncpg.Connection, at_least: int) -> tuple[int, int]:
    """Updates so far, and how many of them were heap-only; the counters arrive a little late."""
    async with asyncio.timeout(30):
        while True:
            updates, hot = await connection.fetchrow(COUNTS)
            if updates >= at_least:
                return updates, hot
            await asyncio.sleep(0.05)


async def heap_only_share(url: str, connection: asyncpg.Connection, leases: list[Lease]) -> float:
    """Renew every lease a few times; answers with the share of heap-only updates."""
    before, hot_before = await counted(connection, RUNNING)
    store = await Store.open(url)
    for round_ in range(ROUNDS):
        for start in range(0, RUNNING, BATCH):
            part = leases[start : start + BATCH]
            reports = [Progress(lease.held, float(round_), f"step {round_}") for lease in part]
            answers = await store.worker.renew("w1", reports)
            assert all(answer.accepted for answer in answers)
    await store.close()  # a session that ends hands in its counters at once
    after, hot_after = await counted(connection, before + RUNNING * ROUNDS)
    assert after - before == RUNNING * ROUNDS
    return (hot_after - hot_before) / (after - before)


async def test_renewals_are_heap_only(postgres_url):
    store = await Store.open(postgres_url)
    await add_worker(store, slots=RUNNING)
    await store.operator.submit([NewJob(ONE) for _ in range(RUNNING)])
    leases = await store.worker.claim(claim_request("w1", RUNNING))
    assert len(leases) == RUNNING
    await store.close()
    connection = await asyncpg.connect(postgres_url)
    share = 0.0
    for _ in range(
        TRIES
    ):  # whoever looks at the table at this moment keeps old versions alive, and pages full
        share = max(share, await heap_only_share(postgres_url, connection, leases))
        if share >= ENOUGH:
            break
    await connection.close()
    assert share >= ENOUGH
