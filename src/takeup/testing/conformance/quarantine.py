"""The error budget: who fails what others finish gets nothing new, until an operator lets it back."""

from collections.abc import Sequence
from typing import get_args

from takeup.core.budget import ErrorBudget, Excuse, Judged
from takeup.core.errors import InvalidInput
from takeup.core.model import Lease, Task
from takeup.core.pipeline import Pipeline
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World

TWO = ErrorBudget(tasks=2, window_s=600.0)


async def judge(world: World, budget: ErrorBudget = TWO) -> Judged:
    """One look of recovery."""
    return await world.store.recovery.quarantine(budget)


async def add_pair(world: World) -> Pipeline:
    """A worker that will fail and one that finishes, both with plenty of slots."""
    await world.add_worker("bad", 100)
    await world.add_worker("good", 100)
    return world.pipeline()


async def fail_one(world: World, worker_id: str, error: str = "boom", excuse: Excuse | None = None) -> None:
    """The worker claims and fails a task, which is due again a second later."""
    await world.fail(await world.lease(worker_id), error, after_s=0.0, excuse=excuse)
    world.advance(1)
    await world.store.recovery.wake()


async def fail_then_finish(
    world: World,
    pipeline: Pipeline,
    count: int = 1,
    *,
    error: str = "boom",
    excuse: Excuse | None = None,
    after: Sequence[str] = ("good",),
) -> None:
    """Tasks that `bad` fails, then all but the last of the others, and that the last one finishes."""
    for _ in range(count):
        await world.submit(pipeline)
        await fail_one(world, "bad", error, excuse)
        for name in after[:-1]:
            await fail_one(world, name)
        await world.finish(await world.lease(after[-1]))


async def quarantined(world: World) -> Lease:
    """`bad` in quarantine, holding one task; one more waits."""
    pipeline = await add_pair(world)
    await world.submit(pipeline)
    held = await world.lease("bad")
    await fail_then_finish(world, pipeline, 2)
    await world.submit(pipeline)
    assert (await judge(world)).quarantined == ("bad",)
    return held


@case()
async def who_fails_what_another_finishes_is_quarantined(world: World) -> None:
    pipeline = await add_pair(world)
    await fail_then_finish(world, pipeline)
    async with world.unchanged():
        assert await judge(world) == Judged(), "one task is within the budget"
    await fail_then_finish(world, pipeline)
    async with world.logs("worker quarantine active>active"):
        assert await judge(world) == Judged(quarantined=("bad",))
    bad, good = [await world.store.read.worker(name) for name in ("bad", "good")]
    assert (bad.status, bad.disabled, good.quarantined_at, good.quarantine_reason) == (
        "active",
        False,
        None,
        None,
    )
    event = (await world.events())[-1]
    assert (event.actor, event.reason, event.logged_at) == (
        "recovery",
        bad.quarantine_reason,
        bad.quarantined_at,
    )
    assert "failed 2 tasks within 600 s" in (event.reason or "")
    async with world.unchanged():
        assert await judge(world) == Judged(), "it is quarantined already"


@case()
async def a_quarantined_worker_gets_nothing_new(world: World) -> None:
    await quarantined(world)
    (waiting,) = [task for task in await all_tasks(world) if task.status == "READY"]
    async with world.unchanged():
        assert await world.claim("bad") == []
        assert await world.store.worker.claim_task(world.request("bad"), waiting.id) is None
    assert [lease.task_id for lease in await world.claim("good")] == [waiting.id]


@case()
async def a_quarantined_worker_finishes_what_it_holds(world: World) -> None:
    held = await quarantined(world)
    assert (await world.renew(held)).order == "continue"
    await world.finish(held)


@case()
async def its_claim_repeated_is_answered_the_same(world: World) -> None:
    pipeline = await add_pair(world)
    await world.submit(pipeline)
    request = world.request("bad")
    leases = await world.store.worker.claim(request)
    await fail_then_finish(world, pipeline, 2)
    assert (await judge(world)).quarantined == ("bad",)
    assert await world.store.worker.claim(request) == leases


