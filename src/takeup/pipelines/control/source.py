"""The old table in its DuckDB file: which shape it has, its rows, and moving it aside."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from takeup.core.errors import InvalidInput
from takeup.pipelines.control.mapping import OldRow
from takeup.store.dialect import EPOCH, Dialect
from takeup.store.migrate import upgrade
from takeup.store.op import Op, Row, Script

TABLE, OLD_TABLE = "pipeline_control", "pipeline_control_old"
READ_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Shape:
    """Where the old rows are, and whether their table still has the name that the view will take."""

    table: str
    columns: tuple[str, ...]
    is_aside: bool


def url_of(path: Path, *, is_readonly: bool = False) -> str:
    """The database URL of a DuckDB file."""
    return f"duckdb:///{quote(str(path.absolute()))}{'?readonly=1' if is_readonly else ''}"


def look(path: Path) -> Op[Shape]:
    """Find the old table; changes nothing."""
    rows = yield Script(
        "SELECT lower(table_name) AS name, table_type AS kind FROM information_schema.tables "  # noqa: S608 - constants
        f"WHERE table_schema = 'main' AND lower(table_name) IN ('{TABLE}', '{OLD_TABLE}')"
    )
    kinds = {row["name"]: row["kind"] for row in rows}
    is_table = kinds.get(TABLE) == "BASE TABLE"
    if is_table and OLD_TABLE in kinds:
        raise InvalidInput(f"{path} has a table {TABLE} and also {OLD_TABLE}: rename the second one first")
    table = TABLE if is_table else OLD_TABLE
    if table not in kinds:
        raise InvalidInput(f"{path} has no table {TABLE} to import")
    columns = yield Script(
        "SELECT column_name AS name FROM information_schema.columns "  # noqa: S608 - constants
        f"WHERE table_schema = 'main' AND lower(table_name) = '{table}' ORDER BY ordinal_position"
    )
    names = tuple(row["name"] for row in columns)
    missing = {"url", "iteration"} - {name.lower() for name in names}
    if missing:
        raise InvalidInput(f"the table {table} of {path} has no column {min(missing)}")
    return Shape(table, names, is_aside=not is_table)


def move_aside(dialect: Dialect) -> Op[Sequence[str]]:
    """Rename the old table and install the schema, whose view takes its name, in one transaction.

    DuckDB renames no table that has indexes: they are dropped, and their definitions are the answer.
    """
    rows = yield Script(
        "SELECT index_name AS name, sql FROM duckdb_indexes() "  # noqa: S608 - a constant
        f"WHERE lower(table_name) = '{TABLE}' AND sql IS NOT NULL"
    )
    for row in rows:
        name = str(row["name"]).replace('"', '""')
        yield Script(f'DROP INDEX "{name}"')
    yield Script(f"ALTER TABLE {TABLE} RENAME TO {OLD_TABLE}")
    yield from upgrade(dialect)
    return [str(row["sql"]) for row in rows]


def keys_page(shape: Shape, after: int) -> Op[list[OldRow]]:
    """A page of rows with nothing but their pair."""
    pair = f"url := {_column(shape, 'url')}, iteration := {_column(shape, 'iteration')}"
    rows = yield Script(_page(f"rowid AS number, to_json(struct_pack({pair})) AS whole", shape, after))
    return [_old_row(row) for row in rows]


def rows_page(shape: Shape, after: int) -> Op[list[OldRow]]:
    """A page of rows; a time without a zone is UTC."""
    lease = _column(shape, "lease_until")
    chosen = "rowid AS number, to_json(takeup_row) AS whole"
    if lease:
        moment = f"TRY_CAST({lease} AS TIMESTAMPTZ)"
        chosen += f", epoch_us({moment}) AS lease_us, {lease} IS NOT NULL AS has_lease"
    rows = yield Script(_page(chosen, shape, after))
    return [_old_row(row) for row in rows]


def _page(chosen: str, shape: Shape, after: int) -> str:
    return (
        f"SELECT {chosen} FROM {shape.table} takeup_row WHERE rowid > {after} "  # noqa: S608 - constants and a number
        f"ORDER BY rowid LIMIT {READ_ROWS}"
    )


def _column(shape: Shape, name: str) -> str | None:
    return next((f'"{column}"' for column in shape.columns if column.lower() == name), None)


def _old_row(row: Row) -> OldRow:
    values = {name.lower(): value for name, value in json.loads(row["whole"]).items()}
    return OldRow(row["number"], values, _lease(row))


def _lease(row: Row) -> datetime | float | None:
    if not row.get("has_lease"):
        return None
    try:
        return EPOCH + timedelta(microseconds=row["lease_us"])
    except (OverflowError, TypeError):  # beyond every calendar, infinite, or no time at all
        return math.inf
