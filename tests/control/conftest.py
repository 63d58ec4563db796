"""Control tables on every database, and old tables in DuckDB files of every shape."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from takeup.core.pipeline import Pipeline, Stage
from takeup.pipelines.control import ControlTable
from takeup.testing.clocks import ManualClock
from tests.conformance.conftest import OpenWorld, open_world, templates

__all__ = ["open_world", "templates"]

DATABASES = ("sqlite", "duckdb", "postgres15")
PIPELINE = Pipeline.of(
    "table",
    [
        Stage("fetch", lease_s=900.0),
        Stage("align", needs=("fetch",), lease_s=900.0),
        Stage("score", needs=("align",), lease_s=900.0),
    ],
    key=("url", "iteration"),
)
NEW_COLUMNS = {
    "task_state": "TEXT DEFAULT 'READY'",
    "is_claimed": "BOOLEAN DEFAULT FALSE",
    "worker_id": "TEXT",
    "lease_until": "TIMESTAMP",
}
OLD_COLUMNS = {"url": "TEXT", "iteration": "INTEGER", "stage": "TEXT", "status": "TEXT", "title": "TEXT"}
BOTH_COLUMNS = {**OLD_COLUMNS, "process_status": "TEXT", **NEW_COLUMNS}


@dataclass
class Scene:
    table: ControlTable
    clock: ManualClock
    kind: str


OpenTable = Callable[[str], contextlib.AbstractAsyncContextManager[Scene]]


@pytest.fixture
def open_table(open_world: OpenWorld) -> OpenTable:
    @contextlib.asynccontextmanager
    async def opened(kind: str) -> AsyncIterator[Scene]:
        async with open_world(kind) as world:
            yield Scene(ControlTable(world.store, PIPELINE), world.clock, kind)

    return opened


def old_file(
    path: Path, rows: Iterable[dict[str, Any]], columns: dict[str, str] | None = None, *extra: str
) -> Path:
    """A DuckDB file with the table as somebody left it; `extra` is run after it was filled."""
    columns = columns or {**OLD_COLUMNS, "process_status": "TEXT"}
    with duckdb.connect(str(path)) as connection:
        listed = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
        connection.execute(f"CREATE TABLE pipeline_control ({listed})")
        places = ", ".join("?" for _ in columns)
        values = [[row.get(name) for name in columns] for row in rows]
        if values:
            connection.executemany(f"INSERT INTO pipeline_control VALUES ({places})", values)
        for statement in extra:
            connection.execute(statement)
    return path


def ask(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(sql).fetchall()


def shown(path: Path) -> dict[tuple[str, int], tuple[str, str, str]]:
    """What the view tells of each pair: stage, status, task_state."""
    rows = ask(path, "SELECT url, iteration, stage, status, task_state FROM pipeline_control")
    return {(url, iteration): (stage, status, state) for url, iteration, stage, status, state in rows}


def naive(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)
