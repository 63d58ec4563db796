"""Every state of a task × every move × every kind of token: exactly what the machine table says."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from takeup.core.errors import IllegalMove
from takeup.core.ids import Token
from takeup.core.machine import TASK, WAITING, Move
from takeup.core.model import Answer, Completion, Event, Failure, Held, Progress
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World

BACK_OFF_S = 10.0
SIDE_LEASE_S = 80_000.0
KINDS = ("right", "stale", "forged", "stranger", "none")
SAME = {
    "complete": {"complete"},
    "fail": {"fail", "give_up"},
    "give_up": {"fail", "give_up"},
    "release": {"release", "give_up"},
    "renew": set[str](),
}
"""Which end of a token makes a report a repetition, which is answered the same again."""
ENDS = {"ERROR": "fail", "DONE": "complete", "FAILED": "give_up", "CANCELLED": "cancel", "SKIPPED": "revoke"}


@dataclass
class Subject:
    """One task in a chosen state, with the tokens it has had: `old` ended by a release, `new` came after."""

    job_id: str
    task_id: int
    side: Any
    old: Held | None = None
    new: Held | None = None


async def build(world: World, state: str, attempts: int = 20) -> Subject:
    """Bring a task into this state by legal operations only."""
    stages = [
        world.stage("gate"),
        world.stage("main", needs=("gate",), attempts=attempts),
        world.stage("side", lease_s=SIDE_LEASE_S),
    ]
    job_id = await world.submit(world.pipeline(*stages, name="matrix"))
    leases = {lease.stage: lease for lease in await world.claim("a", 2)}
    await world.finish(leases["gate"])
    subject = Subject(job_id, (await world.task(job_id, "main")).id, leases["side"])
    if state == "NEW":
        return subject
    await world.advance_jobs(job_id)
    lease = await world.lease()
    subject.old = subject.new = lease.held
    await world.release(lease)
    if state == "READY":
        return subject
    lease = await world.lease()
    subject.new = lease.held
    if state == "ERROR":
        await world.fail(lease, after_s=BACK_OFF_S)
    elif state == "DONE":
        await world.finish(lease)
    elif state == "FAILED":
        await world.fail(lease, retryable=False)
    elif state == "CANCELLED":
        await world.store.operator.cancel([job_id])
    elif state == "SKIPPED":
        await world.store.operator.set_task_control([subject.task_id], "SKIP")
    assert (await world.store.read.task(subject.task_id)).status == state
    return subject


def token(subject: Subject, kind: str) -> tuple[str, Held]:
    """A token of this kind and the worker that shows it."""
    nothing = Held(subject.task_id, Token(0, ""))
    new, old = subject.new or nothing, subject.old or nothing
    forged = Held(subject.task_id, Token(new.token.epoch, "f" * 32))
    return {
        "right": ("w", new),
        "stale": ("w", old),
        "forged": ("w", forged),
        "stranger": ("b", new),
        "none": ("w", nothing),
    }[kind]


async def report(world: World, name: str, worker_id: str, held: Held) -> Answer:
    """A holder's move."""
    worker = world.store.worker
    reports: dict[str, Callable[[], Awaitable[list[Answer]]]] = {
        "renew": lambda: worker.renew(worker_id, [Progress(held, 50.0)]),
        "complete": lambda: worker.complete(worker_id, [Completion(held, {"by": worker_id})]),
        "fail": lambda: worker.fail(worker_id, [Failure(held, "boom")]),
        "give_up": lambda: worker.fail(worker_id, [Failure(held, "boom", retryable=False)]),
        "release": lambda: worker.release(worker_id, [held]),
    }
    return (await reports[name]())[0]


Try = Callable[[World, Subject], Awaitable[object]]


async def _skip(world: World, subject: Subject) -> None:
    try:
        await world.store.operator.set_task_control([subject.task_id], "SKIP")
    except IllegalMove:
        status = (await world.store.read.task(subject.task_id)).status
        assert status in TASK.final, status


OTHERS: dict[str, Try] = {
    "ready": lambda world, subject: world.store.orchestrator.advance([subject.job_id]),
    "abandon": lambda world, subject: world.store.orchestrator.advance([subject.job_id]),
    "claim": lambda world, _: world.claim("w", 9),
    "cut": lambda world, _: world.add_worker("w"),
    "expire": lambda world, _: world.store.recovery.expire(),
    "bury": lambda world, _: world.store.recovery.expire(),
    "wake": lambda world, _: world.store.recovery.wake(),
    "revoke": _skip,
    "skip": _skip,
    "cancel": lambda world, subject: world.store.operator.cancel([subject.job_id]),
}
"""How a move that needs no token is tried through the facades."""


