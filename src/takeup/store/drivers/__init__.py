"""The databases behind one interface; `connect` picks one by the scheme of its URL."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from takeup.core.errors import StoreConfig
from takeup.core.ports import Clock
from takeup.store.dialect import Dialect
from takeup.store.op import Op

T = TypeVar("T")


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
    scheme = urlsplit(url).scheme
    if scheme in ("postgresql", "postgres"):
        from takeup.store.drivers.postgres import PostgresDriver

        return await PostgresDriver.connect(url, clock=clock)
    if scheme == "sqlite":
        from takeup.store.drivers.sqlite import SqliteSession

        return await _embedded(url, SqliteSession, clock)
    if scheme == "duckdb":
        from takeup.store.drivers.duckdb import DuckdbSession

        return await _embedded(url, DuckdbSession, clock)
    raise StoreConfig(f"database URL scheme {scheme or url!r} is not one of sqlite, postgresql, duckdb")


async def _embedded(url: str, session: Any, clock: Clock | None) -> Driver:
    from takeup.store.drivers.embedded import EmbeddedDriver, path_of

    return await EmbeddedDriver.open(session, path_of(url), clock)
