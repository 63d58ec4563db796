"""The databases behind one interface; `connect` picks one by the scheme of its URL."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from takeup.core.errors import StoreConfig
from takeup.core.ports import Clock
from takeup.store.dialect import Dialect
from takeup.store.op import Op

T = TypeVar("T")

DRIVERS = {
    "sqlite": "takeup.store.drivers.sqlite",
    "postgresql": "takeup.store.drivers.postgres",
    "postgres": "takeup.store.drivers.postgres",
    "duckdb": "takeup.store.drivers.duckdb",
}
"""URL scheme to the module whose `connect(url, clock)` opens it; loaded only when it is used."""


class Driver(Protocol):
    """Runs operations against one database, each as one transaction."""

    dialect: Dialect

    async def run(self, operation: Callable[..., Op[T]], *args: Any, **kwargs: Any) -> T:
        """Run a writing operation to its commit; lost races are run again, at most a few times."""
        ...

    async def read(self, operation: Callable[..., Op[T]], *args: Any, **kwargs: Any) -> T:
        """Run an operation that only reads."""
        ...

    async def close(self) -> None:
        """Give back connections, threads and files."""
        ...


async def connect(url: str, *, clock: Clock | None = None) -> Driver:
    """Open the database behind the URL; `clock` replaces its own clock in tests."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise StoreConfig(f"the database URL cannot be read: {error}") from error
    if scheme not in DRIVERS:
        raise StoreConfig(
            f"the scheme of a database URL must be sqlite, postgresql or duckdb, not {scheme!r}"
        )
    try:
        module = import_module(DRIVERS[scheme])
    except ModuleNotFoundError as error:
        extra = DRIVERS[scheme].rpartition(".")[2]
        raise StoreConfig(
            f"the library for {scheme} databases is missing: install takeup[{extra}]"
        ) from error
    driver: Driver = await module.connect(url, clock)
    return driver
