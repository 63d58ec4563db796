"""Opens the database for a command that looks at it or changes a row, without the engine."""

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from takeup.cli.options import settings_of
from takeup.config import Settings
from takeup.core.errors import StoreConfig
from takeup.store.store import Store


class NoDatabase(StoreConfig):
    """There is no embedded database where one was looked for."""

    help = (
        "Say where it is with --data DIR or --database URL; `takeup run` and `takeup submit` make a new one."
    )


@asynccontextmanager
async def open_store(options: argparse.Namespace) -> AsyncIterator[tuple[Store, Settings]]:
    """The database that the options name; an embedded one must be there, and is brought up to date."""
    settings = settings_of(options)
    store = await Store.open(settings.database, upgrade=must_exist(settings))
    try:
        yield store, settings
    finally:
        await store.close()


def must_exist(settings: Settings) -> bool:
    """Refuse to make a new embedded database by looking for one; answers whether it is embedded."""
    scheme = urlsplit(settings.database).scheme
    if scheme not in ("sqlite", "duckdb"):
        return False
    from takeup.store.drivers.embedded import path_of  # noqa: PLC0415 - only for these

    path = path_of(settings.database)
    if path is not None and not path.exists():
        raise NoDatabase(f"there is no database {path}")
    return True


async def ring(store: Store) -> None:
    """Tell waiting workers and loops at once, where a change of the file does not do that by itself."""
    driver: Any = store.driver
    if driver.dialect.name == "postgres":
        await driver.notify("work", "*")
