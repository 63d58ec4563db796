"""Takeup itself: `takeup serve` with every loop and one worker, on PostgreSQL and on SQLite."""

import sqlite3
import tempfile
from contextlib import AsyncExitStack, closing
from pathlib import Path

from bench.engine.apps import takeup_app
from bench.engine.on_postgres import OnPostgres
from bench.engine.system import WorkerProcess, command, wait_for_count
from takeup.app import App, open_app
from takeup.config import Settings
from takeup.core.plan import NewJob
from takeup.store.ops.worker import SLOTS_MAX

SEGMENTS = 1_000
JOBS_AT_ONCE = 1_000
DONE = "FROM tasks WHERE stage = 'noop' AND status = 'DONE'"


class Takeup:
    """Loads jobs of 1,000 no-op segments, or as many jobs of one no-op, and lets one process run them."""

    def __init__(self, batch: int, *, fans_out: bool) -> None:
        self._batch = batch
        self._fans_out = fans_out
        self._stack = AsyncExitStack()
        self._app: App | None = None
        self._worker: WorkerProcess | None = None
        self._url = ""

    async def prepare(self, url: str) -> None:
        self._url = url
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="takeup-bench-")))
        settings = Settings(data_dir=self._folder, database_url=url)
        self._app = await self._stack.enter_async_context(open_app(settings, upgrade=True))

    async def load(self, count: int) -> None:
        if self._fans_out:
            jobs = [NewJob(takeup_app.fan, {"segments": SEGMENTS}) for _ in range(count // SEGMENTS)]
        else:
            jobs = [NewJob(takeup_app.one) for _ in range(count)]
        for start in range(0, len(jobs), JOBS_AT_ONCE):
            await self.app.store.operator.submit(jobs[start : start + JOBS_AT_ONCE])

    async def start_worker(self) -> None:
        pipelines = takeup_app.__file__
        argv = [
            command("takeup"), "serve", "--port", "0", "--database", self._url, "--data", str(self._folder),
            "--pipelines", pipelines, "--slots", str(min(4 * self._batch, SLOTS_MAX)), "--processes", "1",
            "--log-level", "warning",
        ]  # fmt: skip
        self._worker = WorkerProcess(argv, {"TAKEUP_WORKER_BATCH": str(self._batch)})

    async def enqueue_one(self, address: str) -> None:
        await self.app.submit([NewJob(takeup_app.mark, {"address": address})])

    async def stop(self) -> None:
        if self._worker:
            await self._worker.stop()
        await self._stack.aclose()

    @property
    def app(self) -> App:
        assert self._app, "it is not prepared"
        return self._app


class TakeupOnPostgres(Takeup):
    async def prepare(self, url: str) -> None:
        await super().prepare(url)
        self._peek = OnPostgres()
        self._peek.FINISHED = f"SELECT extract(epoch FROM finished_at) AS moment {DONE}"
        await self._peek.prepare(url)

    async def load(self, count: int) -> None:
        await super().load(count)
        await self._peek.connection.execute("VACUUM ANALYZE")

    async def start_worker(self) -> None:
        await super().start_worker()
        self._peek.watch(self._worker)

    async def wait_done(self, count: int) -> list[float]:
        return await self._peek.wait_done(count)

    async def stop(self) -> None:
        self._peek.watch(None)
        await self._peek.stop()
        await super().stop()


class TakeupOnSqlite(Takeup):
    async def wait_done(self, count: int) -> list[float]:
        assert self._worker
        path = self._url.removeprefix("sqlite:///")

        def ask(sql: str) -> list[tuple[float]]:
            with closing(sqlite3.connect(path)) as connection:
                return connection.execute(sql).fetchall()

        async def done() -> int:
            return int(ask(f"SELECT COUNT(*) {DONE}")[0][0])

        await wait_for_count(count, done, self._worker)
        return sorted(moment / 1e6 for (moment,) in ask(f"SELECT finished_at {DONE}"))
