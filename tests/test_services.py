"""The servers under the tests are what they claim to be."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from tests.services import PgBouncerServer, PostgresServer, ServiceError, database_from_template


async def fill(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE made AS SELECT 42 AS answer")
    await connection.close()


async def ask(dsn: str, question: str, **options: int) -> object:
    connection = await asyncpg.connect(dsn, **options)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


async def test_postgres_answers_with_its_version(postgres: PostgresServer):
    assert str(await ask(postgres.dsn(), "SELECT version()")).split()[1] == postgres.version
    assert postgres.flavour == "postgres15" or postgres.version.startswith("18.")


async def test_postgres_is_the_one_we_started(postgres: PostgresServer):
    await postgres.prove_owned()
    assert Path(f"/proc/{postgres.pid}").stat().st_uid != 0


async def test_a_stranger_behind_the_socket_is_refused(postgres: PostgresServer, monkeypatch):
    monkeypatch.setattr(PostgresServer, "pid", property(lambda _: os.getpid()))
    with pytest.raises(ServiceError, match="has pid"):
        await postgres.create_database("never")


async def test_each_test_gets_a_clone_of_the_template(postgres: PostgresServer):
    async with (
        database_from_template(postgres, fill) as first,
        database_from_template(postgres, fill) as second,
    ):
        await ask(first, "DELETE FROM made RETURNING 1")
        assert await ask(first, "SELECT count(*) FROM made") == 0
        assert await ask(second, "SELECT answer FROM made") == 42
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await ask(first, "SELECT 1")


async def test_it_starts_again_after_a_crash():
    with contextlib.closing(PostgresServer("postgres15", fsync=True)) as server:
        before = server.pid
        server.stop("immediate")
        server.start()
        assert server.pid != before
        await server.prove_owned()


async def test_pgbouncer_shares_one_connection(pgbouncer: PgBouncerServer):
    dsn = pgbouncer.dsn()
    backends = {await ask(dsn, "SELECT pg_backend_pid()", statement_cache_size=0) for _ in range(3)}
    assert len(backends) == 1


def test_a_killed_run_leaves_no_server():
    code = (
        "import os, signal; from tests.services import PostgresServer; s = PostgresServer('postgres15')\n"
        "print(s.pid, s.socket_dir, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid, folder = killed.stdout.split()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
    shutil.rmtree(folder)
