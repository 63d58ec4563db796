"""Opens the database for a command that looks at it or changes a row, without the engine."""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from takeup.cli.options import settings_of
from takeup.config import Settings
from takeup.core.errors import NoSchema, SchemaMissing, StoreConfig
from takeup.store import migrate
from takeup.store.drivers import Driver, connect
from takeup.store.store import Store


class NoDatabase(StoreConfig):
    """There is no embedded database where one was looked for."""

    help = (
        "Go to the folder where `takeup serve` runs, or say where it is with --data DIR or --database URL; "
        "`takeup run`, `serve` and `submit` make a new one."
    )


@asynccontextmanager
async def open_store(options: argparse.Namespace) -> AsyncIterator[tuple[Store, Settings]]:
    """The database that the options name; an embedded one must be there, and is brought up to date."""
    settings = settings_of(options)
    is_embedded = must_exist(settings)
    driver = await connect(settings.database)
    try:
        await _check(driver, upgrades=is_embedded)
        yield Store(driver), settings
    finally:
        await driver.close()


async def _check(driver: Driver, *, upgrades: bool) -> None:
    """Look at the schema first, which asks for no lock that a writer may hold."""
    try:
        await driver.read(migrate.check, driver.dialect)
    except SchemaMissing as error:
        if not upgrades or isinstance(error, NoSchema):  # a file of somebody else stays as it is
            raise
        await driver.run(migrate.upgrade, driver.dialect)


def must_exist(settings: Settings) -> bool:
    """Refuse to make a new embedded database by looking for one; answers whether it is embedded."""
    scheme = urlsplit(settings.database).scheme
    if scheme not in ("sqlite", "duckdb"):
        return False
    from takeup.store.drivers.embedded import path_of  # noqa: PLC0415 - only for these

    path = path_of(settings.database)
    try:
        is_there = path is None or path.exists()
    except OSError as error:
        raise NoDatabase(f"the database {path} cannot be looked at: {error.strerror}") from error
    if not is_there:
        raise NoDatabase(f"there is no database {path}")
    return True


async def ring(store: Store) -> None:
    """Tell waiting workers and loops at once, where a change of the file does not do that by itself."""
    driver: Any = store.driver
    if driver.dialect.name == "postgres":
        await driver.notify("work", "*")
