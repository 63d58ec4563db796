"""Workers that stop, die with their task or die alone: who takes over, and what the old one may still do."""

import asyncio
import time
from pathlib import Path
from random import Random

import pytest

from takeup.core.machine import JOB
from takeup.core.plan import NewJob
from takeup.pipelines.loading import load_all
from takeup.store.store import Store
from tests.chaos.fleet import Fleet
from tests.chaos.roles import RECOVERY_S, Role
from tests.chaos.verdict import events_of
from tests.services import database_from_template

STUBBORN = str(Path(__file__).with_name("stubborn.py"))
PATIENCE_S = 60.0


class Stage:
    """A store, a fleet and the pipelines of this file."""

    def __init__(self, store: Store, fleet: Fleet, url: str, folder: Path) -> None:
        self.store, self.fleet, self.url, self.folder = store, fleet, url, folder
        self.pipelines = load_all([STUBBORN])

    def worker(self, name: str = "") -> str:
        return self.fleet.start(Role("worker", name, self.url, self.folder, sources=(STUBBORN,)))

    async def submit(self, name: str, **spec: object) -> str:
        (job_id,) = await self.store.operator.submit([NewJob(self.pipelines[name], spec)])
        return job_id

    async def owner(self, job_id: str, *besides: str) -> str:
        """Who runs the job's task; wait until somebody else than those does."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                (task,) = await self.store.read.tasks(job_id)
                if task.lease_owner and task.lease_owner not in besides:
                    return task.lease_owner
                await asyncio.sleep(0.02)

    async def finished(self, job_id: str) -> str:
        async with asyncio.timeout(PATIENCE_S):
            while (job := await self.store.read.job(job_id)).status not in JOB.final:
                self.fleet.revive()
                await asyncio.sleep(0.05)
        return job.status


async def prepare(url: str) -> None:
    store = await Store.open(url, upgrade=True)
    await store.close()


@pytest.fixture(params=["sqlite", "postgres15"])
async def stage(request, tmp_path: Path, get_postgres):
    (tmp_path / "data").mkdir()

    async def play(url: str):
        store = await Store.open(url, upgrade=True)
        roles = [Role(kind, "", url, tmp_path) for kind in ("orchestrator", "recovery")]
        fleet = Fleet(tmp_path, roles, Random(0))
        return Stage(store, fleet, url, tmp_path)

    if request.param == "sqlite":
        stage = await play(f"sqlite:///{tmp_path}/zombies.db")
        yield stage
        await end(stage)
        return
    async with database_from_template(get_postgres(request.param), prepare) as url:
        stage = await play(url)
        yield stage
        await end(stage)


async def end(stage: Stage) -> None:
    try:
        stage.fleet.stop()
        assert stage.fleet.survivors() == []
    finally:
        stage.fleet.close()
        await stage.store.close()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_stopped_worker_loses_its_task_and_its_child_dies_without_it(stage: Stage):
    first = stage.worker()
    job_id = await stage.submit("long", folder=str(stage.folder), seconds=5)
    assert await stage.owner(job_id) == first
    async with asyncio.timeout(PATIENCE_S):
        while not (
            markers := [p for p in stage.folder.glob("*.*.*") if p.name[0].isdigit() and p.read_text()]
        ):
            await asyncio.sleep(0.02)
    child = int(markers[0].read_text())
    stage.fleet.freeze(first, 3600)
    second = stage.worker()
    begun = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        while alive(child):
            await asyncio.sleep(0.02)
    assert time.monotonic() - begun < 3 + 3, "its guardian ends it when the lease cannot be trusted any more"
    assert await stage.owner(job_id, first) == second
    stage.fleet.thaw(now=True)
    assert await stage.finished(job_id) == "completed"
    moves = [(e.event, e.worker_id) for e in await events_of(stage.store) if e.job_id == job_id]
    after = moves[moves.index(("claim", second)) :]
    assert ("complete", second) in after
    assert not [move for move in after if move[1] == first]


async def test_a_task_that_kills_its_worker_fails_after_its_attempts(stage: Stage):
    for _ in range(2):
        stage.worker()
    job_id = await stage.submit("poison")
    assert await stage.finished(job_id) == "failed"
    attempts = await stage.store.read.attempts(job_id)
    assert [(a.attempt, a.outcome) for a in attempts] == [(1, "expire"), (2, "expire"), (3, "bury")]
    assert len({a.owner for a in attempts}) == 3


async def test_work_of_a_dead_worker_is_taken_over_in_time(stage: Stage):
    late: list[float] = []
    job_id = await stage.submit("long", folder=str(stage.folder), seconds=600)
    owner = stage.worker()
    for _ in range(4):
        assert await stage.owner(job_id) == owner
        spare = stage.worker()
        async with asyncio.timeout(PATIENCE_S):
            while spare not in {w.id for w in await stage.store.read.workers()}:
                await asyncio.sleep(0.02)
        stage.fleet.kill(owner, restart=False)
        owner = await stage.owner(job_id, owner)
    events = [e for e in await events_of(stage.store) if e.job_id == job_id and e.noun == "task"]
    for before, expire, claim in zip(events, events[1:], events[2:], strict=False):
        if (expire.event, claim.event) == ("expire", "claim"):
            assert before.lease_expires_at is not None
            late.append((claim.logged_at - before.lease_expires_at).total_seconds())
    print("after the lease, the next claim came after", [round(s, 3) for s in late], "s")
    assert len(late) == 4
    assert max(late) < RECOVERY_S + 0.5 + 4.0, "the promise is R + 0.5 s; the rest is for a busy machine"
    await stage.store.operator.cancel([job_id])


async def test_loops_that_restart_all_the_time_stop_nothing(stage: Stage):
    stage.worker()
    jobs = [await stage.submit("long", folder=str(stage.folder), seconds=1) for _ in range(4)]
    deadline = time.monotonic() + 6
    while time.monotonic() < deadline:
        await asyncio.sleep(1.0)
        for kind in ("orchestrator", "recovery"):
            for name in stage.fleet.names(kind):
                stage.fleet.kill(name)
    for job_id in jobs:
        assert await stage.finished(job_id) == "completed"
    assert not [e for e in await events_of(stage.store) if e.event == "expire"]
