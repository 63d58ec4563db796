"""Celery with Redis as its broker and for its results."""

import itertools
import json
from datetime import datetime

import redis
from celery import Celery

from bench.engine.system import URL_VARIABLE, WorkerProcess, command, wait_for_count

RESULT_PREFIX = "celery-task-meta-"
ASK_MAX = 1_000


class CeleryPeer:
    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._worker: WorkerProcess | None = None
        self._redis: redis.Redis | None = None
        self._app: Celery | None = None
        self._url = ""
        self._keys: list[str] = []

    async def prepare(self, url: str) -> None:
        self._url = url
        self._redis = redis.Redis(unix_socket_path=url.removeprefix("redis+socket://"))
        # Without a result backend the client subscribes to no result before it sends, so it sends sooner.
        self._app = Celery("bench", broker=url)

    async def load(self, count: int) -> None:
        assert self._app
        self._keys = [f"{RESULT_PREFIX}{self._app.send_task('noop').id}" for _ in range(count)]

    async def start_worker(self) -> None:
        options = ["worker", f"--pool={self._pool}", "--loglevel=WARNING"]
        argv = [command("celery"), "-A", "bench.engine.apps.celery_app", *options]
        self._worker = WorkerProcess(argv, {URL_VARIABLE: self._url})

    async def wait_done(self, count: int) -> list[float]:
        client = self._redis
        assert client
        assert self._worker
        chunks = [self._keys[start : start + ASK_MAX] for start in range(0, len(self._keys), ASK_MAX)]

        async def ask() -> int:
            return sum(client.exists(*keys) for keys in chunks)

        await wait_for_count(count, ask, self._worker)
        metas = [json.loads(text) for text in itertools.chain(*(client.mget(keys) for keys in chunks))]
        assert all(meta["status"] == "SUCCESS" for meta in metas)
        return sorted(datetime.fromisoformat(meta["date_done"]).timestamp() for meta in metas)

    async def enqueue_one(self, address: str) -> None:
        assert self._app
        self._app.send_task("mark", [address])

    async def stop(self) -> None:
        if self._worker:
            await self._worker.stop()
        if self._app:
            self._app.close()
        if self._redis:
            self._redis.close()
