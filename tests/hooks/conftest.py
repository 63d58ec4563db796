"""Fresh databases with a clock that stands still."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from takeup.store.store import Store
from tests.conftest import GetPostgres
from tests.services import database_from_template
from tests.store.scenes import Clock, upgrade_schema


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "duckdb", "postgres15"])
async def store(
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
