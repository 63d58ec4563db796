"""The late worker: a token that was taken back changes nothing, and a repeated answer is the same answer."""

from collections.abc import Awaitable, Callable

from takeup.core.model import Answer, Artifact, Lease
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World

Report = Callable[[World, Lease], Awaitable[Answer]]

FILE = (Artifact("late", "late", "0" * 64, 1),)
REPORTS: dict[str, Report] = {
    "complete": lambda world, lease: world.complete(lease, {"late": True}, FILE),
    "fail": lambda world, lease: world.fail(lease, "late"),
    "give_up": lambda world, lease: world.fail(lease, "late", retryable=False),
    "renew": lambda world, lease: world.renew(lease, 99.0, "late"),
    "release": lambda world, lease: world.release(lease),
}


async def recovered(world: World, second: str, *, by_claim: bool) -> tuple[str, Lease, Lease]:
    """A claims, its lease runs out, and the task belongs to the second worker."""
    await world.add_worker("a")
    if second != "a":
        await world.add_worker(second)
    job_id = await world.submit(world.pipeline(world.stage("work", attempts=20)))
    old = await world.lease("a")
    world.advance(LEASE_S)
    if not by_claim:
        assert await world.store.recovery.expire() == [old.task_id]
    new = await world.lease(second)
    assert (new.task_id, new.token.epoch) == (old.task_id, 2)
    return job_id, old, new


async def try_all(world: World, old: Lease) -> None:
    """Every late report is refused and changes nothing."""
    for name, report in REPORTS.items():
        async with world.unchanged():
            answer = await report(world, old)
        assert (answer.accepted, answer.order) == (False, "lost"), name
        assert answer.reason, name


@case(any_clock=False)
async def a_late_worker_changes_nothing(world: World) -> None:
    job_id, old, new = await recovered(world, "b", by_claim=False)
    await try_all(world, old)
    await world.finish(new, {"winner": "b"})
    await try_all(world, old)
    assert (await world.task(job_id)).result == {"winner": "b"}
    assert await world.store.read.artifacts(job_id) == []


@case()
async def a_late_worker_of_the_same_name_changes_nothing(world: World) -> None:
    job_id, old, new = await recovered(world, "a", by_claim=False)
    await try_all(world, old)
    await world.finish(new, {"winner": 2})
    await try_all(world, old)
    assert (await world.task(job_id)).result == {"winner": 2}


@case()
async def a_late_worker_whose_task_was_taken_by_a_claim(world: World) -> None:
    _, old, new = await recovered(world, "b", by_claim=True)
    await try_all(world, old)
    await world.finish(new)


@case()
async def a_late_worker_after_every_end_of_the_second(world: World) -> None:
    await world.add_worker("a")
    await world.add_worker("b")
    for end in ("fail", "give_up", "release"):
        await world.submit(world.pipeline(world.stage("work", attempts=20)))
        old = await world.lease("a")
        world.advance(LEASE_S)
        new = await world.lease("b")
        assert (await REPORTS[end](world, new)).accepted
        await try_all(world, old)
        await world.store.operator.cancel([old.job_id])
        await try_all(world, old)


@case()
async def a_late_worker_before_anyone_else_claims(world: World) -> None:
    await world.add_worker("a")
    await world.submit()
    old = await world.lease("a")
    world.advance(LEASE_S)
    await try_all(world, old)
    await world.store.recovery.expire()
    await try_all(world, old)
    assert (await world.lease("a")).token.epoch == 2


@case()
async def the_token_of_another_worker_changes_nothing(world: World) -> None:
    await world.add_worker("a")
    await world.add_worker("thief")
    await world.submit()
    lease = await world.lease("a")
    world.owners[lease.held] = "thief"
    await try_all(world, lease)
    world.owners[lease.held] = "a"
    await world.finish(lease)
    world.owners[lease.held] = "thief"
    async with world.unchanged():
        answer = await world.complete(lease, {"late": True})
    assert not answer.accepted, "the winner's answer is the winner's"


@case(any_clock=True)
async def the_same_completion_gets_the_same_answer(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    first = await world.complete(lease, {"n": 1}, FILE)
    assert await world.job_status(job_id) == "completed"
    for _ in range(2):
        async with world.unchanged():
            again = await world.complete(lease, {"n": 1}, FILE)
        assert (again.accepted, again.status) == (first.accepted, first.status) == (True, "DONE")
    for name in ("fail", "give_up", "renew", "release"):
        async with world.unchanged():
            answer = await REPORTS[name](world, lease)
        assert (answer.accepted, answer.status, answer.order) == (False, "DONE", "lost"), name


@case(any_clock=True)
async def the_same_failure_gets_the_same_answer(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    assert (await world.fail(lease, "boom", after_s=0.0)).status == "ERROR"
    for step in (None, world.store.recovery.wake, lambda: world.claim("w")):
        if step is not None:
            await step()
        async with world.unchanged():
            again = await world.fail(lease, "boom", after_s=0.0)
        assert (again.accepted, again.status) == (True, "ERROR")
        async with world.unchanged():
            assert not (await world.complete(lease)).accepted


@case()
async def the_same_last_failure_gets_the_same_answer(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    assert (await world.fail(lease, "boom", retryable=False)).status == "FAILED"
    assert await world.job_status(job_id) == "failed"
    async with world.unchanged():
        again = await world.fail(lease, "boom", retryable=False)
    assert (again.accepted, again.status) == (True, "FAILED")


@case()
async def the_same_release_gets_the_same_answer(world: World) -> None:
    await world.add_worker("a")
    await world.add_worker("b")
    job_id = await world.submit()
    lease = await world.lease("a")
    assert (await world.release(lease)).status == "READY"
    for step in ("ready", "running", "done"):
        async with world.unchanged():
            again = await world.release(lease)
        assert (again.accepted, again.status) == (True, "READY"), step
        if step == "ready":
            new = await world.lease("b")
        if step == "running":
            await world.finish(new)
    assert (await world.task(job_id)).refunds == 1


@case()
async def cancel_and_complete_exactly_one_wins(world: World) -> None:
    await world.add_worker()
    first, second = await world.submit(), await world.submit()
    one, two = await world.claim(limit=2)
    await world.store.operator.cancel([first])
    async with world.unchanged():
        assert not (await world.complete(one)).accepted
    await world.finish(two)
    async with world.unchanged():
        assert await world.store.operator.cancel([second]) == []
    assert [await world.job_status(i) for i in (first, second)] == ["cancelled", "completed"]
