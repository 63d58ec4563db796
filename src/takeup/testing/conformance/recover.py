"""Recovery: leases that are over, retries that are due, all by the database's clock."""

from takeup.core.plan import NewJob
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World


@case()
async def a_lease_is_over_exactly_at_its_expiry(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    world.advance(LEASE_S - 0.001)
    async with world.unchanged():
        assert await world.store.recovery.expire() == []
    world.advance(0.001)
    async with world.logs("task expire RUNNING>READY"):
        assert await world.store.recovery.expire() == [lease.task_id]
    task = await world.task(job_id)
    assert (task.status, task.attempt, task.epoch) == ("READY", 1, 1)
    assert (task.lease_owner, task.lease_expires_at, task.finished_at) == (None, None, None)
    assert task.error is not None
    assert "w" in task.error
    event = (await world.events(job_id))[-1]
    assert (event.worker_id, event.epoch, event.reason) == ("w", 1, task.error)
    async with world.unchanged():
        assert await world.store.recovery.expire() == []


@case()
async def a_renewed_lease_is_not_over(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    world.advance(LEASE_S - 1)
    await world.renew(lease)
    world.advance(2)
    assert await world.store.recovery.expire() == []


@case()
async def a_crash_counts_as_an_attempt(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.pipeline(world.stage("work", attempts=2)))
    lease = await world.lease()
    world.advance(LEASE_S)
    await world.store.recovery.expire()
    lease = await world.lease()
    assert (lease.attempt, lease.max_attempts) == (2, 2)
    world.advance(LEASE_S)
    async with world.logs("task bury RUNNING>FAILED", "job fail processing>failed"):
        assert await world.store.recovery.expire() == [lease.task_id]
    task, job = await world.task(job_id), await world.store.read.job(job_id)
    assert (task.status, task.attempt) == ("FAILED", 2)
    assert task.finished_at is not None
    assert job.status == "failed"
    assert job.error == f"work: {task.error}"


@case()
async def expiring_looks_at_leases_not_at_workers(world: World) -> None:
    await world.add_worker("gone")
    await world.add_worker("alive")
    pipeline = world.pipeline()
    await world.store.operator.submit([NewJob(pipeline), NewJob(pipeline)])
    held = await world.lease("gone")
    await world.lease("alive")
    await world.store.worker.leave(["gone"])
    assert await world.store.recovery.expire() == []
    assert (await world.renew(held)).accepted, "an offline worker still holds its lease"
    world.advance(LEASE_S)
    await world.store.worker.heartbeat(["alive"])
    assert len(await world.store.recovery.expire()) == 2, "a heartbeat does not extend a lease"


@case()
async def a_pass_takes_no_more_than_its_limit(world: World) -> None:
    await world.add_worker(slots=100)
    pipeline = world.pipeline()
    await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(7)])
    leases = await world.claim(limit=7)
    world.advance(LEASE_S)
    first = await world.store.recovery.expire(limit=5)
    second = await world.store.recovery.expire(limit=5)
    assert (len(first), len(second)) == (5, 2)
    assert sorted(first + second) == sorted(lease.task_id for lease in leases)
    for lease in await world.claim(limit=7):
        await world.fail(lease, after_s=0.0)
    woken = [await world.store.recovery.wake(limit=4) for _ in range(3)]
    assert [len(ids) for ids in woken] == [4, 3, 0]


@case()
async def waking_goes_by_due_time(world: World) -> None:
    await world.add_worker()
    pipeline = world.pipeline()
    jobs = await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(3)])
    for lease, after_s in zip(await world.claim(limit=3), (30.0, 10.0, 20.0), strict=True):
        await world.fail(lease, after_s=after_s)
    tasks = [await world.task(job_id) for job_id in jobs]
    async with world.unchanged():
        assert await world.store.recovery.wake() == []
    world.advance(10)
    assert await world.store.recovery.wake() == [tasks[1].id]
    world.advance(20)
    assert await world.store.recovery.wake(limit=1) == [tasks[2].id]
    assert await world.store.recovery.wake(limit=1) == [tasks[0].id]
    woken = await world.task(jobs[0])
    assert world.clock is not None
    assert (woken.status, woken.ready_at) == ("READY", world.clock.now())


@case()
async def a_paused_retry_wakes_but_is_not_claimed(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    await world.fail(await world.lease(), after_s=0.0)
    await world.store.operator.set_control([job_id], "PAUSED")
    assert len(await world.store.recovery.wake()) == 1
    assert await world.claim() == []


@case()
async def old_claim_requests_are_forgotten(world: World) -> None:
    await world.add_worker()
    await world.submit()
    request = world.request()
    (lease,) = await world.store.worker.claim(request)
    world.owners[lease.held] = "w"
    await world.release(lease)
    world.advance(100)
    await world.store.recovery.forget_claims(100.0)
    assert await world.store.worker.claim(request) == [], "not older than that"
    world.advance(1)
    await world.store.recovery.forget_claims(100.0)
    assert (await world.dump())["claims"] == []


@case()
async def a_clock_set_back_ends_no_lease_and_loses_none(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    assert world.clock is not None
    world.clock.set_back(1000)
    assert await world.store.recovery.expire() == []
    assert (await world.renew(lease)).accepted
    world.advance(1000 + LEASE_S)
    assert await world.store.recovery.expire() == [lease.task_id]
