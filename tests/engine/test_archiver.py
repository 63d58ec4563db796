"""Finished jobs leave the hot tables with all that is theirs; what is left is still a whole history."""

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from takeup.core.errors import StoreUnavailable
from takeup.core.model import Artifact, LogLine, Step, StepEnd
from takeup.core.plan import NewJob
from takeup.engine import archiver as archiving
from takeup.engine.archiver import Archiver
from takeup.history.live import Verdict, verify
from takeup.pipelines.loading import load_one
from takeup.store.store import Store
from takeup.testing.clocks import ManualClock
from takeup.testing.conformance import World
from takeup.testing.conformance.world import ARCHIVE_TABLES
from tests.engine.conftest import upgraded
from tests.engine.dying import Round, ends_of, play, points_of
from tests.engine.scene import Scene
from tests.services import database_from_template

DAY_S = 86_400.0
HOT = tuple(name.removesuffix("_archive") for name in ARCHIVE_TABLES)


@pytest.fixture
async def world(url: str) -> AsyncIterator[World]:
    clock = ManualClock()
    world = World(await Store.open(url, clock=clock), clock)
    yield world
    await world.close()


async def verdict(world: World, *, archive: bool = True) -> Verdict:
    driver = world.store.driver
    found = await driver.read(verify, driver.dialect.name, archive=archive)
    assert found.violations == (), found.violations
    return found


async def finished_job(world: World, *, notes: bool = True) -> str:
    """A job with two tasks, a file, log lines and a command."""
    job_id = await world.submit(world.chain("a", "b"))
    for stage in ("a", "b"):
        lease = await world.lease()
        if notes:
            line = LogLine(job_id, lease.task_id, lease.token.epoch, "info", stage, f"hello from {stage}")
            await world.store.worker.add_logs([line])
            step = Step(job_id, lease.task_id, lease.token.epoch, f"{job_id}{stage}", "command", "true")
            ((step_id, started_at),) = (await world.store.worker.add_steps([step], [0.0])).values()
            await world.store.worker.end_steps([StepEnd(step_id, started_at, 0.0, 5, 0, None, None, None)])
        await world.complete(lease, {}, (Artifact("f", f"{job_id}/{stage}/f", "0" * 64, 1),))
        await world.advance_jobs(job_id)
    messages = await world.store.recovery.take_messages()
    await world.store.recovery.deliver(messages)
    return job_id


async def test_a_job_leaves_with_everything_that_is_its_own(world: World):
    await world.add_worker()
    job_id = await finished_job(world)
    stays = await world.submit()
    before = await world.dump()
    world.advance(31 * DAY_S)
    await Archiver(world.store.recovery).run_once()
    after = await world.dump()
    for table in HOT:
        key = "id" if table == "jobs" else "job_id"
        mine = [row for row in before[table] if row[key] == job_id]
        assert mine, table
        archived = [row for row in after[f"{table}_archive"] if row[key] == job_id]
        assert sorted(archived, key=repr) == sorted(mine, key=repr), table
        assert [row for row in after[table] if row[key] == job_id] == [], table
    assert [job.id for job in await world.store.read.jobs()] == [stays]
    assert after["outbox"] == [], "its message was sent, and it is old"
    seen = await verdict(world)
    assert seen.archived == 1


async def test_workers_and_messages_go_later_and_the_history_stays_whole(world: World):
    await world.add_worker()
    await world.add_worker("gone")
    await finished_job(world)
    parked_job = await world.submit()
    await world.finish(await world.lease())
    (message,) = await world.store.recovery.take_messages()
    await world.store.recovery.park([message], "nobody listens")
    archiver = Archiver(world.store.recovery)
    world.advance(31 * DAY_S)
    await world.store.worker.heartbeat(["w"])
    await world.store.recovery.lose_workers(60.0)
    await archiver.run_once()
    assert [worker.id for worker in await world.store.read.workers()] == ["w"]
    left = (await world.dump())["outbox"]
    assert [(row["subject"], row["status"]) for row in left] == [(parked_job, "PARKED")]
    await verdict(world)
    await world.add_worker("gone")
    await verdict(world)
    world.advance(archiving.PARKED_TIMES * 30 * DAY_S)
    await archiver.run_once()
    assert (await world.dump())["outbox"] == []
    assert (await verdict(world)).archived == 2


