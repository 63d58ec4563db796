"""Where tasks are measured: prepared before each measurement, checked after it.

A site holds one state of the table. `prepare` adds so many READY tasks, `check` proves that each of the
reported ones was done exactly once.
"""

import asyncio
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import asyncpg
import duckdb

from bench.claims.cases import State, System
from bench.claims.filling import fill_statements
from bench.claims.loading import load_tasks
from takeup.store.store import Store
from tests.services import PostgresServer

GUARDS = ("jobs_guard_insert", "tasks_guard_insert")
"""The SQLite triggers that refuse a row born finished; they are put back after filling."""


class Site(Protocol):
    """One place that a case is measured at."""

    url: str

    async def prepare(self, count: int) -> None: ...

    async def check(self, system: System, task_ids: Sequence[int]) -> None: ...

    async def close(self) -> None: ...


class PostgresSite:
    """A database with our schema and, for the raw loop, a copy of our tasks table with the same rows."""

    def __init__(self, url: str, state: State, store: Store, connection: "asyncpg.Connection[Any]") -> None:
        self.url = url
        self._state = state
        self._store = store
        self._connection = connection

    @classmethod
    async def open(cls, server: PostgresServer, state: State, fill: int) -> "PostgresSite":
        name = f"bench_{state}"
        await server.create_database(name)
        url = server.dsn(name)
        store = await Store.open(url, upgrade=True)
        connection = await asyncpg.connect(url)
        options = await connection.fetchval("SELECT reloptions FROM pg_class WHERE relname = 'tasks'")
        await connection.execute(
            f"CREATE TABLE raw_tasks (LIKE tasks INCLUDING ALL) WITH ({', '.join(options)})"
        )
        site = cls(url, state, store, connection)
        if state != "empty":
            (template,) = await load_tasks(store, 1)
            await connection.execute("SET session_replication_role = replica")
            for statement in fill_statements(state, fill, template):
                await connection.execute(statement)
            await connection.execute("RESET session_replication_role")
            await connection.execute("INSERT INTO raw_tasks SELECT * FROM tasks")
            await connection.execute("VACUUM ANALYZE")
        return site

    async def prepare(self, count: int) -> None:
        """The same new tasks for both loops; an empty table is emptied first."""
        run = self._connection.execute
        if self._state == "empty":
            await run("TRUNCATE jobs, job_stages, task_deps, tasks, raw_tasks, audit, claims, outbox CASCADE")
        job_ids = await load_tasks(self._store, count)
        await run(
            "INSERT INTO raw_tasks SELECT * FROM tasks WHERE stage = 'work' AND job_id = ANY ($1::text[])",
            job_ids,
        )
        await run("VACUUM ANALYZE" if self._state == "empty" else "VACUUM tasks, raw_tasks, claims, jobs")

    async def check(self, system: System, task_ids: Sequence[int]) -> None:
        table = "raw_tasks" if system == "raw-postgres" else "tasks"
        done = await self._connection.fetchval(
            f"SELECT count(*) FROM {table} WHERE id = ANY ($1) AND status = 'DONE' AND epoch = 1", task_ids
        )
        assert done == len(set(task_ids)) == len(task_ids)
        if system == "takeup-postgres":
            rows = await self._connection.fetch(
                "SELECT event, count(*), count(DISTINCT task_id) AS tasks FROM audit e JOIN tasks t "
                "ON t.id = e.task_id AND t.job_id = e.job_id WHERE t.id = ANY ($1) "
                "AND event IN ('claim', 'complete') GROUP BY event",
                task_ids,
            )
            assert {(row["event"], row["count"], row["tasks"]) for row in rows} == {
                (event, len(task_ids), len(task_ids)) for event in ("claim", "complete")
            }

    async def close(self) -> None:
        await self._store.close()
        await self._connection.close()


class EmbeddedSite:
    """An SQLite or DuckDB file; the measuring process must be the only one to hold it."""

    def __init__(self, kind: str, state: State, folder: Path, fill: int) -> None:
        self._kind = kind
        self._state = state
        self._folder = folder / f"{kind}-{state}"
        self._folder.mkdir()
        self.path = self._folder / "bench.db"
        self.url = f"{kind}:///{self.path}"
        self._fill = fill

    async def prepare(self, count: int) -> None:
        """New tasks in the file; the empty one is made anew, the full ones are filled the first time."""
        if self._state == "empty":
            shutil.rmtree(self._folder)
            self._folder.mkdir()
        elif not self.path.exists():
            store = await Store.open(self.url, upgrade=True)
            (template,) = await load_tasks(store, 1)
            await store.close()
            await asyncio.to_thread(self._run, fill_statements(self._state, self._fill, template))
        store = await Store.open(self.url, upgrade=True)
        await load_tasks(store, count)
        await store.close()

    async def check(self, _system: System, task_ids: Sequence[int]) -> None:
        assert len(set(task_ids)) == len(task_ids)
        listed = ", ".join(map(str, task_ids))
        where = f"t.id IN ({listed}) AND t.status = 'DONE' AND t.epoch = 1"
        counts = await asyncio.to_thread(
            self._run,
            [
                f"SELECT count(*) FROM tasks t WHERE {where}",
                *(
                    "SELECT count(*) FROM audit e JOIN tasks t ON t.id = e.task_id AND t.job_id = e.job_id "
                    f"WHERE e.event = '{event}' AND {where}"
                    for event in ("claim", "complete")
                ),
            ],
        )
        assert counts == [len(task_ids)] * 3

    async def close(self) -> None:
        shutil.rmtree(self._folder)

    def _run(self, statements: list[str]) -> list[Any]:
        if self._kind == "duckdb":
            with duckdb.connect(str(self.path)) as session:
                return [session.execute(statement).fetchall()[0][0] for statement in statements]
        connection = sqlite3.connect(self.path)
        try:
            query = f"SELECT sql, 'DROP TRIGGER ' || name FROM sqlite_master WHERE name IN {GUARDS}"
            guards = connection.execute(query).fetchall()
            for _, drop in guards:
                connection.execute(drop)
            answers = [connection.execute(statement).fetchone() for statement in statements]
            for create, _ in guards:
                connection.execute(create)
            connection.commit()
        finally:
            connection.close()
        return [answer[0] if answer else None for answer in answers]


class PeerSite:
    """A peer's own database, made anew for every measurement."""

    def __init__(self, server: PostgresServer, system: System) -> None:
        self._server = server
        self._system = system
        self._name = f"bench_{system}"
        self._count = 0
        self.url = server.dsn(self._name)

    async def prepare(self, count: int) -> None:
        from bench import queues  # noqa: PLC0415 - the peers are not in every environment

        await self.close()
        await self._server.create_database(self._name)
        await queues.install(self._system, self.url)
        await queues.load(self._system, self.url, count)
        self._count = count
        connection = await asyncpg.connect(self.url)
        await connection.execute("VACUUM ANALYZE")
        await connection.close()

    async def check(self, _system: System, task_ids: Sequence[int]) -> None:
        assert len(set(task_ids)) == len(task_ids) == self._count

    async def close(self) -> None:
        await self._server.drop_database(self._name)