async def prepare(world: World, subject: Subject, name: str) -> None:
    """See to it that the guard of the move holds, whatever the state."""
    if name == "abandon":
        await world.fail(subject.side, retryable=False)
    elif name in ("expire", "bury"):
        world.advance(LEASE_S)
    elif name in ("wake", "claim"):
        world.advance(BACK_OFF_S)


def expected_events(state: str, name: str) -> list[str]:
    """The moves that trying this one makes: itself if the table allows it, and a skip revokes first."""
    if name in ("skip", "revoke"):
        return ["revoke", "skip"] if state == "RUNNING" else ["skip"] if state in WAITING else []
    return [name] if state in TASK.move(name).sources else []


async def events_of(world: World, subject: Subject) -> list[Event]:
    """The task's own audit rows."""
    return [event for event in await world.events(subject.job_id) if event.task_id == subject.task_id]


async def try_accepted(world: World, state: str, move: Move) -> None:
    """A move that the table allows: the new state and one audit row that says it."""
    subject = await build(world, state, attempts=1 if move.name == "bury" else 20)
    await prepare(world, subject, move.name)
    before = await events_of(world, subject)
    if move.fenced:
        answer = await report(world, move.name, *token(subject, "right"))
        assert (answer.accepted, answer.status) == (True, move.target), (state, move.name, answer)
    else:
        await OTHERS[move.name](world, subject)
    new = (await events_of(world, subject))[len(before) :]
    assert [event.event for event in new] == expected_events(state, move.name), (state, move.name, new)
    status = state
    for event in new:
        made = TASK.move(event.event)
        assert (event.from_status, event.to_status, event.actor) == (status, made.target, made.actor)
        status = made.target
    assert (await world.store.read.task(subject.task_id)).status == status, (state, move.name)
    await world.store.operator.cancel([subject.job_id])


async def try_refused(world: World, state: str) -> int:
    """Every move that the table does not allow, and every wrong token: nothing changes at all."""
    subject = await build(world, state)
    tried = 0
    for move in TASK.moves:
        if not move.fenced:
            continue
        for kind in KINDS:
            if state == "RUNNING" and kind == "right":
                continue
            worker_id, held = token(subject, kind)
            async with world.unchanged():
                answer = await report(world, move.name, worker_id, held)
            ended = ENDS.get(state) if held == subject.new else None
            if held == subject.old and held != Held(subject.task_id, Token(0, "")):
                ended = "release"
            is_repeated = worker_id == "w" and ended in SAME[move.name]
            assert answer.accepted == is_repeated, (state, move.name, kind, answer)
            tried += 1
    order = sorted(OTHERS, key=lambda name: (name == "cancel", name == "abandon"))
    for name in order:
        if expected_events(state, name):
            continue
        await prepare(world, subject, name)
        if name in ("cancel", "cut"):  # these change the job or the worker
            before = await world.store.read.task(subject.task_id), await events_of(world, subject)
            await OTHERS[name](world, subject)
            after = await world.store.read.task(subject.task_id), await events_of(world, subject)
            assert before == after, (state, name)
        else:
            async with world.unchanged():
                await OTHERS[name](world, subject)
        tried += 1
    await world.store.operator.cancel([subject.job_id])
    return tried


def combinations() -> int:
    """How many combinations of state, move and token the matrix has."""
    fenced = sum(move.fenced for move in TASK.moves)
    return len(TASK.states) * (fenced * len(KINDS) + len(TASK.moves) - fenced)


async def try_state(world: World, state: str) -> None:
    """Every move from this state."""
    for name in ("w", "a", "b"):
        await world.add_worker(name)
    accepted = [move for move in TASK.moves if expected_events(state, move.name)]
    for move in accepted:
        await try_accepted(world, state, move)
    tried = len(accepted) + await try_refused(world, state)
    assert tried == combinations() // len(TASK.states), tried


def add_case(state: str) -> None:
    """Register the row of the matrix for one state."""

    async def run(world: World) -> None:
        await try_state(world, state)

    run.__name__ = f"every_move_from_{state.lower()}"
    case()(run)


for _state in TASK.states:
    add_case(_state)
