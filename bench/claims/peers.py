"""Procrastinate's and PgQueuer's own workers, on no-op jobs, as their documentation tells."""

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

from bench.claims.cases import System
from bench.claims.loops import Loop
from bench.queues import TASK, open_app


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


@asynccontextmanager
async def _procrastinate_loop(url: str, concurrency: int, done: list[int]) -> AsyncIterator[Loop]:
    app = open_app(url, concurrency)

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
