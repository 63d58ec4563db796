"""Procrastinate, PgQueuer and DBOS."""

import asyncio
import subprocess
import sys

import procrastinate
from dbos import DBOSClient, EnqueueOptions
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from bench import queues
from bench.engine.apps.dbos_app import APPLICATION, QUEUE
from bench.engine.on_postgres import OnPostgres
from bench.engine.system import command


class Procrastinate(OnPostgres):
    FINISHED = "SELECT extract(epoch FROM at) AS moment FROM procrastinate_events WHERE type = 'succeeded'"

    def __init__(self, concurrency: int) -> None:
        super().__init__()
        self._concurrency = concurrency
        self._app: procrastinate.App | None = None

    async def prepare(self, url: str) -> None:
        await super().prepare(url)
        await queues.install("procrastinate", url)
        self._app = queues.open_app(url, 2)
        await self._app.open_async()

    async def enqueue_one(self, address: str) -> None:
        assert self._app
        await self._app.configure_task("mark").defer_async(address=address)

    async def stop(self) -> None:
        if self._app:
            await self._app.close_async()
        await super().stop()

    async def _load(self, count: int) -> None:
        await queues.load("procrastinate", self._url, count)

    def _argv(self) -> list[str]:
        app = "--app=bench.engine.apps.procrastinate_app.app"
        options = ["--log-level=warning", "worker", f"--concurrency={self._concurrency}"]
        return [command("procrastinate"), app, *options]


class PgQueuer(OnPostgres):
    FINISHED = "SELECT extract(epoch FROM created) AS moment FROM pgqueuer_log WHERE status = 'successful'"

    def __init__(self, batch: int) -> None:
        super().__init__()
        self._batch = batch

    async def prepare(self, url: str) -> None:
        await super().prepare(url)
        await queues.install("pgqueuer", url)
        self._queries = Queries(AsyncpgDriver(self.connection))

    async def enqueue_one(self, address: str) -> None:
        await self._queries.enqueue("mark", address.encode())

    async def _load(self, count: int) -> None:
        await queues.load("pgqueuer", self._url, count)

    def _argv(self) -> list[str]:
        return [sys.executable, "-m", "bench.engine.apps.pgqueuer_app", str(self._batch)]


class Dbos(OnPostgres):
    FINISHED = (
        "SELECT completed_at / 1000.0 AS moment FROM dbos.workflow_status "
        "WHERE status = 'SUCCESS' AND completed_at IS NOT NULL"
    )

    def __init__(self) -> None:
        super().__init__()
        self._client: DBOSClient | None = None

    async def prepare(self, url: str) -> None:
        await super().prepare(url)
        argv = [command("dbos"), "migrate", "--sys-db-url", url]
        await asyncio.to_thread(subprocess.run, argv, check=True, capture_output=True)
        self._client = DBOSClient(system_database_url=url, application_name=APPLICATION)

    async def enqueue_one(self, address: str) -> None:
        self._enqueue("mark", address)

    async def stop(self) -> None:
        if self._client:
            self._client.destroy()
        await super().stop()

    async def _load(self, count: int) -> None:
        for _ in range(count):
            self._enqueue("noop")

    def _enqueue(self, workflow: str, *args: str) -> None:
        # The call without `async`: the other is the same one in a thread, which only takes longer.
        assert self._client
        options: EnqueueOptions = {"queue_name": QUEUE, "workflow_name": workflow}
        self._client.enqueue(options, *args)

    def _argv(self) -> list[str]:
        return [sys.executable, "-m", "bench.engine.apps.dbos_app"]
