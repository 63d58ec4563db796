"""Drives operations statement by statement on their own connections: the test chooses the schedule."""

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg

from takeup.core.errors import TakeupError
from takeup.core.ports import Clock
from takeup.store.dialect import Dialect
from takeup.store.drivers.postgres import LOST_RACES
from takeup.store.op import Op, Query, Step
from takeup.store.sqlfile import catalog

CATALOG = catalog(Dialect("postgres"))
POLL_S = 0.001
RACES_MAX = 5
Make = Callable[[], Op[Any]]


class Stepper:
    """One operation as the driver runs it: in one transaction, started again when it lost a race.

    `alone` sends what needs no transaction without one, which is what happens if there is no PgBouncer.
    """

    def __init__(
        self, connection: asyncpg.Connection, make: Make, clock: Clock, *, alone: bool = False
    ) -> None:
        self.connection = connection
        self.races = 0
        self._make = make
        self._clock = clock
        self._alone = alone
        self._is_open = False
        self._op: Op[Any] | None = None
        self._step: Step | None = None
        self._result: Any = None

    async def run_to(self, count: int) -> bool:
        """Run this many statements more and stay in the transaction; False if it had fewer."""
        try:
            if self._op is None:
                await self._begin()
            for _ in range(count):
                await self._skip_needless()
                if self._step is None:
                    return False
                await self._send(await self._fetch(self._step))
        except (*LOST_RACES, TakeupError):
            return False
        return True

    async def finish(self) -> Any:
        """Run it to its commit; answers with its result, or with the error that it raised."""
        while True:
            try:
                if self._op is None:
                    await self._begin()
                while self._step is not None:
                    await self._skip_needless()
                    if self._step is not None:
                        await self._send(await self._fetch(self._step))
                if self._is_open:
                    await self.connection.execute("COMMIT")
            except LOST_RACES:
                self.races += 1
                await self._give_up()
                if self.races == RACES_MAX:
                    raise
            except TakeupError as error:
                await self._give_up()
                return type(error).__name__
            else:
                return self._result

    async def _begin(self) -> None:
        self._op, self._result = self._make(), None
        try:
            self._step = next(self._op)
        except StopIteration as stop:
            self._step, self._result = None, stop.value

    async def _skip_needless(self) -> None:
        while self._step is not None and not isinstance(self._step, Query):
            await self._open()
            await self._send([])
        while isinstance(self._step, Query) and not CATALOG[self._step.name].sql:
            await self._send([])

    async def _open(self) -> None:
        if not self._is_open:
            await self.connection.execute("BEGIN")
            self._is_open = True

    async def _fetch(self, step: Step) -> list[Any]:
        assert isinstance(step, Query)
        statement = CATALOG[step.name].fitting(step.params)
        if not (self._alone and statement.is_alone):
            await self._open()
        values = statement.bind({**step.params, "now_at": self._clock.now()})
        rows: list[Any] = await self.connection.fetch(statement.sql, *values)
        return rows

    async def _send(self, rows: list[Any]) -> None:
        assert self._op is not None
        try:
            self._step = self._op.send(rows)
        except StopIteration as stop:
            self._step, self._result = None, stop.value

    async def _give_up(self) -> None:
        if self._op is not None:
            self._op.close()
        if self._is_open:
            await self.connection.execute("ROLLBACK")
        self._op, self._is_open = None, False


async def blocked_or_done(
    task: asyncio.Task[Any], connection: asyncpg.Connection, watcher: asyncpg.Connection
) -> bool:
    """Wait until the task ended (False) or its connection waits for another's lock (True)."""
    pid = connection.get_server_pid()
    while not task.done():
        await asyncio.wait({task}, timeout=POLL_S)
        if not task.done() and await watcher.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", pid):
            return True
    return False


async def interleave(first: Stepper, second: Stepper, count: int, watcher: asyncpg.Connection) -> list[Any]:
    """Run the first for `count` statements, then the second as far as it goes, then both to their ends.

    Answers with both results, or with nothing if the first has fewer statements than that.
    """
    reached = await first.run_to(count)
    if not reached:
        await first.finish()
        return []
    other = asyncio.create_task(second.finish())
    await blocked_or_done(other, second.connection, watcher)
    return [await first.finish(), await other]
