"""Every named point at which a process may die is died at, on both databases; each time all ends well."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from takeup.core.plan import NewJob
from takeup.pipelines.loading import load_one
from takeup.store.store import Store
from takeup.testing.crash import TRACE_VARIABLE
from tests.chaos.fleet import Fleet
from tests.chaos.roles import PIPELINE, Role
from tests.chaos.storm import Storm
from tests.chaos.verdict import judge
from tests.services import PostgresServer, database_from_template

LANES = {"worker": 4, "orchestrator": 1, "recovery": 1}
PATIENCE_S = 30.0
POINTS_MIN = 45
LUCKY = (
    "release.",
    "fail.",
    "retry",
    "park",
    "lose",
    "forget_claims",
    "leave.",
    "adopt.",
    "remove.",
    "expire.",
)
"""Points that not every run comes by; the storms die there."""


class Points(Storm):
    """A calm run that finds the points; then one process after the other dies at one of them."""

    async def run(self):
        (self.folder / "data").mkdir(parents=True)
        store = await Store.open(self.url, upgrade=True)
        fleet = Fleet(self.folder, [self._role(kind) for kind in LANES], Random(self.seed))
        jobs: list[str] = []
        try:
            await self._add_job(store, jobs)
            await self._calm(store, fleet)
            wanted = self._traced("passed")
            assert sum(map(len, wanted.values())) >= POINTS_MIN, wanted
            for name in fleet.names():
                fleet.kill(name, restart=False)
            feeding = asyncio.create_task(self._feed(store, jobs))
            async with asyncio.TaskGroup() as group:
                for kind, count in LANES.items():
                    points = sorted(wanted[kind])
                    for lane in range(count):
                        group.create_task(self._die(fleet, kind, f"{kind}-lane-{lane}", points[lane::count]))
            feeding.cancel()
            quiet_from = await store.read.now()
            await self._calm(store, fleet)
            fleet.stop()
            self.counts.update(await judge(store, self.folder, jobs, quiet_from))
            self.counts["points"] = sum(map(len, wanted.values()))
            assert fleet.survivors() == []
        finally:
            fleet.close()
            await store.close()
        return self.counts

    async def _die(self, fleet: Fleet, kind: str, lane: str, points: list[str]) -> None:
        """Start a process that dies at the point, wait until it did, and take the next point.

        A worker comes back under its old name, so that what it held is free again at once.
        """
        for point in points:
            own = "" if point.startswith("register.") else lane
            name = fleet.start(replace(self._role(kind), name=own, crash=f"{point}#1"))
            deadline = time.monotonic() + PATIENCE_S
            while point not in self._traced("fired")[kind]:
                assert time.monotonic() < deadline, f"{kind} {point} not reached: {fleet.tail(name)}"
                await asyncio.sleep(0.02)
            fleet.kill(name, restart=False)  # if it was its runner that died, the worker still lives
        fleet.start(replace(self._role(kind), name=lane))  # the others need somebody of its kind

    def _role(self, kind: str) -> Role:
        trace = {TRACE_VARIABLE: str(self.folder / f"{kind}.trace")}
        return Role(kind, "", self.url, self.folder, environment=trace)

    def _traced(self, what: str) -> dict[str, set[str]]:
        """The points that were passed, or that fired, by the kind of process."""
        found: dict[str, set[str]] = {}
        for kind in LANES:
            path = self.folder / f"{kind}.trace"
            lines = path.read_text().splitlines() if path.exists() else []
            names = {line.removeprefix(f"{what} ") for line in lines if line.startswith(what)}
            found[kind] = {name for name in names if not name.startswith(LUCKY)}
        return found

    async def _feed(self, store: Store, jobs: list[str]) -> None:
        """There is always something to do."""
        while True:
            if len(await store.orchestrator.live_jobs()) < 3:
                await self._add_job(store, jobs)
            await asyncio.sleep(0.05)

    async def _add_job(self, store: Store, jobs: list[str]) -> None:
        new = NewJob(load_one(PIPELINE), {"segments": 2, "n": len(jobs)})
        jobs += await store.operator.submit([new])


@pytest.mark.timeout(280)
async def test_every_point_on_sqlite(tmp_path: Path):
    counts = await Points(f"sqlite:///{tmp_path}/points.db", tmp_path, seed=1, kills=0).run()
    print(dict(counts))


@pytest.mark.timeout(280)
async def test_every_point_on_postgres(tmp_path: Path, get_postgres):
    server: PostgresServer = get_postgres("postgres15")
    async with database_from_template(server, _prepare) as url:
        counts = await Points(url, tmp_path, seed=1, kills=0).run()
        print(dict(counts))


async def _prepare(url: str) -> None:
    store = await Store.open(url, upgrade=True)
    await store.close()
