"""Several processes send and look for alerts at the same time: a delivery is one's, an alert is told once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from takeup.core.model import WorkerSpec
from takeup.core.webhooks import Outcome
from takeup.store.store import Store
from tests.conftest import GetPostgres
from tests.services import database_from_template
from tests.store.scenes import Clock, upgrade_schema

COUNT = 24


@pytest.fixture(params=["sqlite", "postgres15"])
async def company(
    request: pytest.FixtureRequest, tmp_path: Path, get_postgres: GetPostgres, clock: Clock
) -> AsyncIterator[list[Store]]:
    """Four of them on one database."""
    if request.param == "postgres15":
        async with database_from_template(get_postgres(request.param), upgrade_schema) as url:
            stores = [await Store.open(url, clock=clock) for _ in range(4)]
            yield stores
            await asyncio.gather(*(store.close() for store in stores))
        return
    url = f"sqlite:///{tmp_path}/takeup.file"
    await upgrade_schema(url)
    stores = [await Store.open(url, clock=clock) for _ in range(4)]
    yield stores
    await asyncio.gather(*(store.close() for store in stores))


async def test_each_alert_is_told_once_and_each_delivery_taken_once(company: list[Store]):
    first = company[0]
    webhook = await first.webhooks.add("https://a.example/", (), form="standard", secret=None)
    await first.courier.watch()  # the cursor is made
    for number in range(COUNT):
        await first.worker.register(WorkerSpec(f"w{number}"))
    answers = await asyncio.gather(*(store.courier.watch(limit=500, limit_s=0.0) for store in company * 2))
    told = Counter(news.id for _, found in answers for news in found)
    assert (len(told), set(told.values())) == (COUNT, {1})

    taken: Counter[int] = Counter()

    async def work(store: Store) -> None:
        for _ in range(COUNT):
            for one in await store.courier.take(limit=3, each=8, lease_s=60):
                taken[one.id] += 1
                await store.courier.end(one, Outcome("SENT", http_status=200))

    await asyncio.gather(*map(work, company))
    assert (len(taken), set(taken.values())) == (COUNT, {1})
    assert {one.status for one in await first.webhooks.deliveries(webhook.id)} == {"SENT"}
