"""Failing: back-off, attempts, and the end for good."""

from datetime import timedelta

from takeup.core.errors import InvalidInput
from takeup.core.model import Failure
from takeup.core.plan import NewJob
from takeup.core.policy import RetryPolicy
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World


@case()
async def a_failure_is_retried_after_its_back_off(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    world.advance(5)
    async with world.logs("task fail RUNNING>ERROR"):
        answer = await world.fail(lease, "disk full")
    assert (answer.accepted, answer.status) == (True, "ERROR")
    task = await world.task(job_id)
    assert world.clock is not None
    assert (task.status, task.error, task.attempt) == ("ERROR", "disk full", 1)
    assert task.available_at == world.clock.now() + timedelta(seconds=10)
    assert (task.lease_owner, task.finished_at) == (None, None)
    event = (await world.events(job_id))[-1]
    assert (event.reason, event.available_at) == ("disk full", task.available_at)
    world.advance(9.5)
    assert (await world.store.recovery.wake(), await world.claim()) == ([], [])
    world.advance(0.5)
    assert await world.claim() == [], "an ERROR is not claimed before it was woken"
    async with world.logs("task wake ERROR>READY"):
        assert await world.store.recovery.wake() == [task.id]
    second = await world.lease()
    assert (second.attempt, second.token.epoch) == (2, 2)
    assert (await world.task(job_id)).error == "disk full"
    await world.finish(second)
    assert (await world.task(job_id)).error is None


@case()
async def back_off_grows_and_attempts_end(world: World) -> None:
    await world.add_worker()
    stage = world.stage("work", retry=RetryPolicy(max_attempts=4, initial_s=8.0, multiplier=2.0, cap_s=20.0))
    job_id = await world.submit(world.pipeline(stage))
    assert world.clock is not None
    for delay_s in (8, 16, 20):
        assert (await world.fail(await world.lease())).status == "ERROR"
        available_at = (await world.task(job_id)).available_at
        assert available_at == world.clock.now() + timedelta(seconds=delay_s)
        world.advance(delay_s)
        await world.store.recovery.wake()
    last = await world.lease()
    assert last.attempt == last.max_attempts == 4
    async with world.logs("task give_up RUNNING>FAILED", "job fail processing>failed"):
        answer = await world.fail(last, "no good")
    assert (answer.accepted, answer.status) == (True, "FAILED")
    task, job = await world.task(job_id), await world.store.read.job(job_id)
    assert (task.status, task.error, task.attempt) == ("FAILED", "no good", 4)
    assert task.finished_at is not None
    assert (job.status, job.error) == ("failed", "work: no good")


@case()
async def jitter_shortens_the_back_off(world: World) -> None:
    await world.add_worker()
    stage = world.stage("work", retry=RetryPolicy(max_attempts=3, initial_s=16.0, jitter=0.5))
    job_id = await world.submit(world.pipeline(stage))
    await world.fail(await world.lease())
    assert world.clock is not None
    wait = (await world.task(job_id)).available_at - world.clock.now()
    assert wait == timedelta(seconds=12), "half of the jitter is this store's luck"


@case()
async def the_worker_may_say_when(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    await world.fail(await world.lease(), after_s=500.0)
    assert world.clock is not None
    assert (await world.task(job_id)).available_at == world.clock.now() + timedelta(seconds=500)
    world.advance(500)
    await world.store.recovery.wake()
    await world.fail(await world.lease(), after_s=0)
    assert (await world.task(job_id)).available_at == world.clock.now()
    await world.store.recovery.wake()
    assert (await world.lease()).attempt == 3


@case()
async def a_delay_without_bounds_is_refused(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    for after_s in (float("nan"), float("inf"), 1e300, -1.0):
        async with world.refuses(InvalidInput):
            await world.fail(lease, after_s=after_s)


@case()
async def what_cannot_be_retried_fails_at_once(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    async with world.logs(
        "task claim READY>RUNNING",
        "job enter_processing pending>processing",
        "task give_up RUNNING>FAILED",
        "job fail processing>failed",
    ):
        answer = await world.fail(await world.lease(), "bad file", retryable=False)
    assert answer.status == "FAILED"
    assert (await world.task(job_id)).attempt == 1


@case()
async def an_error_with_a_sign_is_final_the_second_time_in_a_row(world: World) -> None:
    await world.add_worker()
    stage = world.stage("work", retry=RetryPolicy(kind="fixed", max_attempts=9, initial_s=1.0))
    job_id = await world.submit(world.pipeline(stage))
    for error, sign in (
        ("crash: one", "crash: "),
        ("other", ""),
        ("crash: two", "crash: "),
        ("hang: x", "hang: "),
    ):
        assert (await world.fail(await world.lease(), error, sign=sign)).status == "ERROR"
        world.advance(1)
        await world.store.recovery.wake()
    last = await world.lease()
    async with world.logs("task give_up RUNNING>FAILED", "job fail processing>failed"):
        assert (await world.fail(last, "hang: y", sign="hang: ")).status == "FAILED"
    task = await world.task(job_id)
    assert (task.attempt, task.error) == (5, "hang: y; the same as the last time, so it is not tried again")
    assert (await world.events(job_id))[-2].reason == task.error


@case()
async def one_attempt_means_one(world: World) -> None:
    await world.add_worker()
    for retry in (RetryPolicy(max_attempts=1), RetryPolicy(kind="none", max_attempts=5)):
        await world.submit(world.pipeline(world.stage("work", retry=retry)))
        lease = await world.lease()
        assert lease.max_attempts == 1
        assert (await world.fail(lease)).status == "FAILED"


@case()
async def a_fixed_back_off_stays(world: World) -> None:
    await world.add_worker()
    stage = world.stage("work", retry=RetryPolicy(kind="fixed", max_attempts=3, initial_s=7.0))
    job_id = await world.submit(world.pipeline(stage))
    assert world.clock is not None
    for _ in range(2):
        await world.fail(await world.lease())
        assert (await world.task(job_id)).available_at == world.clock.now() + timedelta(seconds=7)
        world.advance(7)
        await world.store.recovery.wake()


@case(any_clock=True)
async def an_error_is_stored_as_far_as_it_can_be(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    answer = await world.fail(await world.lease(), "x" * 5000 + "\x00cause\ud800", retryable=False)
    assert answer.accepted
    task, job = await world.task(job_id), await world.store.read.job(job_id)
    for error in (task.error, job.error):
        assert error is not None
        assert (len(error) <= 2000, "cause" in error, "\x00" in error) == (True, True, False)


@case()
async def the_first_failed_task_names_the_jobs_error(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.pipeline("b", "a"))
    leases = await world.claim(limit=2)
    reports = [Failure(lease.held, f"error of {lease.stage}", retryable=False) for lease in leases]
    answers = await world.store.worker.fail("w", reports, request_id="r")
    assert [answer.status for answer in answers] == ["FAILED", "FAILED"]
    assert (await world.store.read.job(job_id)).error == "a: error of a"
    assert [event.request_id for event in (await world.events(job_id))[-3:]] == ["r"] * 3


@case()
async def a_lease_that_is_over_fails_nothing(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    world.advance(LEASE_S)
    async with world.unchanged():
        answer = await world.fail(lease, retryable=False)
    assert (answer.accepted, answer.order) == (False, "lost")


@case()
async def many_with_different_ends(world: World) -> None:
    await world.add_worker()
    pipeline = world.pipeline()
    jobs = await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(3)])
    leases = await world.claim(limit=3)
    await world.store.operator.cancel([jobs[2]])
    reports = [
        Failure(leases[1].held, "one", retryable=False),
        Failure(leases[2].held, "two"),
        Failure(leases[0].held, "three"),
    ]
    answers = await world.store.worker.fail("w", reports)
    assert [(a.accepted, a.status) for a in answers] == [
        (True, "FAILED"),
        (False, "CANCELLED"),
        (True, "ERROR"),
    ]
    assert [(await world.task(i)).error for i in jobs] == ["three", "one", None]
    async with world.unchanged():
        assert await world.store.worker.fail("w", []) == []
