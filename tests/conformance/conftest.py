"""The stores that the conformance suite runs on, each opened fresh for every test."""

import asyncio
import contextlib
import random
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

pytest.register_assert_rewrite("takeup.testing.conformance")

from takeup.store.op import Op, Script  # noqa: E402
from takeup.store.store import Store  # noqa: E402 - assertions must be rewritten before they are imported
from takeup.testing.clocks import ManualClock  # noqa: E402
from takeup.testing.conformance import World  # noqa: E402
from takeup.testing.conformance.world import ARCHIVE_TABLES, HOT_TABLES  # noqa: E402
from takeup.testing.oracle import OracleStore  # noqa: E402
from tests.conftest import GetPostgres  # noqa: E402
from tests.services import PostgresServer  # noqa: E402

OpenWorld = Callable[[str], contextlib.AbstractAsyncContextManager[World]]

DATABASES = ("sqlite", "sqlite-memory", "duckdb", "postgres15", "postgres18")
STORES = ("oracle", *DATABASES)
WITH_TRIGGERS = ("sqlite", "postgres15", "postgres18")


async def prepare(dsn: str) -> None:
    """Fills the template that every test database on a server is cloned from."""
    store = await Store.open(dsn, upgrade=True)
    await store.close()


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An upgraded file of each embedded database, to be copied by every test."""
    folder = tmp_path_factory.mktemp("templates")
    files = {scheme: folder / f"template.{scheme}" for scheme in ("sqlite", "duckdb")}
    for scheme, file in files.items():
        asyncio.run(prepare(f"{scheme}:///{file}"))
    return files


@pytest.fixture
def open_world(tmp_path: Path, get_postgres: GetPostgres, templates: dict[str, Path]) -> OpenWorld:
    """A fresh world by the name of its store; `postgres15-own-clock` takes time from the server."""

    @contextlib.asynccontextmanager
    async def opened(name: str) -> AsyncIterator[World]:
        clock = ManualClock()
        if name == "oracle":
            yield World(OracleStore(clock, random=random.Random(0).randbytes, luck=lambda: 0.5), clock)
            return
        flavour, is_own = name.removesuffix("-own-clock"), name.endswith("-own-clock")
        if flavour.startswith("postgres"):
            url = await database_of(get_postgres(flavour))
        elif flavour == "sqlite-memory":
            url = "sqlite:///:memory:"
        else:
            file = tmp_path / f"{sum(1 for _ in tmp_path.iterdir())}.{flavour}"
            url = f"{flavour}:///{shutil.copy(templates[flavour], file)}"
        store = await Store.open(url, clock=None if is_own else clock, upgrade=flavour == "sqlite-memory")
        world = World(store, None if is_own else clock)
        try:
            if flavour.startswith("postgres"):
                await empty(world)
            yield world
        finally:
            await world.close()

    return opened


async def database_of(server: PostgresServer) -> str:
    """The one database that this run uses on the server; emptying it is faster than a clone a test."""
    if server not in _databases:
        await server.create_database("conformance", await server.template(prepare))
        _databases[server] = server.dsn("conformance")
    return _databases[server]


async def empty(world: World) -> None:
    """Remove every row, as no operation could: the guards are taken off where they would stop it."""
    await world.store.driver.run(empty_tables, world.store.driver.dialect.name)


def empty_tables(dialect: str) -> Op[None]:
    tables = (*HOT_TABLES, *ARCHIVE_TABLES)
    if dialect == "postgres":
        yield Script(f"TRUNCATE {', '.join(tables)} RESTART IDENTITY")
        return
    guards = []
    if dialect == "sqlite":
        guards = yield Script("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    for guard in guards:
        yield Script(f"DROP TRIGGER {guard['name']}")
    for table in ("tasks", "job_stages", "task_deps", *tables):
        yield Script(f"DELETE FROM {table}")
    for guard in guards:
        yield Script(guard["sql"])


_databases: dict[PostgresServer, str] = {}
