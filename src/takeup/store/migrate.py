"""Numbered, forward-only migrations, applied in one transaction under one lock.

Ten processes may start at once: one upgrades, the others wait for it and find nothing to do. A database that
a newer Takeup has upgraded is refused before anything is read from it.
"""

import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from takeup.core.errors import NoSchema, SchemaMissing, SchemaTooNew, StoreConfig
from takeup.store.dialect import Dialect
from takeup.store.op import Op, Script
from takeup.store.schema import fingerprint, guards
from takeup.store.sqlfile import Block, parse, select

FILE = re.compile(r"(\d{4})_(\w+)\.sql\Z")
VIEW = "pipeline_control"
LOCK_KEY = 0x74616B65757000
"""The advisory lock that upgrades of one PostgreSQL database share."""


class Migration(NamedTuple):
    """One numbered step of the schema."""

    version: int
    name: str
    blocks: tuple[Block, ...]


@cache
def migrations() -> tuple[Migration, ...]:
    """Every migration that this code knows, oldest first."""
    folder = resources.files("takeup.store") / "migrations"
    found = []
    for file in folder.iterdir():
        match = FILE.match(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], tuple(parse(file.read_text("utf-8")))))
    return tuple(sorted(found))


def newest() -> int:
    """The schema version that this code works with."""
    return migrations()[-1].version


def upgrade(dialect: Dialect) -> Op[list[str]]:
    """Bring the schema up to date; answers with the names of the migrations that were applied."""
    if dialect.name == "postgres":
        yield Script("SET LOCAL statement_timeout = 0")
        yield Script("SET LOCAL lock_timeout = 0")
        yield Script(f"SELECT pg_advisory_xact_lock({LOCK_KEY})")
    yield Script(
        "CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT PRIMARY KEY, name TEXT NOT NULL)"
    )
    yield Script("CREATE TABLE IF NOT EXISTS schema_guards (fingerprint TEXT PRIMARY KEY)")
    current = yield from _version()
    applied = []
    for migration in migrations():
        if migration.version > current:
            yield from _check_free(migration, dialect)
            for block in select(list(migration.blocks), dialect):
                yield Script(dialect.expand(block.sql))
            values = f"({migration.version}, '{migration.name}')"
            yield Script(f"INSERT INTO schema_versions (version, name) VALUES {values}")  # noqa: S608 - our own files
            applied.append(f"{migration.version:04}_{migration.name}")
    yield from _install_guards(dialect)
    return applied


def _check_free(migration: Migration, dialect: Dialect) -> Op[None]:
    """Refuse to make the control view where an old control table has its name."""
    if VIEW in {block.name for block in migration.blocks}:
        rows = yield Script(_FIND_OLD[dialect.name])
        if rows:
            raise StoreConfig(
                f"the database has a table {VIEW} of its own: rename it, "
                "or let `takeup control import` take over the DuckDB file it is in"
            )


def check(dialect: Dialect) -> Op[int]:
    """The schema's version, or an error that says how to get to the one this code needs."""
    tables = yield Script(_FIND_TABLE[dialect.name])
    if not tables:
        raise NoSchema("the database has no Takeup schema")
    current = yield from _version()
    if current < newest():
        raise SchemaMissing(f"the database has schema {current}, this Takeup needs {newest()}")
    if dialect.name == "postgres" and not (yield from _has_guards(dialect)):
        raise SchemaMissing("the functions and guards in the database are those of another Takeup")
    return current


def _version() -> Op[int]:
    rows = yield Script("SELECT COALESCE(MAX(version), 0) AS version FROM schema_versions")
    version: int = rows[0]["version"]
    if version > newest():
        raise SchemaTooNew(f"the database has schema {version}, this Takeup knows up to {newest()}")
    return version


def _install_guards(dialect: Dialect) -> Op[None]:
    if not (yield from _has_guards(dialect)):
        for statement in guards(dialect.name):
            yield Script(statement)
        values = f"('{fingerprint(dialect.name)}')"
        yield Script("DELETE FROM schema_guards")
        yield Script(f"INSERT INTO schema_guards (fingerprint) VALUES {values}")  # noqa: S608 - a digest


def _has_guards(dialect: Dialect) -> Op[bool]:
    """Whether the guards and functions in the database are those that this code works with."""
    rows = yield Script("SELECT fingerprint FROM schema_guards")
    return [row["fingerprint"] for row in rows] == [fingerprint(dialect.name)]


_FIND_OLD = {
    "postgres": "SELECT 1 AS found FROM pg_tables "
    "WHERE schemaname = current_schema() AND tablename = 'pipeline_control'",
    "sqlite": "SELECT 1 AS found FROM sqlite_master WHERE type = 'table' AND name = 'pipeline_control'",
    "duckdb": "SELECT 1 AS found FROM duckdb_tables() WHERE table_name = 'pipeline_control'",
}
_FIND_TABLE = {
    "postgres": "SELECT 1 AS found WHERE to_regclass('schema_versions') IS NOT NULL",
    "sqlite": "SELECT 1 AS found FROM sqlite_master WHERE type = 'table' AND name = 'schema_versions'",
    "duckdb": "SELECT 1 AS found FROM information_schema.tables WHERE table_name = 'schema_versions'",
}
