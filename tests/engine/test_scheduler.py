"""Every slot of a schedule becomes one job, however many schedulers there are and wherever they die."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog

from takeup.core.errors import InvalidInput, InvalidPipeline
from takeup.core.model import Job
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.schedule import Schedule
from takeup.dispatch.bell import Bell
from takeup.engine.cron import Timetable
from takeup.engine.scheduler import Scheduler
from takeup.store.store import Store
from takeup.testing.clocks import START, ManualClock
from tests.engine.conftest import upgraded
from tests.engine.dying import Round, ends_of, pipeline_named, play, points_of

HOUR_S = 3600.0
DAY = timedelta(days=1)
SLOT = START + timedelta(hours=3)
Open = Callable[[], Awaitable[Store]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def opened(url: str, clock: ManualClock) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:

        async def open_one() -> Store:
            store = await Store.open(url, clock=clock)
            stack.push_async_callback(store.close)
            return store

        yield open_one


def scheduler_of(store: Store, pipeline: Pipeline | None = None) -> Scheduler:
    return Scheduler(store.scheduler, Bell(), [pipeline or pipeline_named("p")])


def slots_of(jobs: list[Job]) -> list[str]:
    """Which slots were fired, oldest first."""
    return sorted(str(job.idempotency_key).partition(":")[2] for job in jobs)


async def fired(store: Store, name: str = "p") -> list[str]:
    jobs = [job for job in await store.read.jobs(limit=1000) if job.pipeline == name]
    return [slot.removeprefix(f"{name}/nightly:") for slot in slots_of(jobs)]


async def test_a_schedule_fires_at_its_slots_and_not_for_the_past(opened: Open, clock: ManualClock):
    store = await opened()
    clock.set(SLOT + timedelta(minutes=1))
    scheduler = scheduler_of(store)
    await scheduler.run_once()
    assert await fired(store) == []
    clock.set(SLOT + DAY - timedelta(microseconds=1))
    await scheduler.run_once()
    assert await fired(store) == []
    clock.set(SLOT + DAY)
    for _ in range(3):
        assert await scheduler.run_once() is False
    assert await fired(store) == ["2030-01-02T03:00:00+00:00"]
    clock.advance(24 * HOUR_S)
    await scheduler_of(store).run_once()  # another process goes on where the last one stopped
    assert len(await fired(store)) == 2
    (job, _) = await store.read.jobs()
    spec = (await store.read.job(job.id)).spec
    assert (job.pipeline, dict(spec), job.priority) == ("p", {"url": "a"}, 5)


async def test_after_a_downtime_only_the_latest_slot_fires(opened: Open, clock: ManualClock):
    store = await opened()
    await scheduler_of(store).run_once()
    clock.set(SLOT + 10 * DAY + timedelta(hours=2))
    await scheduler_of(store).run_once()
    await scheduler_of(store).run_once()
    assert await fired(store) == ["2030-01-11T03:00:00+00:00"]
    clock.set(SLOT + 11 * DAY)
    await scheduler_of(store).run_once()
    assert len(await fired(store)) == 2


async def test_ten_schedulers_make_one_job_of_each_slot(opened: Open, clock: ManualClock):
    stores = [await opened() for _ in range(10)]
    schedulers = [scheduler_of(store) for store in stores]
    await asyncio.gather(*(scheduler.run_once() for scheduler in schedulers))
    for day in range(5):
        clock.set(SLOT + day * DAY)
        await asyncio.gather(*(scheduler.run_once() for scheduler in schedulers))
    assert await fired(stores[0]) == [(SLOT + day * DAY).isoformat() for day in range(5)]


async def test_a_slot_whose_subject_is_busy_is_skipped_and_told(opened: Open, clock: ManualClock):
    store = await opened()
    scheduler = scheduler_of(store, pipeline_named("busy", key=["url"]))
    await scheduler.run_once()
    clock.set(SLOT)
    await scheduler.run_once()
    clock.set(SLOT + DAY)
    with structlog.testing.capture_logs() as lines:
        await scheduler.run_once()
        await scheduler.run_once()
    (line,) = [line for line in lines if line["event"] == "slot skipped"]
    assert (line["schedule"], "already has the live job" in line["why"]) == ("busy/nightly", True)
    (job,) = await store.read.jobs()
    await store.operator.cancel([job.id])
    await scheduler.run_once()
    assert len(await store.read.jobs()) == 1, "a slot that was skipped does not come again"
    clock.set(SLOT + 2 * DAY)
    await scheduler.run_once()
    assert [job.generation for job in await store.read.jobs()] == [2, 1]


async def test_the_newest_declaration_counts(opened: Open, clock: ManualClock):
    store = await opened()
    old = scheduler_of(store)
    await old.run_once()
    pipeline = Pipeline.of("p", [Stage("work")])
    pipeline.every("0 * * * *", name="nightly", spec={"new": 1})
    new = scheduler_of(store, pipeline)
    clock.set(SLOT + timedelta(minutes=30))
    await new.run_once()
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            await old.run_once()
    assert [line["event"] for line in lines] == ["declared otherwise by a newer process"]
    assert await fired(store) == [], "what was due by the old text is not made up for"
    clock.set(SLOT + timedelta(hours=1))
    await asyncio.gather(old.run_once(), new.run_once())
    (job,) = await store.read.jobs()
    assert dict((await store.read.job(job.id)).spec) == {"new": 1}
    await scheduler_of(store).run_once()  # the old text again, in a new process
    clock.set(SLOT + DAY)
    await old.run_once()
    assert len(await store.read.jobs()) == 2


async def test_a_key_that_was_used_for_something_else_does_not_stop_the_schedule(
    opened: Open, clock: ManualClock
):
    store = await opened()
    scheduler = scheduler_of(store)
    await scheduler.run_once()
    clock.set(SLOT)
    changed = Pipeline.of("p", [Stage("work")])
    changed.every("0 3 * * *", name="nightly", spec={"other": 1})
    (entry,) = scheduler_of(store, changed)._entries.values()
    await store.operator.submit([entry.job(SLOT)])
    with structlog.testing.capture_logs() as lines:
        await scheduler.run_once()
    assert [line["event"] for line in lines] == ["slot skipped"]
    clock.set(SLOT + DAY)
    await scheduler.run_once()
    assert len(await fired(store)) == 2


async def test_wherever_a_scheduler_dies_each_slot_has_one_job(url: str, tmp_path: Path, opened: Open):
    store = await opened()
    moments = (START.isoformat(), SLOT.isoformat())
    points = await points_of(Round(url, "first", moments))
    assert {"scheduler.before declare", "scheduler.after fire", "fire.after move_schedule"} <= set(points)
    assert len(points) >= 12, points
    deaths = [Round(url, f"p{n}", moments, point) for n, point in enumerate(points)]
    ends = await asyncio.to_thread(ends_of, deaths, tmp_path)
    assert dict(zip(points, ends, strict=True)) == dict.fromkeys(points, -signal.SIGKILL)
    for death in deaths:
        await play(death)
        assert await fired(store, death.pipeline) == [SLOT.isoformat()], death.point
        _, (row,) = await store.scheduler.look([f"{death.pipeline}/nightly"])
        assert row.last_slot_at == SLOT


async def test_wherever_a_scheduler_dies_a_busy_slot_is_skipped(url: str, tmp_path: Path, opened: Open):
    store = await opened()
    moments = tuple(moment.isoformat() for moment in (START, SLOT, SLOT + DAY))
    skipping = ["scheduler.before skip", "skip.after move_schedule"]
    deaths = [Round(url, f"busy{n}", moments, point) for n, point in enumerate(skipping)]
    assert await asyncio.to_thread(ends_of, deaths, tmp_path) == [-signal.SIGKILL] * len(skipping)
    for death in deaths:
        await play(death)
        assert len(await fired(store, death.pipeline)) == 1, death.point
        _, (row,) = await store.scheduler.look([f"{death.pipeline}/nightly"])
        assert row.last_slot_at == SLOT + DAY


@pytest.mark.parametrize(
    ("cron", "options", "message"),
    [
        ("0 3 * * *", {"zone": "Europe/Nowhere"}, "knows no zone"),
        ("0 3 30 FEB *", {}, "day-of-month"),
        ("0 3 */30 2 5#5", {}, "never comes"),
    ],
)
def test_what_can_never_fire_is_refused_at_the_start(cron: str, options: dict[str, Any], message: str):
    pipeline = Pipeline.of("p", [Stage("work")])
    pipeline.every(cron, **options)
    store: Any = None
    with pytest.raises(InvalidPipeline, match=message):
        Scheduler(store, Bell(), [pipeline])


def test_a_schedule_without_what_the_pipeline_needs_is_refused_at_the_start():
    pipeline = Pipeline.of("p", [Stage("work")], key=["url"])
    pipeline.every("0 3 * * *")
    store: Any = None
    with pytest.raises(InvalidInput, match="needs url"):
        Scheduler(store, Bell(), [pipeline])


@pytest.mark.parametrize(
    ("cron", "last", "now", "slot"),
    [
        ("30 2 * * *", "2026-03-29T00:00", "2026-03-29T00:59", None),
        ("30 2 * * *", "2026-03-29T00:00", "2026-03-29T01:00", "2026-03-29T01:00"),  # 2:30 does not exist
        ("30 2 * * *", "2026-10-24T22:00", "2026-10-25T00:30", "2026-10-25T00:30"),  # the first 2:30
        ("30 2 * * *", "2026-10-25T00:30", "2026-10-25T01:30", None),  # the second one
        ("30 2 * * *", "2026-10-24T00:30", "2026-10-25T01:10", "2026-10-25T00:30"),  # caught up in between
        ("*/30 * * * *", "2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T01:30"),
        ("0 0 * * *", "2020-01-01T00:00", "2026-06-01T00:00", "2026-05-31T22:00"),
    ],
)
def test_slots_where_clocks_are_changed(cron: str, last: str, now: str, slot: str | None):
    table = Timetable(Schedule("s", cron, "Europe/Berlin"), START)
    due = table.due(*(datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (last, now)))
    assert due == (slot and datetime.fromisoformat(slot).replace(tzinfo=UTC))


FLOW = """
from takeup import Pipeline

