"""Procrastinate and PgQueuer, used as their documentation tells: their own workers on no-op jobs."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import procrastinate
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.domain.types import QueueExecutionMode
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.claims.cases import System
from bench.claims.loops import Loop

LOAD_MAX = 5_000
TASK = "noop"


async def install(system: System, url: str) -> None:
    """Create the peer's schema in an empty database."""
    if system == "procrastinate":
        app = _app(url, 2)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()
        return
    connection = await asyncpg.connect(url)
    try:
        await Queries(AsyncpgDriver(connection)).install()
    finally:
        await connection.close()


async def load(system: System, url: str, count: int) -> None:
    """Enqueue no-op jobs in bulk."""
    sizes = [min(LOAD_MAX, count - start) for start in range(0, count, LOAD_MAX)]
    if system == "procrastinate":
        app = _app(url, 2)
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


@asynccontextmanager
async def open_loop(system: System, url: str, batch: int) -> AsyncIterator[Loop]:
    """A loop that drains the queue: a peer's worker takes no quota, it stops when nothing is left."""
    logging.getLogger(system).setLevel(logging.WARNING)
    done: list[int] = []
    if system == "procrastinate":
        async with _procrastinate_loop(url, batch, done) as loop:
            yield loop
    else:
        async with _pgqueuer_loop(url, batch, done) as loop:
            yield loop


def _app(url: str, connections: int) -> procrastinate.App:
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=connections)
    return procrastinate.App(connector=connector)


@asynccontextmanager
async def _procrastinate_loop(url: str, concurrency: int, done: list[int]) -> AsyncIterator[Loop]:
    app = _app(url, concurrency)

    @app.task(name=TASK, pass_context=True)
    async def noop(context: procrastinate.JobContext) -> None:
        done.append(context.job.id or 0)

    async def drain(_quota: int) -> list[int]:
        await app.run_worker_async(concurrency=concurrency, wait=False, install_signal_handlers=False)
        return done

    async with app.open_async():
        yield drain


@asynccontextmanager
async def _pgqueuer_loop(url: str, batch: int, done: list[int]) -> AsyncIterator[Loop]:
    connection: asyncpg.Connection[Any] = await asyncpg.connect(url)
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint(TASK)
    async def noop(job: Job) -> None:
        done.append(job.id)

    async def drain(_quota: int) -> list[int]:
        await queue.qm.run(batch_size=batch, mode=QueueExecutionMode.drain)
        return done

    try:
        yield drain
    finally:
        await connection.close()
