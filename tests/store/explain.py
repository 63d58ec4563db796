"""The plans of every statement that an operation runs, with the parameters it really has."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import asyncpg

from takeup.store.dialect import Dialect
from takeup.store.op import Op, Query
from takeup.store.sqlfile import catalog

CATALOG = catalog(Dialect("postgres", injected_clock=False))
Plan = dict[str, Any]


async def plans_of(connection: asyncpg.Connection, make: Callable[[], Op[Any]]) -> dict[str, Plan]:
    """Run the operation, explain each of its statements on the way, and undo it all."""
    found: dict[str, Plan] = {}
    transaction = connection.transaction()
    await transaction.start()
    try:
        op = make()
        step = next(op)
        while True:
            rows: list[Any] = []
            statement = CATALOG[step.name].fitting(step.params) if isinstance(step, Query) else None
            if statement and statement.sql:
                values = statement.bind(step.params)
                found[step.name] = await explain(connection, statement.name, statement.sql, values)
                rows = await connection.fetch(statement.sql, *values)
            step = op.send(rows)
    except StopIteration:
        return found
    finally:
        await transaction.rollback()


async def explain(connection: asyncpg.Connection, name: str, sql: str, values: list[Any]) -> Plan:
    """What the statement did, then undone; prepared, so that the session decides on the kind of plan."""
    await connection.execute("SAVEPOINT explained")
    await connection.execute(f"PREPARE explained AS {sql}")
    call = f"explained({', '.join(map(literal, values))})" if values else "explained"
    text = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {call}")
    await connection.execute("DEALLOCATE explained; ROLLBACK TO explained")
    plan: Plan = {**json.loads(text)[0], "name": name}
    return plan


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list | tuple):
        return quoted("{" + ",".join(map(element, value)) + "}")
    return quoted(scalar(value))


def element(value: Any) -> str:
    if value is None:
        return "NULL"
    return '"' + scalar(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def scalar(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def nodes_of(plan: Plan) -> Iterator[Plan]:
    """Every node of the tree, from its root."""
    waiting = [plan["Plan"]]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.get("Plans", [])


def scans_of(plan: Plan) -> set[str]:
    """The tables and indexes that the plan reads from end to end."""
    found = set()
    for node in nodes_of(plan):
        if node["Node Type"] == "Seq Scan":
            found.add(node["Relation Name"])
        elif "Index Name" in node and "Index Cond" not in node:
            found.add(node["Index Name"])
    return found


def indexes_of(plan: Plan) -> set[str]:
    return {node["Index Name"] for node in nodes_of(plan) if "Index Name" in node}


def buffers_of(plan: Plan, index: str | None = None) -> int:
    """The pages that the statement read, or that it read to look into this index."""
    nodes = [node for node in nodes_of(plan) if node.get("Index Name") == index] if index else [plan["Plan"]]
    return int(sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in nodes))