flow = Pipeline("flow")
flow.every("* * * * * *", name="tick", spec={"n": 1})

@flow.stage()
def work(ctx):
    return {}
"""


@pytest.mark.parametrize("command", ["orchestrate", "serve"])
async def test_the_commands_run_the_schedules_of_the_pipelines(tmp_path: Path, command: str):
    (tmp_path / "flow.py").write_text(FLOW)
    url = f"sqlite:///{tmp_path}/takeup.db"
    await upgraded(url)
    more = ["--workers", "0", "--port", "0"] if command == "serve" else []
    process = subprocess.Popen(  # noqa: ASYNC220 - it is looked at from outside
        [
            sys.executable,
            "-m",
            "takeup.cli.main",
            command,
            "--pipelines",
            "flow.py",
            "--database",
            url,
            *more,
        ],
        cwd=tmp_path,
        env={**os.environ, "TAKEUP_SCHEDULE_INTERVAL": "0.1"},
        stderr=subprocess.PIPE,
    )
    store = await Store.open(url)
    try:
        async with asyncio.timeout(20):
            while not (jobs := await store.read.jobs()):
                await asyncio.sleep(0.05)
        assert str(jobs[-1].idempotency_key).startswith("cron:flow/tick:20")
    finally:
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=20)
        await store.close()
    assert process.returncode == 0, said.decode()
    assert b"slot fired" in said
