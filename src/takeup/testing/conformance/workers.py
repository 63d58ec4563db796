"""Workers: register, heartbeat, drain, leave, be lost, be disabled."""

from typing import Any

from takeup.core.errors import AlreadyStarted, InvalidInput, NotFound, WorkerRefused
from takeup.core.model import Lease, Progress, WorkerSpec
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World


@case(any_clock=True)
async def a_worker_registers(world: World) -> None:
    spec = WorkerSpec(
        "w1", "Worker One", "remote", 3, frozenset({"gpu", "av1"}), ("a/*", "b/c"), {"host": "h"}
    )
    async with world.logs("worker register >active"):
        await world.store.worker.register(spec)
    worker = await world.store.read.worker("w1")
    assert (worker.id, worker.name, worker.kind, worker.slots) == ("w1", "Worker One", "remote", 3)
    assert (worker.status, worker.disabled, worker.incarnation, worker.load) == ("active", False, 1, 0)
    assert (worker.capabilities, worker.stages) == (frozenset({"gpu", "av1"}), ("a/*", "b/c"))
    assert (dict(worker.metadata), worker.last_heartbeat_at) == ({"host": "h"}, None)


@case()
async def a_worker_registers_again(world: World) -> None:
    await world.add_worker("w", 1, capabilities=("gpu",))
    await world.submit()
    await world.lease()
    world.advance(5)
    await world.store.worker.heartbeat(["w"])
    world.advance(5)
    async with world.logs("worker register active>active", "task cut RUNNING>RUNNING"):
        await world.add_worker("w", 4, name="new")
    worker = await world.store.read.worker("w")
    assert (worker.name, worker.slots, worker.incarnation) == ("new", 4, 2)
    assert (worker.capabilities, worker.last_heartbeat_at, worker.load) == (frozenset(), None, 1)
    assert world.clock is not None
    assert worker.registered_at == world.clock.now()
    await world.store.operator.drain(["w"])
    async with world.logs("worker register draining>active"):
        await world.add_worker("w")
    await world.store.worker.leave(["w"])
    async with world.logs("worker register offline>active"):
        await world.add_worker("w")


@case()
async def a_registration_that_comes_again_cuts_nothing(world: World) -> None:
    async def register(process: str) -> bool | None:
        """Whether it was the latest that came again; None if it was new."""
        try:
            await world.store.worker.register(WorkerSpec("w", process=process))
        except AlreadyStarted as again:
            return again.is_latest
        return None

    async def holds(lease: Lease) -> bool:
        (answer,) = await world.store.worker.renew("w", [Progress(lease.held)])
        return answer.accepted

    assert await register("one") is None
    await world.submit()
    lease = await world.lease()
    assert await register("one") is True
    assert await holds(lease)
    assert await register("two") is None
    assert not await holds(lease)
    await world.store.recovery.expire()
    lease = await world.lease()
    assert await register("one") is False
    assert await register("two") is True
    assert await holds(lease)


@case()
async def a_bad_worker_is_refused(world: World) -> None:
    bad: list[dict[str, Any]] = [
        {"id": ""},
        {"id": "x" * 201},
        {"id": "a\nb"},
        {"slots": 0},
        {"slots": 1001},
        {"kind": "cloud"},
        {"stages": ()},
        {"stages": ("encode",)},
        {"stages": ("a/b/c",)},
        {"capabilities": frozenset({"GPU!"})},
        {"metadata": {"a": {1}}},
        {"metadata": {"a": "\x00"}},
        {"name": "a\x00b"},
    ]
    for options in bad:
        async with world.unchanged():
            try:
                await world.store.worker.register(WorkerSpec(**{"id": "w", **options}))
            except InvalidInput:
                continue
            raise AssertionError(f"a worker with {options} was taken")


@case()
async def a_heartbeat_tells_the_status(world: World) -> None:
    for name in ("a", "b", "c", "d"):
        await world.add_worker(name)
    await world.store.operator.drain(["b"])
    await world.store.worker.leave(["c"])
    await world.store.operator.disable(["d"])
    world.advance(7)
    async with world.logs("worker revive offline>active"):
        statuses = await world.store.worker.heartbeat(["a", "b", "c", "d", "nobody"])
    assert statuses == {"a": "active", "b": "draining", "c": "active", "d": "disabled"}
    assert world.clock is not None
    beats = {worker.id: worker.last_heartbeat_at for worker in await world.store.read.workers()}
    assert beats == {"a": world.clock.now(), "b": world.clock.now(), "c": world.clock.now(), "d": None}
    async with world.unchanged():
        assert await world.store.worker.heartbeat([]) == {}
        assert await world.store.worker.heartbeat(["nobody"]) == {}


