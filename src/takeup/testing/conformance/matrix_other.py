"""The machines of jobs, workers and outbox messages: every state × every move, as their tables say."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from takeup.core.errors import IllegalMove
from takeup.core.machine import JOB, OUTBOX, PHASES, WORKER, Machine
from takeup.core.model import Message, Worker
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World, line_of

SILENT_S = 100.0


async def new_lines(world: World, noun: str, act: Callable[[], Awaitable[object]]) -> list[str]:
    """The audit rows of this noun that an action writes."""
    last = max((event.seq for event in await world.events()), default=0)
    await act()
    return [line_of(e) for e in await world.events() if e.seq > last and e.noun == noun]


def expected(machine: Machine, move: str, state: str) -> list[str]:
    """The audit row of a move that the table allows from this state."""
    made = machine.move(move)
    return [f"{machine.noun} {move} {state}>{made.target}"] if state in made.sources else []


@case()
async def a_job_enters_later_phases_only(world: World) -> None:
    await world.add_worker(slots=1000)
    for state in PHASES:
        for phase in PHASES[1:]:
            stages = [world.stage("next", phase=phase)]
            if state != "pending":
                stages.insert(0, world.stage("open", phase=state))
            job_id = await world.submit(world.pipeline(*stages, name="enter"))
            if state != "pending":
                assert (await world.lease()).stage == "open"
            assert await world.job_status(job_id) == state
            lines = await new_lines(world, "job", world.lease)
            assert lines == expected(JOB, f"enter_{phase}", state), (state, phase)
            await world.store.operator.cancel([job_id])


@case()
async def a_job_ends_from_every_phase(world: World) -> None:
    await world.add_worker(slots=1000)
    for phase in PHASES[1:]:
        for move in ("complete", "fail", "cancel"):
            job_id = await world.submit(world.pipeline(world.stage("work", phase=phase), name="end"))
            lease = await world.lease()
            act: dict[str, Callable[[], Awaitable[object]]] = {
                "complete": partial(world.complete, lease),
                "fail": partial(world.fail, lease, retryable=False),
                "cancel": partial(world.store.operator.cancel, [job_id]),
            }
            assert await new_lines(world, "job", act[move]) == expected(JOB, move, phase)
            assert await world.job_status(job_id) == JOB.move(move).target
    cancelled = await world.submit()
    await world.store.operator.cancel([cancelled])
    skipped = await world.submit()
    await world.store.operator.set_control([skipped], "SKIP")
    assert [await world.job_status(i) for i in (cancelled, skipped)] == ["cancelled", "completed"]


@case()
async def a_finished_job_never_changes(world: World) -> None:
    await world.add_worker()
    for state in JOB.final:
        job_id = await world.submit(subject="s")
        lease = await world.lease()
        if state == "completed":
            await world.finish(lease)
        elif state == "failed":
            await world.fail(lease, retryable=False)
        else:
            await world.store.operator.cancel([job_id])
        assert await world.job_status(job_id) == state
        async with world.unchanged():
            assert await world.store.operator.cancel([job_id]) == []
            await world.advance_jobs(job_id)
            await world.store.recovery.expire()
            await world.store.recovery.wake()
            assert await world.claim() == []
            for report in (world.complete, world.fail, world.release, world.renew):
                await report(lease)
        for control in ("READY", "PAUSED", "SKIP"):
            async with world.refuses(IllegalMove):
                await world.store.operator.set_control([job_id], control)
        async with world.refuses(IllegalMove):
            await world.store.operator.set_priority([job_id], 3)


@case()
async def every_move_of_a_worker_from_every_state(world: World) -> None:
    number = 0
    for state in WORKER.states:
        for move in WORKER.moves:
            number += 1
            name = f"w{number}"
            await world.add_worker(name)
            await bring(world, name, state)
            world.advance(SILENT_S + 1)
            try_move: dict[str, Callable[[], Awaitable[object]]] = {
                "register": partial(world.add_worker, name),
                "revive": partial(world.store.worker.heartbeat, [name]),
                "drain": partial(world.store.operator.drain, [name]),
                "leave": partial(world.store.worker.leave, [name]),
                "lose": partial(world.store.recovery.lose_workers, SILENT_S),
            }
            lines = await new_lines(world, "worker", try_move[move.name])
            assert lines == expected(WORKER, move.name, state), (state, move.name)
            status = (await world.store.read.worker(name)).status
            assert status == (move.target if state in move.sources else state), (state, move.name)
            await bring(world, name, "offline")


async def bring(world: World, name: str, state: str) -> Worker:
    """Bring a worker into this state."""
    worker = await world.store.read.worker(name)
    if state != worker.status and state == "draining":
        await world.store.operator.drain([name])
    elif state != worker.status and state == "offline":
        await world.store.worker.leave([name])
    worker = await world.store.read.worker(name)
    assert worker.status == state
    return worker


@case()
async def every_move_of_a_message_from_every_state(world: World) -> None:
    for state in OUTBOX.states:
        for move in OUTBOX.moves:
            message = await message_in(world, state)
            if move.name == "free":
                world.advance(60)
            lines = await new_lines(world, "message", partial(send, world, move.name, message))
            wanted = expected(OUTBOX, move.name, state)
            if move.name == "free" and wanted:
                wanted += expected(OUTBOX, "take", "WAITING")
            if move.name == "free" and state == "WAITING":
                wanted = expected(OUTBOX, "take", "WAITING")
            assert lines == wanted, (state, move.name, lines)
            await clear(world)


@case()
async def a_message_of_an_older_attempt_changes_nothing(world: World) -> None:
    for name in ("deliver", "retry", "park"):
        old = await message_in(world, "SENDING")
        world.advance(60)
        (new,) = await world.store.recovery.take_messages()
        async with world.unchanged():
            assert await send(world, name, old) == []
            assert await send(world, name, replace(new, id=new.id + 1000)) == []
        assert await send(world, name, new) == [new.id]
        await clear(world)


async def message_in(world: World, state: str) -> Message:
    """A message in this state."""
    job_id = await world.submit(world.pipeline(name="announce"))
    await world.store.operator.cancel([job_id])
    if state == "WAITING":
        moment = await world.store.read.now()
        newest: dict[str, Any] = max((await world.dump())["outbox"], key=lambda row: int(row["id"]))
        return Message(newest["id"], "t", job_id, {}, "WAITING", newest["attempt"], moment, moment)
    (message,) = await world.store.recovery.take_messages()
    if state == "SENT":
        await world.store.recovery.deliver([message])
    elif state == "PARKED":
        await world.store.recovery.park([message], "gone")
    return message


async def send(world: World, move: str, message: Message) -> object:
    """Try a move of a message."""
    recovery = world.store.recovery
    if move in ("take", "free"):
        return await recovery.take_messages()
    if move == "deliver":
        return await recovery.deliver([message])
    if move == "retry":
        return await recovery.retry_messages([message], "later", 0.0)
    return await recovery.park([message], "gone")


async def clear(world: World) -> None:
    """Deliver whatever is left."""
    world.advance(1000)
    await world.store.recovery.deliver(await world.store.recovery.take_messages())
