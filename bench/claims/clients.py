"""Client processes: each opens a session for an order, warms it up, and works on it turn by turn."""

import asyncio
import multiprocessing
import time
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import asyncpg

from bench.claims.cases import PEERS, System
from bench.claims.loops import Loop, raw_loop, takeup_loop
from takeup.store.store import Store


class Open(NamedTuple):
    """Open a session and do `warm_up` tasks; answered with their ids."""

    key: str
    system: System
    url: str
    worker_id: str
    batch: int
    warm_up: int


class Go(NamedTuple):
    """Do so many tasks in an open session; answered with a Turn."""

    key: str
    quota: int


class Close(NamedTuple):
    """Close a session; answered with None."""

    key: str


class Turn(NamedTuple):
    """When a client started and ended by the machine's monotonic clock, and which tasks it did."""

    started: float
    ended: float
    task_ids: list[int]


class Failed(NamedTuple):
    """A client could not do what it was told."""

    traceback: str


Session = tuple[Loop, AsyncExitStack]


class ClientError(Exception):
    """A client process failed; its traceback is the message."""


class Clients:
    """Processes that stay for the whole run, so that no measurement pays for imports."""

    def __init__(self, count: int, *, uses_uvloop: bool = False) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, uses_uvloop), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    async def tell(self, commands: Sequence[Open | Go | Close]) -> list[Any]:
        """Give each of the first clients its command, all at once, and wait for all answers."""
        pipes = self._pipes[: len(commands)]
        for pipe, command in zip(pipes, commands, strict=True):
            pipe.send(command)
        answers = [await asyncio.to_thread(pipe.recv) for pipe in pipes]
        for answer in answers:
            if isinstance(answer, Failed):
                raise ClientError(answer.traceback)
        return answers

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join()


def serve(pipe: Connection, uses_uvloop: bool) -> None:  # noqa: FBT001 - called by multiprocessing
    """The life of a client process; it ends when the other end of its pipe does."""
    if uses_uvloop:
        import uvloop  # noqa: PLC0415 - a peer's choice, installed with it

        uvloop.run(_obey(pipe))
    else:
        asyncio.run(_obey(pipe))


async def _obey(pipe: Connection) -> None:
    """Nothing else runs in this loop between two commands, so waiting for one may block it."""
    sessions: dict[str, Session] = {}
    while True:
        try:
            command = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(await _do(command, sessions))
        except Exception:  # noqa: BLE001 - whatever went wrong must reach the parent
            pipe.send(Failed(traceback.format_exc()))


async def _do(command: Open | Go | Close, sessions: dict[str, Session]) -> Any:
    match command:
        case Open():
            stack = AsyncExitStack()
            loop = await stack.enter_async_context(_open(command))
            sessions[command.key] = loop, stack
            return await loop(command.warm_up) if command.warm_up else []
        case Go():
            loop, _ = sessions[command.key]
            started = time.monotonic()
            task_ids = await loop(command.quota)
            return Turn(started, time.monotonic(), task_ids)
        case Close():
            _, stack = sessions.pop(command.key)
            await stack.aclose()
            return None


@asynccontextmanager
async def _open(order: Open) -> AsyncIterator[Loop]:
    if order.system in PEERS:
        from bench.claims import peers  # noqa: PLC0415 - the peers are not in every environment

        async with peers.open_loop(order.system, order.url, order.batch) as loop:
            yield loop
    elif order.system == "raw-postgres":
        connection = await asyncpg.connect(order.url)
        try:
            yield await raw_loop(connection, order.worker_id, order.batch)
        finally:
            await connection.close()
    else:
        store = await Store.open(order.url)
        try:
            yield await takeup_loop(store, order.worker_id, order.batch)
        finally:
            await store.close()
