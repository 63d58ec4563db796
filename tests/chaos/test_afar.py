"""Workers over a bad network on a server that is killed again and again: nothing lost, nothing twice."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from takeup.core.plan import NewJob
from takeup.engine.enrolment import enrol
from takeup.engine.remote.client import Client
from takeup.pipelines.loading import load
from takeup.store.store import Store
from takeup.testing.proxy import Chances, FaultProxy
from tests.chaos.elsewhere import FILE, FLOW, LEASE_S, Simulated, check_used, judge
from tests.conftest import GetPostgres
from tests.services import database_from_template
from tests.serving import RemoteWorker, Server, running
from tests.store.scenes import upgrade_schema

BAD = Chances(delay=0.2, cut=0.05, lose_request=0.03, lose_answer=0.07, replay=0.1, truncate=0.05)
GOOD = Chances()
WAIT_S = 240.0
LOOK_S = 0.1


@pytest.fixture(params=["sqlite", "postgres15"])
async def url(
    request: pytest.FixtureRequest, tmp_path: Path, get_postgres: GetPostgres
) -> AsyncIterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/takeup.db"
    else:
        async with database_from_template(get_postgres(request.param), upgrade_schema) as found:
            yield found


@dataclass(frozen=True)
class Storm:
    """So many kills of the server, while so many workers do so many jobs."""

    kills: int
    jobs: int
    files: int
    """Jobs of real workers, which fetch and send files."""
    workers: int
    seed: int
    chances: Chances = BAD

    async def rage(self, folder: Path, url: str) -> None:
        (folder / FILE).write_text(FLOW)
        flow, real, _ = load(str(folder / FILE))
        store = await Store.open(url, upgrade=True)
        await store.operator.submit([NewJob(flow, {"n": n}) for n in range(self.jobs)])
        ids = await store.operator.submit([NewJob(real, {"n": n}) for n in range(self.files)])
        hired = [await enrol(store, f"w{n}") for n in range(self.workers + 2)]
        server = Server(folder, url, "--pipelines", FILE)
        proxy = FaultProxy("127.0.0.1", server.port, self.chances, self.seed)
        address = await proxy.start()
        own = ("--pipelines", FILE, "--stages", "real/*", "--slots", 2)
        elsewhere = [
            RemoteWorker(folder, address, key.text, *own, name=f"real-{number}")
            for number, (_, key) in enumerate(hired[self.workers :])
        ]
        async with running(server, *elsewhere):
            fleet = await self._work(folder, address, hired[: self.workers], server, store)
        await proxy.close()
        print(proxy.counts, "refused:", sum(one.refused for one in fleet))
        assert self.chances is GOOD or min(proxy.counts.values()) > 0
        print(await judge(store, folder, url, fleet, [worker_id for worker_id, _ in hired[self.workers :]]))
        storage = folder / "takeup-data" / "artifacts"
        await check_used(store, storage, dict(zip(ids, range(self.files), strict=True)))
        await store.close()

    async def _work(self, folder: Path, address: str, hired: list, server: Server, store: Store):
        async with AsyncExitStack() as stack:
            fleet = []
            for number, (worker_id, key) in enumerate(hired):
                client = Client(address, key.text)
                stack.push_async_callback(client.close)
                fleet.append(Simulated(client, worker_id, folder, random.Random(self.seed + number)))
            working = [asyncio.create_task(one.run()) for one in fleet]
            try:
                await self._kill(server, fleet)
                async with asyncio.timeout(WAIT_S):
                    while await store.orchestrator.live_jobs(limit=1):
                        assert not any(task.done() for task in working), [t for t in working if t.done()]
                        await asyncio.sleep(LOOK_S)
            finally:
                for task in working:
                    task.cancel()
                ended = await asyncio.gather(*working, return_exceptions=True)
        assert [one for one in ended if not isinstance(one, asyncio.CancelledError)] == []
        return fleet

    async def _kill(self, server: Server, fleet: Sequence[Simulated]) -> None:
        """At any moment; but every other waits, so that nobody is without an answer for a whole lease."""
        luck, time = random.Random(self.seed), asyncio.get_running_loop().time
        for number in range(self.kills):
            if number % 2 == 0:
                begun_at = time()
                while min(one.answered_at for one in fleet) < begun_at:
                    assert time() - begun_at < LEASE_S / 3, "the server is up, and somebody is not answered"
                    await asyncio.sleep(LOOK_S)
            await asyncio.sleep(luck.uniform(0, 1.5))
            away_s = await server.come_back()
            assert away_s < LEASE_S / 3, "this machine is too slow for this lease"


async def test_killed_and_disturbed_nothing_is_lost_or_done_twice(tmp_path: Path, url: str):
    await Storm(kills=2, jobs=60, files=3, workers=8, seed=1).rage(tmp_path, url)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("chances", [GOOD, BAD], ids=["good network", "bad network"])
async def test_killed_twenty_times_under_fifty_workers(tmp_path: Path, url: str, chances: Chances):
    storm = Storm(kills=20, jobs=2000, files=40, workers=50, seed=2, chances=chances)
    await storm.rage(tmp_path, url)
