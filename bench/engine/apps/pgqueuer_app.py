"""A PgQueuer worker: what `pgq run` does, on uvloop as there; the command itself fails with newer Typers."""

import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import uvloop
from pgqueuer import PgQueuer, run
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job

from bench.engine.marks import mark_start
from bench.engine.system import URL_VARIABLE


@asynccontextmanager
async def open_queue() -> AsyncIterator[PgQueuer]:
    connection = await asyncpg.connect(os.environ[URL_VARIABLE])
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("noop")
    async def noop(_job: Job) -> None:
        pass

    @queue.entrypoint("mark")
    async def mark(job: Job) -> None:
        mark_start((job.payload or b"").decode())

    try:
        yield queue
    finally:
        await connection.close()


if __name__ == "__main__":
    logging.getLogger("pgqueuer").setLevel(logging.WARNING)
    uvloop.run(run(open_queue, batch_size=int(sys.argv[1])))
