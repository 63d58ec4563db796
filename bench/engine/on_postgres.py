"""What systems on PostgreSQL have in common: what they finished is read from their own tables."""

from typing import Any, ClassVar

import asyncpg

from bench.engine.system import URL_VARIABLE, WorkerProcess, wait_for_count


class OnPostgres:
    """A subclass makes its schema in `prepare`, and says how to load, what to start and what is finished."""

    FINISHED: ClassVar[str]
    """A query with one column `moment`: when each job was finished, in seconds."""

    def __init__(self) -> None:
        self._connection: asyncpg.Connection[Any] | None = None
        self._worker: WorkerProcess | None = None
        self._url = ""

    async def prepare(self, url: str) -> None:
        self._url = url
        self._connection = await asyncpg.connect(url)

    async def load(self, count: int) -> None:
        await self._load(count)
        await self.connection.execute("VACUUM ANALYZE")

    async def start_worker(self) -> None:
        self._worker = WorkerProcess(self._argv(), {URL_VARIABLE: self._url})

    def watch(self, worker: WorkerProcess | None) -> None:
        """Somebody else started the worker, and will stop it."""
        self._worker = worker

    async def wait_done(self, count: int) -> list[float]:
        async def ask() -> int:
            return int(await self.connection.fetchval(f"SELECT count(*) FROM ({self.FINISHED}) AS f"))

        assert self._worker
        await wait_for_count(count, ask, self._worker)
        rows = await self.connection.fetch(f"SELECT moment::float8 FROM ({self.FINISHED}) AS f ORDER BY 1")
        return [row["moment"] for row in rows]

    async def stop(self) -> None:
        if self._worker:
            await self._worker.stop()
        if self._connection:
            await self._connection.close()

    @property
    def connection(self) -> "asyncpg.Connection[Any]":
        assert self._connection, "it is not prepared"
        return self._connection

    async def _load(self, count: int) -> None:
        raise NotImplementedError

    def _argv(self) -> list[str]:
        raise NotImplementedError
