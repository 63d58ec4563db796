"""Preferred workers: a lane's work is left to them, but only to free ones, and only for a while."""

from takeup.core.plan import NewJob
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World

DEFER_S = 60.0


async def submit_many(world: World, count: int, **options: object) -> list[str]:
    """Jobs of one stage that prefers a GPU."""
    pipeline = world.pipeline(world.stage("work", prefers="gpu", **options))
    return await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(count)])


async def add_pair(world: World, gpu_slots: int = 4) -> None:
    """A worker that the lane prefers and one that it does not."""
    await world.add_worker("gpu", gpu_slots, capabilities=("gpu",))
    await world.add_worker("cpu", 100)


@case()
async def work_is_left_to_an_idle_preferred_worker(world: World) -> None:
    await add_pair(world)
    await submit_many(world, 1)
    async with world.unchanged():
        assert await world.claim("cpu", defer_s=DEFER_S) == []
    assert len(await world.claim("gpu", defer_s=DEFER_S)) == 1


@case()
async def it_is_left_for_a_bounded_time_only(world: World) -> None:
    await add_pair(world)
    await submit_many(world, 1)
    world.advance(DEFER_S - 1)
    await world.store.worker.heartbeat(["gpu"])
    assert await world.claim("cpu", defer_s=DEFER_S) == []
    world.advance(1)
    await world.store.worker.heartbeat(["gpu"])
    assert len(await world.claim("cpu", defer_s=DEFER_S)) == 1


@case()
async def without_a_wait_it_is_taken_at_once(world: World) -> None:
    await add_pair(world)
    await submit_many(world, 1)
    assert len(await world.claim("cpu", defer_s=0.0)) == 1


@case()
async def few_slots_reserve_as_few_tasks(world: World) -> None:
    await add_pair(world, gpu_slots=2)
    jobs = await submit_many(world, 5)
    got = await world.claim("cpu", 100, defer_s=DEFER_S)
    assert [lease.job_id for lease in got] == jobs[2:], "the first two are the preferred worker's"
    assert await world.claim("cpu", 100, defer_s=DEFER_S) == []
    assert [lease.job_id for lease in await world.claim("gpu", 100, defer_s=DEFER_S)] == jobs[:2]


@case()
async def the_slots_of_several_preferred_workers_add_up(world: World) -> None:
    await add_pair(world, gpu_slots=2)
    await world.add_worker("gpu2", 1, capabilities=("gpu", "more"))
    jobs = await submit_many(world, 5)
    assert [lease.job_id for lease in await world.claim("cpu", 100, defer_s=DEFER_S)] == jobs[3:]


@case()
async def nothing_is_left_to_one_that_cannot_take_it(world: World) -> None:
    await world.add_worker("gpu", 4, capabilities=("gpu",), stages=("other/*",))
    await world.add_worker("weak", 4, capabilities=("gpu",))
    await world.add_worker("cpu", 100, capabilities=("av1",))
    await submit_many(world, 1, requires=("av1",))
    assert len(await world.claim("cpu", defer_s=DEFER_S)) == 1


@case()
async def nothing_is_left_to_one_that_takes_nothing_new(world: World) -> None:
    for name in ("draining", "disabled", "offline"):
        await world.add_worker(name, 4, capabilities=("gpu",))
    await world.add_worker("cpu", 100)
    await world.store.operator.drain(["draining"])
    await world.store.operator.disable(["disabled"])
    await world.store.worker.leave(["offline"])
    await submit_many(world, 1)
    assert len(await world.claim("cpu", defer_s=DEFER_S)) == 1


@case()
async def nothing_is_left_to_a_silent_one(world: World) -> None:
    await add_pair(world)
    world.advance(DEFER_S)
    await submit_many(world, 2)
    assert len(await world.claim("cpu", defer_s=DEFER_S)) == 1
    await world.store.worker.heartbeat(["gpu"])
    assert await world.claim("cpu", defer_s=DEFER_S) == []


@case()
async def nothing_is_left_to_a_full_one(world: World) -> None:
    await add_pair(world, gpu_slots=1)
    await submit_many(world, 3)
    assert len(await world.claim("gpu", 9)) == 1
    assert len(await world.claim("cpu", 9, defer_s=DEFER_S)) == 2


@case()
async def an_overfull_preferred_worker_reserves_nothing(world: World) -> None:
    await add_pair(world, gpu_slots=3)
    await submit_many(world, 5)
    assert len(await world.claim("gpu", 9)) == 3
    await world.add_worker("gpu", 1, capabilities=("gpu",))
    assert len(await world.claim("cpu", defer_s=DEFER_S)) == 1


@case()
async def urgent_work_of_another_lane_is_not_held_up(world: World) -> None:
    await add_pair(world)
    await submit_many(world, 1)
    plain = await world.submit(priority=0)
    assert [lease.job_id for lease in await world.claim("cpu", 9, defer_s=DEFER_S)] == [plain]
