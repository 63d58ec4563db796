"""Where the queues live: each turn gets an empty home of its own, gone at its end."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.engine.system import Home
from tests.services import PostgresServer

DATABASE = "bench_engine"


@asynccontextmanager
async def open_home(kind: Home, server: PostgresServer) -> AsyncIterator[str]:
    """The URL of an empty home."""
    if kind == "postgres":
        await server.drop_database(DATABASE)
        await server.create_database(DATABASE)
        try:
            yield server.dsn(DATABASE)
        finally:
            await server.drop_database(DATABASE)
    elif kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="takeup-bench-", dir="/tmp") as folder:
            yield f"sqlite:///{folder}/bench.db"
    else:
        from bench.engine.redis_server import RedisServer  # noqa: PLC0415 - not in every environment

        redis = RedisServer(durable=kind == "redis-durable")
        try:
            yield redis.url
        finally:
            redis.close()