async def test_batches_grow_while_they_are_quick_and_follow_each_other(world: World, monkeypatch):
    monkeypatch.setattr(archiving, "QUICK_S", 60.0)
    monkeypatch.setattr(archiving, "SLOW_S", 60.0)
    pipeline = world.pipeline()
    jobs = await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(13)])
    await world.store.operator.cancel(jobs)
    world.advance(11)
    archiver = Archiver(world.store.recovery, period_s=3600.0, older_than_s=10.0)
    archiver.batch = 4
    sizes, periods = [], []
    for _ in range(4):
        left = len(await world.store.read.jobs())
        assert await archiver.run_once() is False
        sizes.append(left - len(await world.store.read.jobs()))
        periods.append(archiver.period_s)
    assert sizes == [4, 8, 1, 0]
    assert periods == [archiving.PAUSE_S, archiving.PAUSE_S, 3600.0, 3600.0]


async def test_a_batch_that_is_slow_or_fails_is_halved(world: World):
    times = iter(range(100))
    archiver = Archiver(world.store.recovery, clock=lambda: float(next(times)))
    archiver.batch = 8
    await archiver.run_once()
    assert archiver.batch == 4

    async def refuse(*_: Any, **__: Any) -> list[str]:
        raise StoreUnavailable("too busy")

    archiver._store.archive = refuse
    for expected in (2, 1, 1):
        with pytest.raises(StoreUnavailable):
            await archiver.run_once()
        assert archiver.batch == expected


async def test_months_that_cannot_be_made_hold_up_nothing(world: World):
    async def refuse(_: int) -> int:
        raise StoreUnavailable("locked")

    (job_id,) = await world.store.operator.submit([NewJob(world.pipeline())])
    await world.store.operator.cancel([job_id])
    world.advance(11)
    archiver = Archiver(world.store.recovery, older_than_s=10.0)
    archiver._store.add_months = refuse
    await archiver.run_once()
    assert await world.store.read.jobs() == []


async def test_ten_archivers_move_each_job_once(url: str, world: World):
    pipeline = world.pipeline()
    jobs = await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(100)])
    await world.store.operator.cancel(jobs)
    world.advance(11)
    stores = [await Store.open(url, clock=world.clock) for _ in range(10)]
    archivers = [Archiver(store.recovery, older_than_s=10.0) for store in stores]
    for archiver in archivers:
        archiver.batch = 7
    while await world.store.read.jobs(limit=1):
        await asyncio.gather(*(archiver.run_once() for archiver in archivers))
    for store in stores:
        await store.close()
    assert sorted(row["id"] for row in (await world.dump())["jobs_archive"]) == sorted(jobs)
    assert (await verdict(world)).archived == 100


async def things_to_archive(world: World, name: str) -> None:
    """An old job whose message was sent, and a worker that is gone."""
    await world.add_worker(name)
    await finished_job(world)
    world.advance(3600)
    await world.store.worker.heartbeat(["w"])
    assert await world.store.recovery.lose_workers(60.0) == [name]


