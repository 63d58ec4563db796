"""Procrastinate's and PgQueuer's queues: their schema in an empty database, and no-op jobs in bulk."""

import asyncpg
import procrastinate
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

LOAD_MAX = 5_000
TASK = "noop"


async def install(peer: str, url: str) -> None:
    """Create the peer's schema in an empty database."""
    if peer == "procrastinate":
        app = open_app(url, 2)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
        return
    connection = await asyncpg.connect(url)
    try:
        await Queries(AsyncpgDriver(connection)).install()
    finally:
        await connection.close()


async def load(peer: str, url: str, count: int) -> None:
    """Enqueue no-op jobs in bulk."""
    sizes = [min(LOAD_MAX, count - start) for start in range(0, count, LOAD_MAX)]
    if peer == "procrastinate":
        app = open_app(url, 2)
        async with app.open_async():
            for size in sizes:
                await app.configure_task(TASK).batch_defer_async(*[{} for _ in range(size)])
        return
    connection = await asyncpg.connect(url)
    try:
        for size in sizes:
            await Queries(AsyncpgDriver(connection)).enqueue([TASK] * size, [None] * size, [0] * size)
    finally:
        await connection.close()


def open_app(url: str, connections: int) -> procrastinate.App:
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=connections)
    return procrastinate.App(connector=connector)
