"""The way of files in, and the loop behind it, over a fresh database of each kind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from takeup.app import App, open_app
from takeup.config import load
from tests.conftest import GetPostgres
from tests.services import database_from_template
from tests.store.scenes import upgrade_schema


@pytest.fixture(params=["sqlite", "postgres15"])
async def app(
    request: pytest.FixtureRequest, tmp_path: Path, get_postgres: GetPostgres
) -> AsyncIterator[App]:
    data = tmp_path / "data"
    if request.param == "sqlite":
        async with open_app(load({}, {"data_dir": data})) as opened:
            yield opened
        return
    async with (
        database_from_template(get_postgres(request.param), upgrade_schema) as url,
        open_app(load({}, {"data_dir": data, "database_url": url})) as opened,
    ):
        yield opened
