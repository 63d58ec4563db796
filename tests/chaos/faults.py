"""Disturbances of PostgreSQL for a storm: it crashes, or somebody holds a row lock."""

import asyncio
from random import Random

import asyncpg

from tests.services import PostgresServer

DOWN_S = 0.3
LOCK_S = 1.5


class PostgresFaults:
    """What may happen to one database of one server."""

    def __init__(self, server: PostgresServer, url: str, seed: int) -> None:
        self._server = server
        self._url = url
        self._random = Random(seed)

    async def crash_database(self) -> None:
        """`pg_ctl stop -m immediate`, and back a moment later."""
        await asyncio.to_thread(self._server.stop, "immediate")
        await asyncio.sleep(DOWN_S * self._random.random())
        await asyncio.to_thread(self._server.start)

    async def hold_a_row(self) -> None:
        """Somebody locks the rows of running tasks and goes away for a while."""
        try:
            connection = await asyncpg.connect(self._url)
            async with connection.transaction():
                await connection.execute(
                    "SELECT id FROM tasks WHERE status IN ('RUNNING', 'READY') LIMIT 3 FOR UPDATE"
                )
                await asyncio.sleep(LOCK_S * self._random.random())
            await connection.close()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            pass  # the database was taken down meanwhile
