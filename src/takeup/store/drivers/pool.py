"""A small pool of asyncpg connections: at most a fixed number, the latest used first, broken ones dropped.

asyncpg's own pool creates two tasks and runs a reset query for every use. Our operations leave no session
state behind, so neither is needed, and a short operation costs about half as much here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from takeup.store.dialect import Statement


class Link:
    """A connection and the statements it has prepared."""

    def __init__(self, connection: Any, *, prepares: bool) -> None:
        """Behind PgBouncer nothing is prepared: the next transaction may reach another server process."""
        self.connection = connection
        self._prepares = prepares
        self._prepared: dict[str, Any] = {}

    async def fetch(self, statement: Statement, values: list[Any]) -> Any:
        """Run one statement and fetch all of its rows."""
        if not self._prepares:
            return await self.connection.fetch(statement.sql, *values)
        prepared = self._prepared.get(statement.name)
        if prepared is None:
            prepared = self._prepared[statement.name] = await self.connection.prepare(statement.sql)
        return await prepared.fetch(*values)


class Pool:
    """Lends connections; whoever finds none free waits for one, at most `wait_s`."""

    def __init__(self, connect: Callable[[], Awaitable[Link]], size: int, wait_s: float) -> None:
        """Connections are opened when they are first needed."""
        self._connect = connect
        self._wait_s = wait_s
        self._free = asyncio.Semaphore(size)
        self._idle: list[Link] = []
        self._is_closed = False

    async def lend(self) -> Link:
        """A connection for one operation; `give_back` must follow."""
        if self._free.locked():
            async with asyncio.timeout(self._wait_s):
                await self._free.acquire()
        else:
            await self._free.acquire()
        try:
            while self._idle:
                link = self._idle.pop()
                if not link.connection.is_closed():
                    return link
            return await self._connect()
        except BaseException:
            self._free.release()
            raise

    def give_back(self, link: Link) -> None:
        """Keep the connection for the next operation, unless it broke or the pool is closed."""
        self._free.release()
        if not self._is_closed:
            self._idle.append(link)
        elif not link.connection.is_closed():
            link.connection.terminate()

    async def close(self) -> None:
        """Close what is idle now; what is still lent is ended when it comes back."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().connection.close()
