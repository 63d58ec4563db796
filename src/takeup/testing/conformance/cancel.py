"""Cancelling jobs: the tokens are void at once; and what cannot be changed any more."""

from takeup.core.errors import IllegalMove, InvalidInput, NotFound, VersionMismatch
from takeup.core.pipeline import Stage
from takeup.core.plan import NewJob
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World


@case(any_clock=True)
async def every_live_task_is_cancelled(world: World) -> None:
    await world.add_worker()
    stages: list[Stage | str] = ["done", "running", "ready", "error", world.stage("new", needs=("ready",))]
    job_id = await world.submit(world.pipeline(*stages), subject="s")
    leases = {lease.stage: lease for lease in await world.claim(limit=9)}
    await world.finish(leases["done"])
    await world.release(leases["ready"])
    await world.fail(leases["error"])
    async with world.logs(
        "task cancel RUNNING>CANCELLED",
        "task cancel READY>CANCELLED",
        "task cancel ERROR>CANCELLED",
        "task cancel NEW>CANCELLED",
        "job cancel processing>cancelled",
    ):
        assert await world.store.operator.cancel([job_id], reason="why") == [job_id]
    statuses = {task.stage: task.status for task in await world.store.read.tasks(job_id)}
    assert statuses.pop("done") == "DONE"
    assert set(statuses.values()) == {"CANCELLED"}
    cancelled = [event for event in await world.events(job_id) if event.event == "cancel"]
    assert {event.reason for event in cancelled if event.noun == "task"} == {"why"}
    async with world.unchanged():
        answer = await world.complete(leases["running"])
    assert (answer.accepted, answer.order) == (False, "cancel")
    async with world.unchanged():
        assert await world.store.operator.cancel([job_id]) == []
    await world.submit(subject="s")


@case()
async def many_jobs_are_cancelled_at_once(world: World) -> None:
    pipeline = world.pipeline()
    jobs = await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(4)])
    await world.store.operator.cancel(jobs[:1])
    assert sorted(await world.store.operator.cancel([*jobs, jobs[1]])) == sorted(jobs[1:])
    async with world.unchanged():
        assert await world.store.operator.cancel([]) == []


@case()
async def unknown_jobs_change_nothing(world: World) -> None:
    job_id = await world.submit()
    async with world.refuses(NotFound):
        await world.store.operator.cancel([job_id, "job_nobody"])
    async with world.refuses(NotFound):
        await world.store.operator.set_control(["job_nobody"], "PAUSED")
    async with world.refuses(NotFound):
        await world.store.operator.set_priority([job_id, "job_nobody"], 1)
    async with world.refuses(NotFound):
        await world.store.operator.set_task_control([(await world.task(job_id)).id, 10**9], "PAUSED")


@case()
async def a_cancelled_splitter_leaves_nothing_behind(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.fan())
    await world.lease()
    await world.store.operator.cancel([job_id])
    assert await world.job_status(job_id) == "cancelled"
    split_done = await world.submit(world.fan())
    await world.finish(await world.lease(), {"segments": 3})
    await world.store.operator.cancel([split_done])
    counts = await world.store.read.task_counts(split_done)
    assert counts == {
        ("split", "DONE"): 1,
        ("encode", "CANCELLED"): 3,
        ("check", "CANCELLED"): 3,
        ("join", "CANCELLED"): 1,
    }
    assert await world.job_status(split_done) == "cancelled"


@case()
async def a_finished_job_with_an_unsplit_stage_stays_as_it_is(world: World) -> None:
    await world.add_worker()
    stages: list[Stage | str] = ["split", "bad", world.stage("encode", needs=("split",), each="segment")]
    job_id = await world.submit(world.pipeline(*stages))
    leases = {lease.stage: lease for lease in await world.claim(limit=2)}
    await world.finish(leases["split"], {"segments": 3})
    await world.fail(leases["bad"], retryable=False)
    assert await world.job_status(job_id) == "failed"
    async with world.unchanged():
        assert await world.store.operator.cancel([job_id]) == []
        await world.advance_jobs(job_id)


@case()
async def priority_changes_for_all_that_is_not_finished(world: World) -> None:
    await world.add_worker()
    pipeline = world.chain("a", "b")
    jobs = [await world.submit(pipeline, priority=5) for _ in range(2)]
    async with world.logs("job set_priority pending>pending"):
        assert await world.store.operator.set_priority([jobs[1]], 10) == [jobs[1]]
    job = await world.store.read.job(jobs[1])
    assert (job.priority, job.version) == (10, 2)
    assert {task.priority for task in await world.store.read.tasks(jobs[1])} == {10}
    lease = await world.lease()
    assert (lease.job_id, lease.priority) == (jobs[1], 10)
    await world.finish(lease)
    await world.store.operator.set_priority([jobs[1]], 0)
    assert [task.priority for task in await world.store.read.tasks(jobs[1])] == [10, 0]
    for priority in (11, -1, True, 2.5):
        async with world.refuses(InvalidInput):
            await world.store.operator.set_priority(jobs, priority)  # type: ignore[arg-type]


@case()
async def a_change_may_name_the_version_it_was_made_on(world: World) -> None:
    job_id = await world.submit()
    await world.store.operator.set_control([job_id], "PAUSED", version=1)
    async with world.refuses(VersionMismatch):
        await world.store.operator.set_control([job_id], "READY", version=1)
    async with world.refuses(VersionMismatch):
        await world.store.operator.set_priority([job_id], 1, version=1)
    await world.store.operator.set_priority([job_id], 1, version=2)
    assert (await world.store.read.job(job_id)).version == 3


@case()
async def a_finished_job_cannot_be_changed(world: World) -> None:
    await world.add_worker()
    done, live = await world.submit(), await world.submit()
    await world.finish(await world.lease())
    assert await world.job_status(done) == "completed"
    async with world.refuses(IllegalMove):
        await world.store.operator.set_priority([live, done], 1)
    async with world.refuses(IllegalMove):
        await world.store.operator.cancel([live, done], must_be_live=True)
    for control in ("READY", "PAUSED", "SKIP"):
        async with world.refuses(IllegalMove):
            await world.store.operator.set_control([live, done], control)
        async with world.refuses(IllegalMove):
            task_ids = [(await world.task(job_id)).id for job_id in (live, done)]
            await world.store.operator.set_task_control(task_ids, control)
