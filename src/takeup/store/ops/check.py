"""Looks for what is wrong with a database: its file, its guards, and rows that contradict each other."""

import re
from typing import NamedTuple

from takeup.store import migrate
from takeup.store.dialect import Dialect
from takeup.store.op import Op, query
from takeup.store.schema import guards

TRIGGER = re.compile(r"CREATE TRIGGER (\w+)")


class Checked(NamedTuple):
    """The version of the schema, and a line for each thing that is wrong."""

    version: int
    findings: tuple[str, ...]


def check(dialect: Dialect) -> Op[Checked]:
    """Everything that is wrong; a schema of another version is an error."""
    version = yield from migrate.check(dialect)
    found = []
    rows = yield query("check_file")
    found += [
        f"the file is damaged: {row['integrity_check']}" for row in rows if row["integrity_check"] != "ok"
    ]
    broken = yield query("check_references")
    if broken:
        found.append(f"{len(broken)} rows refer to rows that do not exist")
    wanted = {name for statement in guards(dialect.name) for name in TRIGGER.findall(statement)}
    present = {row["name"] for row in (yield query("check_guards"))}
    found += [f"the guard {name} is missing or switched off" for name in sorted(wanted - present)]
    invalid = yield query("check_indexes")
    found += [f"the index {row['name']} is not valid" for row in invalid]
    faults = yield query("check_rows")
    found += [f"{row['row_count']} {row['fault']}" for row in faults if row["row_count"]]
    return Checked(version, tuple(found))
