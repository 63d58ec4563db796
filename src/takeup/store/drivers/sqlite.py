"""SQLite: the embedded default. WAL, synchronous=FULL, BEGIN IMMEDIATE, one writer thread."""

import sqlite3
import time
from pathlib import Path
from typing import Any

from takeup.core.errors import StoreConfig, StoreError, StoreUnavailable
from takeup.core.ports import Clock
from takeup.store.dialect import Dialect, from_micros
from takeup.store.drivers.embedded import EmbeddedDriver, path_of
from takeup.store.op import Row, Rows
from takeup.store.sqlfile import catalog

BUSY_TIMEOUT_MS = 5000
WAL_TRIES, WAL_PAUSE_S = 250, 0.02
VERSION_MIN = (3, 35, 0)


async def connect(url: str, clock: Clock | None) -> EmbeddedDriver:
    """Open the file that the URL names in a writer thread of its own."""
    return await EmbeddedDriver.open(SqliteSession, path_of(url), clock)


class SqliteSession:
    """One connection, used by one thread."""

    dialect = Dialect("sqlite")

    def __init__(self, path: Path | None) -> None:
        """Open or create the file; None keeps the database in memory."""
        if sqlite3.sqlite_version_info < VERSION_MIN:
            raise StoreConfig(f"SQLite {sqlite3.sqlite_version} is too old; 3.35 or newer is needed")
        self.catalog = catalog(self.dialect)
        try:
            self.connection = sqlite3.connect(
                path or ":memory:", isolation_level=None, check_same_thread=False
            )
            try:
                self._set_up()
            except BaseException:
                self.connection.close()
                raise
        except sqlite3.Error as error:
            raise StoreConfig(f"cannot open the SQLite file {path}: {error}") from error

    def _set_up(self) -> None:
        self.connection.row_factory = _row
        self.connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        self._enter_wal()
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute("PRAGMA foreign_keys = ON")

    def _is_foreign(self) -> bool:
        """Whether the file has tables, and not ours: it stays as it is, until somebody makes it ours."""
        names = {row["name"] for row in self.connection.execute("SELECT name FROM sqlite_master")}
        return bool(names) and "schema_versions" not in names

    def _enter_wal(self) -> None:
        """Switch to WAL; of several processes that open a new file, SQLite lets none wait for the others."""
        for _ in range(WAL_TRIES):
            try:
                if not self._is_foreign():
                    self.connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    raise
                time.sleep(WAL_PAUSE_S)
            else:
                return
        raise StoreUnavailable("the SQLite file is held by another process that does not let go")

    def begin(self) -> None:
        """Take the write lock at once, so that no later statement can fail for it."""
        self.execute("BEGIN IMMEDIATE", None)

    def begin_read(self) -> None:
        """Look at one snapshot, without the write lock."""
        self.execute("BEGIN", None)

    def commit(self) -> None:
        """Make the transaction durable."""
        self.execute("COMMIT", None)

    def rollback(self) -> None:
        """Undo the transaction, if one is open."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def execute(self, sql: str, params: Any) -> Rows:
        """Run one statement and fetch all of its rows."""
        try:
            return self.connection.execute(sql, params or {}).fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise StoreUnavailable(f"the SQLite file is held by another writer: {error}") from error
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
                raise StoreUnavailable(f"the disk of the SQLite file failed or is full: {error}") from error
            raise StoreError(f"SQLite refused a statement: {error}") from error
        except sqlite3.Error as error:
            raise StoreError(f"SQLite refused a statement: {error}") from error

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    """A row as a mapping, with the moments (`…_at`) as datetimes."""
    return {
        column[0]: from_micros(value) if value is not None and column[0].endswith("_at") else value
        for column, value in zip(cursor.description, values, strict=True)
    }
