"""The session's servers: each is started when a test first asks for it, once for each xdist worker."""

from collections.abc import Callable, Iterator

import pytest

from tests.long import is_long
from tests.services import FLAVOURS, PgBouncerServer, PostgresServer

GetPostgres = Callable[[str], PostgresServer]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest itself leaves out what is long."""
    for item in items:
        if is_long(item.nodeid):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def get_postgres() -> Iterator[GetPostgres]:
    servers: dict[str, PostgresServer] = {}

    def get(flavour: str) -> PostgresServer:
        if flavour not in servers:
            servers[flavour] = PostgresServer(flavour)
        return servers[flavour]

    yield get
    for server in servers.values():
        server.close()


@pytest.fixture(params=FLAVOURS)
def postgres(request: pytest.FixtureRequest, get_postgres: GetPostgres) -> PostgresServer:
    """One test, every flavour of PostgreSQL."""
    return get_postgres(request.param)


@pytest.fixture(scope="session")
def pgbouncer(get_postgres: GetPostgres) -> Iterator[PgBouncerServer]:
    server = PgBouncerServer(get_postgres(FLAVOURS[0]))
    yield server
    server.close()
