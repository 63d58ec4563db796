"""The worker one would write by hand: claim a batch, do it, complete it, wait for a notification.

Two prepared statements on one connection, each its own transaction; no leases, no retries, no log.
"""

import asyncio
import os
import sys
from typing import Any

import asyncpg

from bench.engine.marks import mark_start
from bench.engine.system import URL_VARIABLE

POLL_S = 5.0

CLAIM = """
UPDATE raw_jobs SET status = 'running', claimed_at = now()
WHERE id = ANY (ARRAY(
  SELECT id FROM raw_jobs WHERE status = 'ready' ORDER BY id LIMIT {batch} FOR UPDATE SKIP LOCKED))
RETURNING id, address
"""
COMPLETE = """
UPDATE raw_jobs SET status = 'done', finished_at = now() WHERE id = ANY ($1::bigint[]) AND status = 'running'
"""


async def work(connection: "asyncpg.Connection[Any]", batch: int) -> None:
    heard = asyncio.Event()
    await connection.add_listener("raw_jobs", lambda *_: heard.set())
    claim = await connection.prepare(CLAIM.format(batch=batch))
    complete = await connection.prepare(COMPLETE)
    while True:
        heard.clear()
        rows = await claim.fetch()
        if not rows:
            try:
                await asyncio.wait_for(heard.wait(), POLL_S)
            except TimeoutError:
                continue
        for row in rows:
            if row["address"]:
                mark_start(row["address"])
        if rows:
            await complete.fetch([row["id"] for row in rows])


async def main() -> None:
    await work(await asyncpg.connect(os.environ[URL_VARIABLE]), int(sys.argv[1]))


if __name__ == "__main__":
    asyncio.run(main())
