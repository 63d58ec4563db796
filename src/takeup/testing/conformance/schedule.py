"""Schedules: a slot becomes one job or is passed by, once, whoever tries."""

from datetime import timedelta

from takeup.core.errors import SubjectBusy
from takeup.core.plan import NewJob
from takeup.core.schedule import ScheduleRow
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World

NIGHTLY = ("p/nightly", "p", "0 3 * * * UTC")


async def declared(world: World) -> ScheduleRow:
    """A schedule that was just declared."""
    await world.store.scheduler.declare([NIGHTLY])
    _, (row,) = await world.store.scheduler.look(["p/nightly"])
    return row


@case()
async def a_schedule_begins_when_it_is_first_declared(world: World) -> None:
    scheduler = world.store.scheduler
    row = await declared(world)
    start = await world.store.read.now()
    assert row == ScheduleRow(*NIGHTLY, start)
    world.advance(5)
    async with world.unchanged():
        await scheduler.declare([NIGHTLY])
    now, rows = await scheduler.look(["p/nightly", "p/other", "p/nightly"])
    assert (now, rows) == (start + timedelta(seconds=5), [row])
    await scheduler.declare([NIGHTLY, ("p/other", "p", "0 4 * * * UTC")])
    assert [r.name for r in (await scheduler.look(["p/other", "p/nightly"]))[1]] == ["p/nightly", "p/other"]


@case()
async def another_cron_text_begins_anew(world: World) -> None:
    scheduler = world.store.scheduler
    old = await declared(world)
    world.advance(100)
    await scheduler.declare([("p/nightly", "p", "0 5 * * * UTC")])
    now, (row,) = await scheduler.look(["p/nightly"])
    assert (row.cron, row.last_slot_at) == ("0 5 * * * UTC", now)
    async with world.unchanged():
        slot = now + timedelta(seconds=1)
        assert not await scheduler.skip(old, slot), "an old declaration takes no slot"
        assert await scheduler.fire(old, slot, NewJob(world.pipeline())) is None


@case()
async def a_row_that_is_ahead_of_the_clock_is_brought_back(world: World) -> None:
    scheduler = world.store.scheduler
    row = await declared(world)
    assert await scheduler.skip(row, row.last_slot_at + timedelta(days=365))
    await scheduler.declare([NIGHTLY])
    now, rows = await scheduler.look(["p/nightly"])
    assert [r.last_slot_at for r in rows] == [now]


@case()
async def a_slot_becomes_one_job(world: World) -> None:
    scheduler = world.store.scheduler
    row = await declared(world)
    slot = row.last_slot_at + timedelta(hours=3)
    job = NewJob(world.pipeline(), idempotency_key="cron:p/nightly:1")
    job_id = await scheduler.fire(row, slot, job)
    assert job_id is not None
    assert await world.job_status(job_id) == "pending"
    (created,) = [e for e in await world.events(job_id) if e.noun == "job"]
    assert created.request_id == "cron:p/nightly:1"
    _, (moved,) = await scheduler.look(["p/nightly"])
    assert moved.last_slot_at == slot
    async with world.unchanged():
        assert await scheduler.fire(row, slot, job) is None
        assert not await scheduler.skip(row, slot)
        assert await scheduler.fire(moved, slot, job) is None, "a schedule never goes back"
        assert await scheduler.fire(moved, slot - timedelta(hours=1), job) is None
        assert await scheduler.fire(ScheduleRow("p/none", "p", "", slot), slot, job) is None
    assert await scheduler.fire(moved, slot + timedelta(days=1), job) == job_id, "its key was used before"
    assert len(await world.store.read.jobs()) == 1


@case()
async def a_busy_subject_leaves_the_slot_free(world: World) -> None:
    scheduler = world.store.scheduler
    row = await declared(world)
    slot = row.last_slot_at + timedelta(hours=3)
    pipeline = world.pipeline()
    await world.submit(pipeline, subject="video")
    async with world.refuses(SubjectBusy):
        await scheduler.fire(row, slot, NewJob(pipeline, subject="video", idempotency_key="k"))
    assert await scheduler.skip(row, slot)
    async with world.unchanged():
        assert not await scheduler.skip(row, slot)