async def test_wherever_an_archiver_dies_nothing_is_lost_or_doubled(url: str, world: World, tmp_path: Path):
    assert world.clock is not None
    await world.add_worker()
    await things_to_archive(world, "first")
    world.advance(3600)
    points = await points_of(Round(url, "", (world.clock.now().isoformat(),)))
    assert {"archive.after archive_jobs", "forget_messages.after drop_messages"} <= set(points)
    await things_to_archive(world, "second")
    world.advance(3600)
    before = await world.dump()
    assert (len(before["jobs"]), len(before["jobs_archive"])) == (1, 1)
    moments = (world.clock.now().isoformat(),)
    deaths = [Round(url, "", moments, point) for point in points]
    ends = await asyncio.to_thread(ends_of, deaths, tmp_path)
    assert dict(zip(points, ends, strict=True)) == dict.fromkeys(points, -signal.SIGKILL)
    await play(Round(url, "", moments))
    after = await world.dump()
    for table in HOT:
        kept = [*after[table], *after[f"{table}_archive"]]
        assert sorted(kept, key=repr) == sorted([*before[table], *before[f"{table}_archive"]], key=repr), (
            table
        )
    assert (len(after["jobs"]), len(after["jobs_archive"])) == (0, 2)
    assert [row["id"] for row in after["workers"]] == ["w"]
    await verdict(world)


FLOW = """
from takeup import Pipeline

flow = Pipeline("flow")

@flow.stage()
def work(ctx):
    ctx.log.info("hello")
    ctx.step("true")
    ctx.output("film.txt").write_text("film")
"""


async def test_files_stay_where_they_are(small_scene: Scene, tmp_path: Path):
    scene, file = small_scene, tmp_path / "flow.py"
    file.write_text(FLOW)
    await scene.start_worker(sources=(str(file),))
    (job_id,) = await scene.app.submit([NewJob(load_one(str(file)))])
    job = await scene.finished(job_id)
    assert job.status == "completed", job.error
    await scene.app.sweeper().run_once()
    files = sorted(path for path in scene.app.settings.storage.rglob("*") if path.is_file())
    assert "film.txt" in {path.name for path in files}
    archiver = Archiver(scene.store.recovery, older_than_s=0.0)
    async with asyncio.timeout(10):
        while await scene.store.read.jobs():
            await archiver.run_once()
    driver = scene.store.driver
    seen = await driver.read(verify, driver.dialect.name, archive=True)
    assert (seen.violations, seen.archived) == ((), 1)
    assert sorted(p for p in scene.app.settings.storage.rglob("*") if p.is_file()) == files


MONTHLY = {
    "audit": ("logged_at", "noun, event, actor", "'worker', 'register', 'worker'"),
    "job_logs": ("logged_at", "job_id, level, message, metadata", "'j', 'info', 'm', '{}'"),
    "execution_steps": (
        "started_at",
        "job_id, task_id, epoch, step_id, type, command",
        "'j', 1, 1, 's', 't', 'c'",
    ),
}


async def test_rows_land_in_the_partition_of_their_month(get_postgres):
    async with database_from_template(get_postgres("postgres15"), upgraded) as url:
        connection = await asyncpg.connect(url)
        now = await connection.fetchval("SELECT date_trunc('month', now() AT TIME ZONE 'UTC')")
        store = await Store.open(url)
        try:
            assert await store.recovery.add_months(3) == len(MONTHLY), "three months are made at the start"
            assert await store.recovery.add_months(3) == 0
            for table, (column, names, values) in MONTHLY.items():
                for ahead in (0, 1, 2, 3, 4, -1):
                    month = datetime(*_shifted(now.year, now.month, ahead), tzinfo=UTC)
                    for moment in (month, month + timedelta(days=27, hours=23)):
                        add = f"INSERT INTO {table} ({column}, {names}) VALUES ($1, {values})"
                        part = await connection.fetchval(f"{add} RETURNING tableoid::regclass::text", moment)
                        named = f"{table}_{month:%Y_%m}" if 0 <= ahead <= 3 else f"{table}_other"
                        assert part == named, (table, ahead)
            assert await store.recovery.add_months(4) == 0, "rows of that month are in the default partition"
            count = "SELECT COUNT(*) FROM job_logs"
            assert await connection.fetchval(count) == 12
        finally:
            await store.close()
            await connection.close()


def _shifted(year: int, month: int, ahead: int) -> tuple[int, int, int]:
    count = year * 12 + month - 1 + ahead
    return count // 12, count % 12 + 1, 1
