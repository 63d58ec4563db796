"""What is removed besides archived jobs: messages that are done with, and workers that are gone."""

from takeup.testing.conformance.outbox import announce, statuses
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World


@case()
async def a_message_outlives_its_job(world: World) -> None:
    recovery = world.store.recovery
    await announce(world, 3)
    sent, parked, _ = await recovery.take_messages()
    await recovery.deliver([sent])
    await recovery.park([parked], "nobody listens")
    world.advance(100)
    async with world.unchanged():
        assert await recovery.forget_messages(10.0, 10.0) == 0, "its job is still here"
    assert len(await recovery.archive(10.0)) == 3
    async with world.unchanged():
        assert await recovery.forget_messages(100.0, 100.0) == 0, "just as old is not older"
    assert await recovery.forget_messages(99.0, 100.0) == 1
    assert await statuses(world) == ["PARKED", "SENDING"]
    left = {(e.event, e.message_id) for e in await world.events() if e.noun == "message"}
    assert sent.id not in {message_id for _, message_id in left}, "its log stays behind"
    assert ("park", parked.id) in left
    assert await recovery.forget_messages(99.0, 99.0) == 1
    assert await statuses(world) == ["SENDING"], "what is still to be sent stays"


@case()
async def no_more_messages_than_the_limit_oldest_first(world: World) -> None:
    recovery = world.store.recovery
    await announce(world, 5)
    for message in reversed(await recovery.take_messages()):
        await recovery.deliver([message])
        world.advance(1)
    await recovery.archive(0.0)
    world.advance(1)
    assert await recovery.forget_messages(0.0, 0.0, limit=2) == 2
    left = sorted(int(row["id"]) for row in (await world.dump())["outbox"])
    assert len(left) == 3
    assert left == list(range(left[0], left[0] + 3))
    assert await recovery.forget_messages(0.0, 0.0, limit=2) == 2
    assert await recovery.forget_messages(0.0, 0.0, limit=2) == 1
    assert await recovery.forget_messages(0.0, 0.0, limit=2) == 0


@case()
async def workers_that_are_gone_are_forgotten(world: World) -> None:
    recovery, operator = world.store.recovery, world.store.operator
    for name in ("active", "away", "gone", "holding", "off"):
        await world.add_worker(name)
    await operator.disable(["off"])
    await world.submit()
    lease = await world.lease("holding")
    world.advance(30)
    await world.store.worker.heartbeat(["active", "away"])
    world.advance(70)
    await world.store.worker.heartbeat(["active"])
    assert await recovery.lose_workers(60.0) == ["away", "gone", "holding", "off"]
    async with world.unchanged():
        assert await recovery.forget_workers(100.0) == [], "silent for just as long is not longer"
    assert await recovery.forget_workers(71.0) == ["gone"]
    assert [w.id for w in await world.store.read.workers()] == ["active", "away", "holding", "off"]
    assert "gone" not in {event.worker_id for event in await world.events()}
    world.advance(1000)
    await recovery.expire()
    assert await recovery.forget_workers(100.0, limit=1) == ["away"]
    assert await recovery.forget_workers(100.0, limit=1) == ["holding"]
    assert await recovery.forget_workers(100.0) == [], "who was switched off stays known"
    claims = [event for event in await world.events(lease.job_id) if event.worker_id == "holding"]
    assert claims, "the log of a job tells who held it"
    await world.add_worker("gone", slots=2)
    worker = await world.store.read.worker("gone")
    assert (worker.status, worker.incarnation) == ("active", 1)


@case()
async def months_are_made_ahead_and_only_once(world: World) -> None:
    await world.store.recovery.add_months(3)
    async with world.unchanged():
        assert await world.store.recovery.add_months(3) == 0
        assert await world.store.recovery.add_months(0) == 0
