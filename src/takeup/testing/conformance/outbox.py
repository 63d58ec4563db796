"""The outbox: every finished job is announced; each message is sent at least once or parked."""

from takeup.core.model import Message
from takeup.core.plan import NewJob
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World


async def announce(world: World, count: int) -> list[str]:
    """Finish as many jobs."""
    pipeline = world.pipeline()
    jobs = await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(count)])
    for job_id in jobs:
        await world.store.operator.cancel([job_id])
    return jobs


async def statuses(world: World) -> list[str]:
    """The state of every message, in their order."""
    rows = (await world.dump())["outbox"]
    return [row["status"] for row in sorted(rows, key=lambda row: int(row["id"]))]


@case(any_clock=True)
async def every_end_of_a_job_is_announced(world: World) -> None:
    await world.add_worker()
    done, failed, cancelled = [await world.submit() for _ in range(3)]
    await world.finish(await world.lease())
    await world.fail(await world.lease(), retryable=False)
    await world.store.operator.cancel([cancelled])
    messages = await world.store.recovery.take_messages()
    assert [(m.topic, m.subject) for m in messages] == [
        ("job.completed", done),
        ("job.failed", failed),
        ("job.cancelled", cancelled),
    ]
    assert [dict(m.body) for m in messages][1] == {"job_id": failed, "status": "failed"}
    assert {(m.status, m.attempt) for m in messages} == {("SENDING", 1)}


@case()
async def a_message_is_taken_by_one_sender(world: World) -> None:
    await announce(world, 3)
    async with world.logs("message take WAITING>SENDING", "message take WAITING>SENDING"):
        first = await world.store.recovery.take_messages(limit=2)
    second = await world.store.recovery.take_messages(limit=2)
    assert [len(first), len(second)] == [2, 1]
    async with world.unchanged():
        assert await world.store.recovery.take_messages() == []
    async with world.logs("message deliver SENDING>SENT", "message deliver SENDING>SENT"):
        assert await world.store.recovery.deliver(first) == [message.id for message in first]
    assert await statuses(world) == ["SENT", "SENT", "SENDING"]
    async with world.unchanged():
        assert await world.store.recovery.deliver(first) == []
        assert await world.store.recovery.retry_messages(first, "late", 1.0) == []
        assert await world.store.recovery.park(first, "late") == []
        assert await world.store.recovery.deliver([]) == []


@case()
async def a_refused_message_is_sent_again_later(world: World) -> None:
    await announce(world, 1)
    (message,) = await world.store.recovery.take_messages()
    async with world.logs("message retry SENDING>WAITING"):
        assert await world.store.recovery.retry_messages([message], "timed out", 30.0) == [message.id]
    event = (await world.events())[-1]
    assert (event.message_id, event.attempt, event.reason) == (message.id, 1, "timed out")
    row = (await world.dump())["outbox"][0]
    assert (row["status"], row["error"], row["finished_at"]) == ("WAITING", "timed out", None)
    world.advance(29)
    assert await world.store.recovery.take_messages() == []
    world.advance(1)
    (again,) = await world.store.recovery.take_messages()
    assert (again.id, again.attempt) == (message.id, 2)
    async with world.logs("message park SENDING>PARKED"):
        assert await world.store.recovery.park([again], "gone for good") == [message.id]
    row = (await world.dump())["outbox"][0]
    assert (row["status"], row["error"]) == ("PARKED", "gone for good")
    assert row["finished_at"] is not None


@case()
async def a_sender_that_died_loses_its_messages(world: World) -> None:
    await announce(world, 1)
    (lost,) = await world.store.recovery.take_messages(lease_s=60.0)
    world.advance(59)
    assert await world.store.recovery.take_messages() == []
    world.advance(1)
    async with world.logs("message free SENDING>WAITING", "message take WAITING>SENDING"):
        (again,) = await world.store.recovery.take_messages(lease_s=60.0)
    assert (again.id, again.attempt) == (lost.id, 2)
    async with world.unchanged():
        for end in (
            world.store.recovery.deliver([lost]),
            world.store.recovery.retry_messages([lost], "late", 0.0),
            world.store.recovery.park([lost], "late"),
        ):
            assert await end == [], "a sender that was too slow changed a message"
    assert await world.store.recovery.deliver([again]) == [again.id]


@case()
async def unknown_messages_change_nothing(world: World) -> None:
    await announce(world, 1)
    (message,) = await world.store.recovery.take_messages()
    ghost = Message(10**9, "t", "s", {}, "SENDING", 1, message.created_at, message.available_at)
    async with world.unchanged():
        assert await world.store.recovery.deliver([ghost]) == []
