"""Everybody does everything at once on the same few jobs: no error to a caller, and a log that adds up."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from takeup.core.errors import Conflict
from takeup.core.model import Completion, Failure, Lease, Progress
from takeup.core.plan import NewJob
from takeup.store.store import Store
from tests.store.scenes import FAN, ONE, add_worker, claim_request, dump, faults_of

ACTORS = 8
STEPS = 60


class Actor:
    """One process worth of worker, orchestrator, recovery and operator."""

    def __init__(self, store: Store, number: int, seed: int) -> None:
        self.store = store
        self.worker_id = f"w{number}"
        self.random = random.Random(seed * 1000 + number)
        self.leases: list[Lease] = []

    async def run(self) -> None:
        await add_worker(self.store, self.worker_id, slots=5)
        moves = [self.submit, self.claim, self.claim, self.report, self.report, self.sweep, self.operate]
        for _ in range(STEPS):
            await self.random.choice(moves)()

    async def submit(self) -> None:
        jobs = [NewJob(self.random.choice([ONE, FAN]), {"n": n}) for n in range(self.random.randint(1, 3))]
        await self.store.operator.submit(jobs)

    async def claim(self) -> None:
        self.leases += await self.store.worker.claim(claim_request(self.worker_id, self.random.randint(1, 5)))

    async def report(self) -> None:
        self.random.shuffle(self.leases)
        batch, self.leases = self.leases[:3], self.leases[3:]
        held = [lease.held for lease in batch]
        worker = self.store.worker
        match self.random.randint(0, 4):
            case 0:
                await worker.renew(self.worker_id, [Progress(each, 50.0) for each in held])
                self.leases += batch
            case 1:
                await worker.fail(self.worker_id, [Failure(each, "boom", after_s=0) for each in held])
            case 2:
                await worker.release(self.worker_id, held)
            case _:
                await worker.complete(self.worker_id, [Completion(each, {"segments": 4}) for each in held])

    async def sweep(self) -> None:
        jobs = await self.store.orchestrator.live_jobs()
        self.random.shuffle(jobs)
        await self.store.orchestrator.advance(jobs[:5])
        await self.store.recovery.wake()
        await self.store.recovery.expire()

    async def operate(self) -> None:
        jobs = await self.store.orchestrator.live_jobs()
        chosen = self.random.sample(jobs, min(len(jobs), 3))
        operator = self.store.operator
        try:
            match self.random.randint(0, 5):
                case 0:
                    await operator.cancel(chosen[:1])
                case 1:
                    await operator.set_control(chosen[:1], "SKIP")
                case 2:
                    await operator.set_control(chosen, "PAUSED")
                case 3:
                    await operator.set_control(chosen, "READY")
                case _:
                    await operator.set_priority(chosen, self.random.randint(0, 10))
        except Conflict:
            return  # a job was finished between the look and the change


async def finish(store: Store) -> None:
    """Let one quiet worker end all that is left."""
    await add_worker(store, "last", slots=100)
    for _ in range(200):
        jobs = await store.orchestrator.live_jobs()
        if not jobs:
            return
        paused = [job_id for job_id in jobs if (await store.read.job(job_id)).control == "PAUSED"]
        if paused:
            await store.operator.set_control(paused, "READY")
        await store.recovery.wake()
        await store.orchestrator.advance(jobs)
        leases = await store.worker.claim(claim_request("last", 100))
        await store.worker.complete("last", [Completion(lease.held, {"segments": 2}) for lease in leases])
    raise AssertionError(f"never finished: {await store.orchestrator.live_jobs()}")


@pytest.fixture
async def stores(url) -> AsyncIterator[list[Store]]:
    found = [await Store.open(url) for _ in range(ACTORS)]
    yield found
    for store in found:
        await store.close()


@pytest.mark.parametrize("seed", [1, 2])
async def test_everything_at_once(stores, url, seed):
    actors = [Actor(store, number, seed) for number, store in enumerate(stores)]
    await asyncio.gather(*(actor.run() for actor in actors))
    rows = await dump(url)
    assert faults_of(rows) == []
    assert len(rows["audit"]) > 500, "the storm was no breeze"
    for actor in actors:
        await actor.store.worker.release(actor.worker_id, [lease.held for lease in actor.leases])
    await finish(stores[0])
    assert faults_of(await dump(url)) == []
