"""The claim of one named task: every guard of a claim holds for it too."""

from datetime import timedelta

from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World


@case(any_clock=True)
async def a_named_task_is_leased_before_more_urgent_ones(world: World) -> None:
    await world.add_worker()
    pipeline = world.pipeline(world.stage("work", phase="planning"))
    await world.submit(pipeline, priority=10)
    job_id = await world.submit(pipeline, priority=0)
    task = await world.task(job_id)
    request = world.request()
    async with world.logs("task claim READY>RUNNING", "job enter_planning pending>planning"):
        lease = await world.store.worker.claim_task(request, task.id)
    assert lease is not None
    assert (lease.task_id, lease.job_id, lease.attempt, lease.token.epoch) == (task.id, job_id, 1, 1)
    held = await world.store.read.task(task.id)
    assert (held.status, held.lease_owner, held.lease_slot) == ("RUNNING", "w", 1)
    assert held.lease_expires_at == lease.expires_at
    world.owners[lease.held] = "w"
    await world.finish(lease)
    assert await world.job_status(job_id) == "completed"


@case()
async def the_same_request_for_a_task_gives_the_same_lease(world: World) -> None:
    await world.add_worker()
    one, two = [await world.task(await world.submit()) for _ in range(2)]
    request = world.request()
    lease = await world.store.worker.claim_task(request, one.id)
    assert lease is not None
    async with world.unchanged():
        assert await world.store.worker.claim_task(request, one.id) == lease
        assert await world.store.worker.claim_task(request, two.id) == lease, "never another one"
        assert await world.store.worker.claim(request) == [lease]
    world.owners[lease.held] = "w"
    await world.finish(lease)
    async with world.unchanged():
        assert await world.store.worker.claim_task(request, two.id) is None


@case()
async def two_claimers_of_one_task_get_one_lease(world: World) -> None:
    await world.add_worker("w1")
    await world.add_worker("w2")
    task = await world.task(await world.submit())
    assert await world.store.worker.claim_task(world.request("w1"), task.id)
    async with world.unchanged():
        assert await world.store.worker.claim_task(world.request("w2"), task.id) is None
        assert await world.store.worker.claim_task(world.request("w1"), task.id) is None


@case()
async def a_named_task_must_be_ready_due_and_not_paused(world: World) -> None:
    assert world.clock is not None
    await world.add_worker()
    chained = await world.submit(world.chain("a", "b"))
    later = await world.submit(world.pipeline(), not_before=world.clock.now() + timedelta(seconds=10))
    paused_job, paused_task, failed = [await world.submit() for _ in range(3)]
    await world.store.operator.set_control([paused_job], "PAUSED")
    await world.store.operator.set_task_control([(await world.task(paused_task)).id], "PAUSED")
    lease = await world.store.worker.claim_task(world.request(), (await world.task(failed)).id)
    assert lease is not None
    world.owners[lease.held] = "w"
    await world.fail(lease, retryable=False)
    ids = [(await world.task(chained, "b")).id]
    ids += [(await world.task(job_id)).id for job_id in (later, paused_job, paused_task, failed)]
    async with world.unchanged():
        for task_id in (*ids, 999_999):
            assert await world.store.worker.claim_task(world.request(), task_id) is None, task_id


@case()
async def a_named_task_needs_a_worker_that_may_do_it(world: World) -> None:
    pipeline = world.pipeline(world.stage("work", requires=("gpu",)), name="pipe")
    task = await world.task(await world.submit(pipeline))
    await world.add_worker("plain")
    await world.add_worker("elsewhere", capabilities=("gpu",), stages=("other/*",))
    for name in ("drained", "gone", "off", "able"):
        await world.add_worker(name, capabilities=("gpu",), stages=("pipe/work",))
    await world.store.operator.drain(["drained"])
    await world.store.worker.leave(["gone"])
    await world.store.operator.disable(["off"])
    async with world.unchanged():
        for name in ("nobody", "plain", "elsewhere", "drained", "gone", "off"):
            assert await world.store.worker.claim_task(world.request(name), task.id) is None, name
    assert await world.store.worker.claim_task(world.request("able"), task.id) is not None


@case()
async def a_named_task_takes_a_free_slot(world: World) -> None:
    await world.add_worker(slots=2)
    tasks = [await world.task(await world.submit()) for _ in range(3)]
    leases = [await world.store.worker.claim_task(world.request(), task.id) for task in tasks[:2]]
    async with world.unchanged():
        assert await world.store.worker.claim_task(world.request(), tasks[2].id) is None
    assert leases[0] is not None
    world.owners[leases[0].held] = "w"
    await world.finish(leases[0])
    assert await world.store.worker.claim_task(world.request(), tasks[2].id) is not None
    assert (await world.store.read.task(tasks[2].id)).lease_slot == 1


@case()
async def a_named_task_whose_lease_is_over_changes_hands(world: World) -> None:
    await world.add_worker("w1", slots=1)
    await world.add_worker("w2")
    pipeline = world.pipeline(world.stage("work", attempts=3))
    task = await world.task(await world.submit(pipeline))
    first = await world.store.worker.claim_task(world.request("w1"), task.id)
    world.advance(LEASE_S)
    async with world.logs("task expire RUNNING>READY", "task claim READY>RUNNING"):
        second = await world.store.worker.claim_task(world.request("w2"), task.id)
    assert first is not None
    assert second is not None
    assert (second.attempt, second.token.epoch) == (2, 2)
    world.owners[first.held] = "w1"
    async with world.unchanged():
        assert not (await world.complete(first)).accepted
    world.advance(LEASE_S)
    third = await world.store.worker.claim_task(world.request("w1"), task.id)
    assert third is not None, "the slot it used is its own lease that is over"
    world.advance(LEASE_S)
    async with world.logs("task bury RUNNING>FAILED", "job fail processing>failed"):
        assert await world.store.worker.claim_task(world.request("w2"), task.id) is None
