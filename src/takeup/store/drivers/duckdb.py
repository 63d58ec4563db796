"""DuckDB: for small analytic tables. One process owns the file, one thread writes; there are no triggers.

With `?readonly=1` in the URL the file is only read, and not a byte of it changes.
"""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import duckdb

from takeup.core.errors import StoreConfig, StoreError, StoreInUse, StoreUnavailable
from takeup.core.ports import Clock
from takeup.store.dialect import Dialect
from takeup.store.drivers.embedded import EmbeddedDriver, path_of
from takeup.store.op import Rows
from takeup.store.sqlfile import catalog


async def connect(url: str, clock: Clock | None) -> EmbeddedDriver:
    """Open the file that the URL names in a writer thread of its own."""
    options = dict(parse_qsl(urlsplit(url).query))
    is_readonly = options.get("readonly", "0") not in ("0", "false")
    return await EmbeddedDriver.open(partial(DuckdbSession, is_readonly=is_readonly), path_of(url), clock)


class DuckdbSession:
    """One connection, used by one thread."""

    dialect = Dialect("duckdb")

    def __init__(self, path: Path | None, *, is_readonly: bool = False) -> None:
        """Open or create the file; None keeps the database in memory."""
        self.catalog = catalog(self.dialect)
        try:
            self.connection = duckdb.connect(str(path) if path else ":memory:", read_only=is_readonly)
            self.connection.execute("SET TimeZone = 'UTC'")
        except duckdb.IOException as error:
            if "Could not set lock on file" in str(error):
                raise StoreInUse(f"the DuckDB file {path} is held by another process") from error
            raise StoreConfig(f"cannot open the DuckDB file {path}: {error}") from error
        except duckdb.Error as error:
            raise StoreConfig(f"cannot open the DuckDB file {path}: {error}") from error

    def begin(self) -> None:
        """Start a transaction."""
        self.execute("BEGIN TRANSACTION", None)

    def begin_read(self) -> None:
        """Look at one snapshot."""
        self.begin()

    def commit(self) -> None:
        """Make the transaction durable."""
        self.execute("COMMIT", None)

    def rollback(self) -> None:
        """Undo the transaction, if one is open."""
        try:
            self.connection.execute("ROLLBACK")
        except duckdb.TransactionException:
            return

    def execute(self, sql: str, params: Any) -> Rows:
        """Run one statement and fetch all of its rows."""
        try:
            result = self.connection.execute(sql, params) if params else self.connection.execute(sql)
            names = [column[0] for column in result.description or ()]
            return [
                {name: _utc(value) for name, value in zip(names, row, strict=True)}
                for row in result.fetchall()
            ]
        except (duckdb.TransactionException, duckdb.IOException) as error:
            raise StoreUnavailable(f"DuckDB could not finish a statement: {error}") from error
        except duckdb.Error as error:
            raise StoreError(f"DuckDB refused a statement: {error}") from error

    def close(self) -> None:
        """Close the connection and free the file."""
        self.connection.close()


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
