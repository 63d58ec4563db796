"""A storm: jobs are submitted, processes are killed, stopped and disturbed; then all must be well."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from takeup.core.errors import TakeupError
from takeup.core.plan import NewJob
from takeup.pipelines.loading import load_one
from takeup.store.store import Store
from tests.chaos.fleet import Fleet
from tests.chaos.roles import PIPELINE, Role
from tests.chaos.verdict import judge

SEGMENTS = 6
LIVE_JOBS = 4
QUIET_S = 60.0
LEASE_S = 2.0

Disturb = Callable[[], Awaitable[None]]


@dataclass
class Storm:
    """One run on one database."""

    url: str
    folder: Path
    seed: int
    kills: int
    workers: int = 3
    disturbances: Sequence[Disturb] = ()
    clocks_h: Sequence[int] = ()
    """Workers whose wall clocks are wrong by so many hours."""
    counts: Counter[str] = field(default_factory=Counter)

    async def run(self) -> Counter[str]:
        """Raise it, let it calm down, judge."""
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        random = Random(self.seed)
        store = await Store.open(self.url, upgrade=True)
        fleet = Fleet(self.folder, self._roles(), random)
        jobs: list[str] = []
        try:
            await self._rage(store, fleet, random, jobs)
            fleet.thaw(now=True)
            quiet_from = await _patiently(store.read.now)
            await self._calm(store, fleet)
            fleet.stop()
            found = await judge(store, self.folder, jobs, quiet_from)
            assert fleet.survivors() == []
            self.counts.update(found)
            self.counts["kills"], self.counts["stops"] = fleet.kills, fleet.stops
        finally:
            fleet.close()
            await store.close()
        return self.counts

    def _roles(self) -> list[Role]:
        kinds = ["worker"] * self.workers + ["orchestrator"] * 2 + ["recovery"] * 2
        roles = [Role(kind, "", self.url, self.folder) for kind in kinds]
        skewed = [Role("worker", "", self.url, self.folder, clock_h=hours) for hours in self.clocks_h]
        return [*roles, *skewed]

    async def _rage(self, store: Store, fleet: Fleet, random: Random, jobs: list[str]) -> None:
        pipeline = load_one(PIPELINE)
        disturbing: set[asyncio.Task[None]] = set()
        while fleet.kills < self.kills:
            await asyncio.sleep(random.uniform(0.02, 0.25))
            await self._submit(store, pipeline, jobs)
            fleet.thaw()
            fleet.revive()
            names = [name for name in fleet.names() if not fleet.is_frozen(name)]
            chance = random.random()
            if chance < 0.04 and len(names) > 3:
                worker = random.choice([name for name in names if name.startswith("worker")] or names)
                fleet.freeze(worker, random.uniform(0.1, 1.5 * LEASE_S))
            elif chance < 0.14 and self.disturbances and not disturbing:
                disturb = random.choice(self.disturbances)
                self.counts[disturb.__name__] += 1
                task = asyncio.create_task(disturb())
                disturbing.add(task)
                task.add_done_callback(disturbing.discard)
            elif names:
                fleet.kill(random.choice(names))
        for task in list(disturbing):
            await task

    async def _submit(self, store: Store, pipeline, jobs: list[str]) -> None:
        """Keep a few jobs alive."""
        try:
            live = await store.orchestrator.live_jobs()
            for _ in range(LIVE_JOBS - len(live)):
                key = f"chaos-{len(jobs)}"
                new = NewJob(pipeline, {"segments": SEGMENTS, "n": len(jobs)}, idempotency_key=key)
                jobs += await store.operator.submit([new])
        except TakeupError as error:
            if not error.retryable:
                raise

    async def _calm(self, store: Store, fleet: Fleet) -> None:
        """Without further kills everything must end."""
        deadline = time.monotonic() + QUIET_S
        while live := await _patiently(store.orchestrator.live_jobs):
            fleet.revive()
            assert time.monotonic() < deadline, await self._stuck(store, live)
            await asyncio.sleep(0.1)
        while await _patiently(lambda: store.driver.read(_open_messages)):
            assert time.monotonic() < deadline, "messages are not delivered"
            await asyncio.sleep(0.1)

    async def _stuck(self, store: Store, live: list[str]) -> str:
        lines = []
        for job_id in live:
            tasks = await store.read.tasks(job_id)
            lines += [f"{job_id} {t.id} {t.stage} {t.status} {t.attempt} {t.error}" for t in tasks]
        return "\n".join(lines[:60])


def _open_messages():
    from takeup.store.op import Script  # noqa: PLC0415 - one small read past the facades

    rows = yield Script("SELECT COUNT(*) AS open_count FROM outbox WHERE status NOT IN ('SENT', 'PARKED')")
    return rows[0]["open_count"]


async def _patiently(call):
    """The database may be down just now."""
    while True:
        try:
            return await call()
        except TakeupError as error:
            if not error.retryable:
                raise
            await asyncio.sleep(0.1)
