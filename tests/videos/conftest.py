"""The way of files in, and the loop behind it, over a fresh database; `BOTH` asks for one of each kind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from takeup.app import App, open_app
from takeup.config import load
from tests.conftest import GetPostgres
from tests.services import database_from_template
from tests.store.scenes import upgrade_schema

BOTH = pytest.mark.parametrize("app", ["sqlite", "postgres15"], indirect=True)


@pytest.fixture
async def app(
    request: pytest.FixtureRequest, tmp_path: Path, get_postgres: GetPostgres
) -> AsyncIterator[App]:
    data = tmp_path / "data"
    flavour = getattr(request, "param", "sqlite")
    if flavour == "sqlite":
        async with open_app(load({}, {"data_dir": data})) as opened:
            yield opened
        return
    async with (
        database_from_template(get_postgres(flavour), upgrade_schema) as url,
        open_app(load({}, {"data_dir": data, "database_url": url})) as opened,
    ):
        yield opened
