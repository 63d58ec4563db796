"""Releasing: the task goes back unfinished, and its attempt is given back a few times."""

from takeup.core.plan import NewJob
from takeup.core.policy import REFUNDS_MAX
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World


@case(any_clock=True)
async def a_release_gives_the_attempt_back(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    async with world.logs("task release RUNNING>READY"):
        answer = await world.release(lease)
    assert (answer.accepted, answer.status) == (True, "READY")
    task = await world.task(job_id)
    assert (task.status, task.attempt, task.refunds, task.epoch) == ("READY", 0, 1, 1)
    assert (task.lease_owner, task.error) == (None, None)
    again = await world.lease()
    assert (again.attempt, again.token.epoch) == (1, 2)
    assert again.token.nonce != lease.token.nonce


@case()
async def refunds_end_and_then_attempts_do(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.pipeline(world.stage("work", attempts=2)))
    for count in range(1, REFUNDS_MAX + 1):
        await world.release(await world.lease())
        task = await world.task(job_id)
        assert (task.attempt, task.refunds, task.status) == (0, count, "READY")
    lease = await world.lease()
    assert lease.attempt == 1
    await world.release(lease)
    task = await world.task(job_id)
    assert (task.attempt, task.refunds, task.status) == (1, REFUNDS_MAX, "READY")
    last = await world.lease()
    assert last.attempt == 2
    async with world.logs("task give_up RUNNING>FAILED", "job fail processing>failed"):
        answer = await world.release(last)
    assert (answer.accepted, answer.status) == (True, "FAILED")
    task = await world.task(job_id)
    assert (task.attempt, task.refunds, task.epoch) == (2, REFUNDS_MAX, REFUNDS_MAX + 2)
    assert task.error is not None
    assert (await world.store.read.job(job_id)).status == "failed"


@case()
async def a_release_keeps_the_error_and_the_place_in_line(world: World) -> None:
    await world.add_worker()
    pipeline = world.pipeline()
    first = await world.submit(pipeline)
    await world.fail(await world.lease(), "once", after_s=0.0)
    await world.store.recovery.wake()
    world.advance(1)
    await world.submit(pipeline)
    lease = await world.lease()
    assert lease.job_id == first
    await world.release(lease)
    assert (await world.task(first)).error == "once"
    assert (await world.lease()).job_id == first


@case()
async def a_lease_that_is_over_releases_nothing(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    world.advance(LEASE_S)
    async with world.unchanged():
        answer = await world.release(lease)
    assert (answer.accepted, answer.order) == (False, "lost")


@case()
async def many_at_once_with_their_reason(world: World) -> None:
    await world.add_worker()
    pipeline = world.pipeline()
    await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(3)])
    leases = await world.claim(limit=3)
    held = [lease.held for lease in leases]
    answers = await world.store.worker.release("w", held, reason="shutting down", request_id="bye")
    assert [answer.status for answer in answers] == ["READY"] * 3
    ends = [event for event in await world.events() if event.event == "release"]
    assert {(event.reason, event.request_id) for event in ends} == {("shutting down", "bye")}
    assert len(ends) == 3
    async with world.unchanged():
        assert await world.store.worker.release("w", []) == []


@case()
async def a_reason_is_stored_as_far_as_it_can_be(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.pipeline(world.stage("work", attempts=1)))
    for _ in range(REFUNDS_MAX + 1):
        lease = await world.lease()
        (answer,) = await world.store.worker.release("w", [lease.held], reason="x" * 5000 + "\x00cause")
        assert answer.accepted
    task = await world.task(job_id)
    assert task.status == "FAILED"
    assert task.error is not None
    assert (len(task.error) <= 2000, "cause" in task.error, "\x00" in task.error) == (True, True, False)
