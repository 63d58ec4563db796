"""The orchestrator: what can go on goes on, what is doomed is abandoned, what is done is closed."""

from takeup.core.pipeline import Stage
from takeup.store.ops.orchestrate import Advance
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World


@case(any_clock=True)
async def a_task_is_ready_when_all_its_needs_are_done(world: World) -> None:
    await world.add_worker()
    pipeline = world.pipeline("a", "b", world.stage("c", needs=("a", "b")))
    job_id = await world.submit(pipeline)
    one, two = await world.claim(limit=2)
    async with world.unchanged():
        assert await world.store.orchestrator.advance([job_id]) == Advance()
    await world.finish(one)
    async with world.unchanged():
        assert await world.store.orchestrator.advance([job_id]) == Advance()
    await world.finish(two)
    assert await world.job_status(job_id) == "processing"
    async with world.logs("task ready NEW>READY"):
        assert await world.store.orchestrator.advance([job_id]) == Advance(ready=1)
    async with world.unchanged():
        assert await world.store.orchestrator.advance([job_id]) == Advance()
    lease = await world.lease()
    assert lease.stage == "c"
    await world.finish(lease)
    assert await world.job_status(job_id) == "completed"


@case()
async def a_skipped_need_counts_as_done(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.chain("a", "b", "c"))
    task = await world.task(job_id, "a")
    await world.store.operator.set_task_control([task.id], "SKIP")
    assert await world.store.orchestrator.advance([job_id]) == Advance(ready=1)
    assert [await world.status(job_id, s) for s in "abc"] == ["SKIPPED", "READY", "NEW"]


@case()
async def a_need_that_will_be_retried_holds_its_dependents(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.chain("a", "b"))
    await world.fail(await world.lease(), after_s=0.0)
    assert await world.store.orchestrator.advance([job_id]) == Advance()
    await world.store.recovery.wake()
    assert await world.store.orchestrator.advance([job_id]) == Advance()
    await world.finish(await world.lease())
    assert await world.store.orchestrator.advance([job_id]) == Advance(ready=1)


@case()
async def what_waits_is_abandoned_when_a_task_failed(world: World) -> None:
    await world.add_worker()
    stages: list[Stage | str] = ["bad", "running", "ready", "error", world.stage("new", needs=("ready",))]
    job_id = await world.submit(world.pipeline(*stages))
    leases = {lease.stage: lease for lease in await world.claim(limit=9)}
    await world.release(leases["ready"])
    await world.fail(leases["error"], after_s=0.0)
    await world.fail(leases["bad"], "broken", retryable=False)
    assert await world.job_status(job_id) == "processing"
    async with world.logs(
        "task abandon READY>CANCELLED", "task abandon ERROR>CANCELLED", "task abandon NEW>CANCELLED"
    ):
        assert await world.store.orchestrator.advance([job_id]) == Advance(abandoned=3)
    assert await world.status(job_id, "running") == "RUNNING"
    async with world.logs("task release RUNNING>READY"):
        await world.release(leases["running"])
    async with world.logs("task abandon READY>CANCELLED", "job fail processing>failed"):
        assert await world.store.orchestrator.advance([job_id]) == Advance(abandoned=1, closed=1)
    assert (await world.store.read.job(job_id)).error == "bad: broken"
    async with world.unchanged():
        assert await world.store.orchestrator.advance([job_id]) == Advance()


@case()
async def a_job_is_cancelled_when_nothing_failed(world: World) -> None:
    job_id = await world.submit(world.chain("a", "b"))
    other = await world.submit()
    await world.store.operator.cancel([job_id])
    job = await world.store.read.job(job_id)
    assert (job.status, job.error) == ("cancelled", None)
    assert await world.job_status(other) == "pending"


@case()
async def a_pass_stops_at_its_limit(world: World) -> None:
    await world.add_worker()
    stages = [world.stage("a"), *(world.stage(f"b{n}", needs=("a",)) for n in range(5))]
    job_id = await world.submit(world.pipeline(*stages))
    await world.finish(await world.lease())
    passes = [await world.store.orchestrator.advance([job_id], limit=2) for _ in range(3)]
    assert [(one.ready, one.has_more) for one in passes] == [(2, True), (2, True), (1, False)]
    await world.fail(await world.lease(), retryable=False)
    passes = [await world.store.orchestrator.advance([job_id], limit=3) for _ in range(2)]
    assert [(one.abandoned, one.has_more, one.closed) for one in passes] == [(3, True, 0), (1, False, 1)]


@case()
async def jobs_advance_apart(world: World) -> None:
    await world.add_worker()
    pipeline = world.chain("a", "b")
    jobs = [await world.submit(pipeline) for _ in range(3)]
    for lease in await world.claim(limit=3):
        await world.finish(lease)
    assert await world.store.orchestrator.advance(jobs[:1]) == Advance(ready=1)
    assert [await world.status(job_id, "b") for job_id in jobs] == ["READY", "NEW", "NEW"]
    assert await world.store.orchestrator.advance([*jobs, jobs[0]]) == Advance(ready=2)
    async with world.unchanged():
        assert await world.store.orchestrator.advance([]) == Advance()
        assert await world.store.orchestrator.advance(["job_nobody"]) == Advance()


@case()
async def live_jobs_come_in_windows(world: World) -> None:
    await world.add_worker()
    jobs = sorted([await world.submit() for _ in range(5)])
    done = (await world.lease()).job_id
    await world.store.operator.cancel([done])
    live = [job_id for job_id in jobs if job_id != done]
    assert await world.store.orchestrator.live_jobs() == live
    first = await world.store.orchestrator.live_jobs(limit=3)
    assert first == live[:3]
    assert await world.store.orchestrator.live_jobs(after=first[-1], limit=3) == live[3:]


@case()
async def a_paused_job_gets_ready_but_is_not_claimed(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.chain("a", "b"))
    lease = await world.lease()
    await world.store.operator.set_control([job_id], "PAUSED")
    await world.finish(lease)
    assert await world.store.orchestrator.advance([job_id]) == Advance(ready=1)
    assert await world.claim() == []
    await world.store.operator.set_control([job_id], "READY")
    assert (await world.lease()).stage == "b"