@case()
async def a_worker_serves_lanes_that_came_after_it(world: World) -> None:
    await world.add_worker()
    await world.store.worker.heartbeat(["w"])
    await world.submit()
    assert len(await world.claim()) == 1


@case()
async def draining_and_leaving(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.add_worker(name)
    async with world.logs("worker drain active>draining", "worker drain active>draining"):
        assert await world.store.operator.drain(["b", "a", "b"]) == ["a", "b"]
    async with world.unchanged():
        assert await world.store.operator.drain(["a"]) == []
    async with world.logs("worker leave draining>offline", "worker leave active>offline"):
        assert await world.store.worker.leave(["a", "c"]) == ["a", "c"]
    async with world.unchanged():
        assert await world.store.worker.leave(["a", "c"]) == []
        assert await world.store.operator.drain(["a"]) == []
        assert await world.store.operator.drain([]) == []
    for change in (
        world.store.operator.drain,
        world.store.worker.leave,
        world.store.operator.disable,
        world.store.operator.enable,
    ):
        async with world.refuses(NotFound):
            await change(["b", "nobody"])


@case()
async def a_silent_worker_is_lost(world: World) -> None:
    await world.add_worker("silent")
    await world.add_worker("draining")
    await world.add_worker("beating")
    await world.add_worker("left")
    await world.store.operator.drain(["draining"])
    await world.store.worker.leave(["left"])
    world.advance(60)
    await world.store.worker.heartbeat(["beating"])
    async with world.unchanged():
        assert await world.store.recovery.lose_workers(60.0) == [], "silent for just as long is not lost"
    world.advance(0.001)
    async with world.logs("worker lose draining>offline"):
        assert await world.store.recovery.lose_workers(60.0, limit=1) == ["draining"]
    async with world.logs("worker lose active>offline"):
        assert await world.store.recovery.lose_workers(60.0) == ["silent"]
    statuses = {worker.id: worker.status for worker in await world.store.read.workers()}
    assert statuses == {"silent": "offline", "draining": "offline", "beating": "active", "left": "offline"}


@case()
async def losing_a_worker_ends_no_lease(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    world.advance(30)
    assert await world.store.recovery.lose_workers(10.0) == ["w"]
    assert await world.status(job_id) == "RUNNING"
    assert (await world.renew(lease)).accepted
    await world.finish(lease)


@case()
async def a_disabled_worker_is_refused_until_enabled(world: World) -> None:
    await world.add_worker()
    async with world.logs("worker disable active>active"):
        await world.store.operator.disable(["w"], reason="bad disk")
    assert (await world.events())[-1].reason == "bad disk"
    assert (await world.store.read.worker("w")).disabled
    async with world.refuses(WorkerRefused):
        await world.add_worker()
    async with world.unchanged():
        assert await world.store.worker.heartbeat(["w"]) == {"w": "disabled"}
    async with world.logs("worker enable active>active"):
        await world.store.operator.enable(["w"])
    await world.add_worker()
    assert (await world.store.read.worker("w")).incarnation == 2


@case()
async def a_disabled_worker_can_be_lost_but_not_revived(world: World) -> None:
    await world.add_worker()
    await world.store.operator.disable(["w"])
    world.advance(100)
    assert await world.store.recovery.lose_workers(10.0) == ["w"]
    async with world.unchanged():
        assert await world.store.worker.heartbeat(["w"]) == {"w": "disabled"}
    await world.store.operator.enable(["w"])
    async with world.logs("worker revive offline>active"):
        assert await world.store.worker.heartbeat(["w"]) == {"w": "active"}


@case()
async def a_new_process_of_a_worker_ends_the_leases_of_the_old_one(world: World) -> None:
    """Registered again, the worker holds nothing: the old token is void, the task is taken back at once."""
    await world.add_worker("w", slots=2)
    await world.add_worker("other")
    job_id = await world.submit(world.pipeline(world.stage("main", attempts=2)))
    (lease,) = await world.claim("w")
    await world.add_worker("w", slots=2)
    (answer,) = await world.store.worker.renew("w", [Progress(lease.held, 10.0)])
    assert (answer.accepted, answer.order) == (False, "lost")
    (taken,) = await world.claim("other")
    assert (taken.task_id, taken.attempt, taken.token.epoch) == (lease.task_id, 2, 2)
    names = [event.event for event in await world.events(job_id) if event.task_id == lease.task_id]
    assert names == ["create", "claim", "cut", "expire", "claim"]