@case()
async def nothing_but_an_operator_lets_it_back(world: World) -> None:
    await quarantined(world)
    before = await world.store.read.worker("bad")
    world.advance(1)
    assert await world.store.worker.heartbeat(["bad"]) == {"bad": "quarantined"}
    await world.add_worker("bad", 100)
    await world.store.worker.leave(["bad"])
    assert await world.store.recovery.forget_workers(0.0) == []
    assert await world.store.worker.heartbeat(["bad"]) == {"bad": "quarantined"}
    await world.store.operator.disable(["bad"])
    assert await world.store.worker.heartbeat(["bad"]) == {"bad": "disabled"}
    after = await world.store.read.worker("bad")
    assert (after.quarantined_at, after.quarantine_reason) == (
        before.quarantined_at,
        before.quarantine_reason,
    )
    assert await world.claim("bad") == []
    async with world.logs("worker enable active>active"):
        await world.store.operator.enable(["bad"])
    assert await world.store.worker.heartbeat(["bad"]) == {"bad": "active"}
    assert len(await world.claim("bad")) == 1


@case()
async def what_it_failed_before_is_forgiven(world: World) -> None:
    pipeline = await add_pair(world)
    await fail_then_finish(world, pipeline, 2)
    await judge(world)
    await world.store.operator.enable(["bad"])
    assert (await world.store.read.worker("bad")).quarantine_reason is None
    async with world.unchanged():
        assert await judge(world) == Judged()
    world.advance(1)
    await fail_then_finish(world, pipeline)
    assert await judge(world) == Judged()
    await fail_then_finish(world, pipeline)
    assert (await judge(world)).quarantined == ("bad",)


@case()
async def one_task_counts_once(world: World) -> None:
    pipeline = await add_pair(world)
    await world.submit(pipeline)
    for _ in range(2):
        await fail_one(world, "bad")
    await world.finish(await world.lease("good"))
    assert await judge(world) == Judged()


@case()
async def what_others_fail_too_is_nobodys_fault(world: World) -> None:
    pipeline = await add_pair(world)
    await world.add_worker("third", 100)
    await fail_then_finish(world, pipeline, 3, after=("third", "good"))
    assert await judge(world) == Judged()


@case()
async def what_it_finishes_itself_in_the_end_is_not_counted(world: World) -> None:
    await fail_then_finish(world, await add_pair(world), 3, after=("bad",))
    assert await judge(world) == Judged()


@case()
async def what_fails_everywhere_is_not_counted(world: World) -> None:
    pipeline = await add_pair(world)
    for _ in range(3):
        job_id = await world.submit(pipeline)
        for name in ("bad", "good", "bad"):
            await fail_one(world, name)
        assert await world.job_status(job_id) == "failed"
    assert await judge(world) == Judged()


@case()
async def what_is_handed_back_lost_or_cancelled_is_not_counted(world: World) -> None:
    pipeline = await add_pair(world)
    for _ in range(2):
        await world.submit(pipeline)
        await world.release(await world.lease("bad"))
        await world.finish(await world.lease("good"))
        await world.submit(pipeline)
        await world.lease("bad")
        world.advance(60)
        assert await world.store.recovery.expire()
        await world.finish(await world.lease("good"))
        job_id = await world.submit(pipeline)
        lease = await world.lease("bad")
        await world.store.operator.cancel([job_id])
        assert not (await world.fail(lease)).accepted
    assert await judge(world) == Judged()


@case()
async def what_others_are_to_blame_for_is_not_counted(world: World) -> None:
    pipeline = await add_pair(world)
    for excuse in get_args(Excuse):
        await fail_then_finish(world, pipeline, 3, excuse=excuse)
        (*_, failed) = [event for event in await world.events() if event.event == "fail"]
        assert failed.excuse == excuse
    assert await judge(world) == Judged()


@case()
async def words_that_a_stage_can_say_excuse_nothing(world: World) -> None:
    pipeline = await add_pair(world)
    for words in ("it asked to be tried again", "its outputs were not taken"):
        await fail_then_finish(world, pipeline, error=f"{words}: no device")
    assert (await judge(world)).quarantined == ("bad",)


@case()
async def what_is_older_than_the_window_is_not_counted(world: World) -> None:
    pipeline = await add_pair(world)
    await fail_then_finish(world, pipeline)
    world.advance(TWO.window_s)
    await fail_then_finish(world, pipeline)
    assert await judge(world) == Judged()
    await fail_then_finish(world, pipeline)
    assert (await judge(world)).quarantined == ("bad",)


@case()
async def who_finishes_as_much_of_the_same_is_not_quarantined(world: World) -> None:
    pipeline, other = await add_pair(world), world.pipeline()
    await fail_then_finish(world, pipeline, 2)
    await finish(world, other, 5)
    await finish(world, pipeline, 2)
    async with world.unchanged():
        assert await judge(world) == Judged()
    await fail_then_finish(world, pipeline)
    assert (await judge(world)).quarantined == ("bad",), "what it finishes of something else does not help"


