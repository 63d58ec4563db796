"""The queue one would write by hand: a small table, SKIP LOCKED and NOTIFY."""

import sys

from bench.engine.on_postgres import OnPostgres

TABLE = """
CREATE TABLE raw_jobs (
  id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, status text NOT NULL DEFAULT 'ready', address text,
  claimed_at timestamptz, finished_at timestamptz);
CREATE INDEX raw_jobs_ready ON raw_jobs (id) WHERE status = 'ready'
"""
LOAD = "INSERT INTO raw_jobs (address) SELECT NULL FROM generate_series(1, $1::int)"
ENQUEUE = "WITH new AS (INSERT INTO raw_jobs (address) VALUES ($1)) SELECT pg_notify('raw_jobs', '')"


class RawLoop(OnPostgres):
    FINISHED = "SELECT extract(epoch FROM finished_at) AS moment FROM raw_jobs WHERE status = 'done'"

    def __init__(self, batch: int) -> None:
        super().__init__()
        self._batch = batch

    async def prepare(self, url: str) -> None:
        await super().prepare(url)
        await self.connection.execute(TABLE)

    async def enqueue_one(self, address: str) -> None:
        await self.connection.fetchval(ENQUEUE, address)

    async def _load(self, count: int) -> None:
        await self.connection.execute(LOAD, count)

    def _argv(self) -> list[str]:
        return [sys.executable, "-m", "bench.engine.apps.raw_app", str(self._batch)]
