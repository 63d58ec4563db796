"""Archiving: finished jobs leave with everything that belongs to them, in one step."""

from collections.abc import Awaitable
from datetime import datetime

from takeup.core.errors import NotFound
from takeup.core.model import Artifact, JobPlace, ListedJob
from takeup.core.plan import NewJob
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import ARCHIVE_TABLES, World


@case()
async def only_old_finished_jobs_are_archived(world: World) -> None:
    await world.add_worker()
    live = await world.submit(priority=0)
    old = await world.submit(world.chain("a", "b"), priority=10)
    await world.complete(await world.lease(), {}, (Artifact("f", "k", "0" * 64, 1),))
    await world.store.operator.cancel([old])
    world.advance(100)
    young = await world.submit()
    await world.store.operator.cancel([young])
    async with world.unchanged():
        assert await world.store.recovery.archive(100.0) == [], "finished just as long ago is not older"
    before = await world.dump()
    world.advance(1)
    assert await world.store.recovery.archive(100.0) == [old]
    after = await world.dump()
    for table in ("jobs", "tasks", "audit", "artifacts"):
        gone = [row for row in before[table] if row not in after[table]]
        assert gone, table
        if f"{table}_archive" in after:
            assert sorted(after[f"{table}_archive"], key=repr) == sorted(gone, key=repr), table
    async with world.unchanged():
        assert await world.store.recovery.archive(100.0) == []
    assert {job.id for job in await world.store.read.jobs()} == {live, young}
    await _is_not_found(world.store.read.job(old))
    place = await world.store.read.job_place(old)
    seen = {job.id for job in await world.store.read.jobs(before=place)}
    assert seen == {live} & {job.id for job in await world.store.read.jobs() if _edge(job) < _edge(place)}
    await _is_not_found(world.store.read.job_place("job_nobody"))
    assert await world.store.read.events(job_id=old) == []
    assert await world.store.read.artifacts(old) == []


@case()
async def oldest_first_and_no_more_than_the_limit(world: World) -> None:
    pipeline = world.pipeline()
    jobs = await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(5)])
    for job_id in reversed(jobs):
        await world.store.operator.cancel([job_id])
        world.advance(1)
    first = await world.store.recovery.archive(0.0, limit=3)
    assert sorted(first) == sorted(jobs[2:])
    assert sorted(await world.store.recovery.archive(0.0, limit=3)) == sorted(jobs[:2])
    tables = await world.dump()
    for table in ARCHIVE_TABLES:
        if table in tables and table.startswith(("jobs", "tasks")):
            assert len(tables[table]) == 5, table


@case()
async def a_late_report_on_an_archived_task_is_refused(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    await world.store.operator.cancel([job_id])
    world.advance(1)
    assert await world.store.recovery.archive(0.0) == [job_id]
    async with world.unchanged():
        answers = [await world.complete(lease), await world.renew(lease), await world.release(lease)]
    assert {(answer.accepted, answer.order) for answer in answers} == {(False, "lost")}


def _edge(job: ListedJob | JobPlace) -> tuple[datetime, str]:
    return job.created_at, job.id


async def _is_not_found(asked: Awaitable[object]) -> None:
    try:
        await asked
    except NotFound:
        return
    raise AssertionError("it is still there")