async def finish(world: World, pipeline: Pipeline, count: int) -> None:
    """Tasks that `bad` finishes."""
    for _ in range(count):
        await world.submit(pipeline)
        await world.finish(await world.lease("bad"))


@case()
async def at_most_half_of_those_who_serve_a_lane_are_quarantined(world: World) -> None:
    pipeline = await add_pair(world)
    await world.add_worker("third", 100)
    await fail_then_finish(world, pipeline, 2)
    for _ in range(3):
        await world.submit(pipeline)
        await fail_one(world, "third")
        await world.finish(await world.lease("good"))
    assert await judge(world) == Judged(quarantined=("third",), spared=("bad",)), "the worst goes first"
    async with world.unchanged():
        assert (await judge(world)).spared == ("bad",)
    await world.add_worker("fourth", 1)
    assert await judge(world) == Judged(quarantined=("bad",))


@case()
async def the_last_who_can_do_what_waits_is_spared(world: World) -> None:
    pipeline = await add_pair(world)
    await world.add_worker("bad", 100, capabilities=("gpu",))
    await fail_then_finish(world, pipeline, 2)
    waiting = await world.submit(world.pipeline(world.stage("work", requires=("gpu",))))
    async with world.unchanged():
        assert await judge(world) == Judged(spared=("bad",))
    await world.store.operator.set_control([waiting], "PAUSED")
    assert await judge(world) == Judged(quarantined=("bad",)), "nothing waits that may begin"


@case()
async def the_last_one_online_is_spared(world: World) -> None:
    await fail_then_finish(world, await add_pair(world), 2)
    await world.store.worker.leave(["good"])
    async with world.unchanged():
        assert await judge(world) == Judged(spared=("bad",))


@case()
async def who_left_is_judged_and_finds_itself_quarantined(world: World) -> None:
    pipeline = await add_pair(world)
    for _ in range(2):
        await world.submit(pipeline)
        await world.add_worker("bad", 100)
        await fail_one(world, "bad")
        await world.store.worker.leave(["bad"])
        await world.finish(await world.lease("good"))
    async with world.logs("worker quarantine offline>offline"):
        assert await judge(world) == Judged(quarantined=("bad",))
    async with world.unchanged():
        assert await judge(world) == Judged(), "it is quarantined already"
    await world.submit(pipeline)
    await world.add_worker("bad", 100)
    assert await world.store.worker.heartbeat(["bad"]) == {"bad": "quarantined"}
    assert await world.claim("bad") == []
    async with world.logs("worker enable active>active"):
        await world.store.operator.enable(["bad"])
    assert len(await world.claim("bad")) == 1


@case()
async def who_drains_is_judged_too(world: World) -> None:
    await fail_then_finish(world, await add_pair(world), 2)
    await world.store.operator.drain(["bad"])
    async with world.logs("worker quarantine draining>draining"):
        assert await judge(world) == Judged(quarantined=("bad",))


@case()
async def who_left_is_weighed_as_if_it_were_back(world: World) -> None:
    pipeline = await add_pair(world)
    await fail_then_finish(world, pipeline, 2)
    await world.store.worker.leave(["bad", "good"])
    async with world.unchanged():
        assert await judge(world) == Judged(spared=("bad",)), "back, it would be the only one"
    await world.add_worker("good", 100)
    assert await judge(world) == Judged(quarantined=("bad",))


@case()
async def who_is_disabled_is_not_judged(world: World) -> None:
    await fail_then_finish(world, await add_pair(world), 2)
    await world.store.operator.disable(["bad"])
    assert await judge(world) == Judged()


@case()
async def a_budget_of_nothing_is_refused(world: World) -> None:
    async with world.refuses(InvalidInput):
        await judge(world, ErrorBudget(tasks=0))


@case()
async def nothing_is_left_to_a_quarantined_one(world: World) -> None:
    pipeline = await add_pair(world)
    await world.add_worker("bad", 100, capabilities=("gpu",))
    await fail_then_finish(world, pipeline, 2)
    assert (await judge(world)).quarantined == ("bad",)
    await world.submit(world.pipeline(world.stage("work", prefers="gpu")))
    assert len(await world.claim("good", defer_s=60.0)) == 1


async def all_tasks(world: World) -> list[Task]:
    """The tasks of every job."""
    return [task for job in await world.store.read.jobs() for task in await world.store.read.tasks(job.id)]
