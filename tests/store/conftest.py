"""Fresh databases with the schema in place, and a clock that stands still."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from takeup.store.store import Store
from tests.conftest import GetPostgres
from tests.services import PostgresServer, database_from_template
from tests.store.crowd import Crowd
from tests.store.scenes import Clock, upgrade_schema


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def crowd() -> Iterator[Crowd]:
    members = Crowd()
    yield members
    members.close()


@pytest.fixture
def server(get_postgres: GetPostgres) -> PostgresServer:
    """Debian's PostgreSQL, shared by the session."""
    return get_postgres("postgres15")


@pytest.fixture
async def sqlite_url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/takeup.sqlite"
    await upgrade_schema(url)
    return url


@pytest.fixture
async def postgres_url(server: PostgresServer) -> AsyncIterator[str]:
    async with database_from_template(server, upgrade_schema) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres15"])
async def url(
    request: pytest.FixtureRequest, tmp_path: Path, get_postgres: GetPostgres
) -> AsyncIterator[str]:
    """One test, both databases that many processes share."""
    if request.param == "sqlite":
        found = f"sqlite:///{tmp_path}/takeup.sqlite"
        await upgrade_schema(found)
        yield found
    else:
        async with database_from_template(get_postgres(request.param), upgrade_schema) as found:
            yield found


@pytest.fixture
async def store(url: str, clock: Clock) -> AsyncIterator[Store]:
    opened = await Store.open(url, clock=clock)
    yield opened
    await opened.close()


@pytest.fixture(params=["sqlite", "duckdb", "postgres15"])
async def every_store(
    request: pytest.FixtureRequest, tmp_path: Path, get_postgres: GetPostgres, clock: Clock
) -> AsyncIterator[Store]:
    """One test, all three databases."""
    if request.param == "postgres15":
        async with database_from_template(get_postgres(request.param), upgrade_schema) as url:
            opened = await Store.open(url, clock=clock)
            yield opened
            await opened.close()
        return
    opened = await Store.open(f"{request.param}:///{tmp_path}/takeup.file", clock=clock, upgrade=True)
    yield opened
    await opened.close()
