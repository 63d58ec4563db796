"""Random walks: the same operations on a store and on the oracle, compared after every step.

A walk is decided by its seed alone. When the two differ, the seed, the step and the last commands are
printed, and `walk(store, oracle, seed)` repeats it.
"""

import json
import random
from collections import defaultdict
from dataclasses import fields, is_dataclass
from typing import Any

from takeup.core.errors import TakeupError
from takeup.core.model import Answer, Event, Lease, Message, Task
from takeup.store.op import Op, Script
from takeup.store.store import Store
from takeup.testing.conformance.walk_commands import COMMANDS, Command, Ledger, choose
from takeup.testing.conformance.world import World
from takeup.testing.oracle import OracleStore, Tables

STEPS = 60
JSON_COLUMNS = ("spec", "parameters", "result", "metadata", "processes", "capabilities", "stages", "body")
NOT_COMPARED = {
    "jobs": {"live_subject", "request_hash", "spec_hash"},
    "tasks": {"id", "lane_id", "splits"},
    "workers": {"processes"},
    "outbox": {"id"},
    "artifacts": {"created_at", "job_id", "task_id"},
    "audit": {"seq", "task_id", "message_id", "available_at"},
}
"""Numbers that a store may give out as it likes, and what only one of the two keeps."""


async def walk(store: World, oracle: World, seed: int, steps: int = STEPS) -> list[Command]:
    """One walk on a fresh store and a fresh oracle that share one clock; answers with its commands."""
    rng = random.Random(seed)
    left, right = Ledger(oracle), Ledger(store)
    done: list[Command] = []
    seqs = [0, 0]
    for step in range(steps):
        command = choose(rng, left)
        done.append(command)
        raw = [await run(ledger, command) for ledger in (left, right)]
        states = [await state_of(ledger, seqs, side) for side, ledger in enumerate((left, right))]
        answers = [plain(answer, ledger) for answer, ledger in zip(raw, (left, right), strict=True)]
        where = f"seed {seed}, step {step}: {command}\nbefore it: {done[-8:-1]}"
        assert answers[1] == answers[0], f"{where}\nstore:  {answers[1]}\noracle: {answers[0]}"
        for table, rows in states[0].items():
            assert states[1][table] == rows, f"{where}\n{table}: {difference(states[1][table], rows)}"
    return done


async def run(ledger: Ledger, command: Command) -> Any:
    """The answer of one command, or the name of its error."""
    try:
        return await COMMANDS[command.name](ledger, **command.arguments)
    except TakeupError as error:
        return type(error).__name__


def plain(value: Any, ledger: Ledger) -> Any:
    """An answer without the numbers that a store gives out as it likes, and what it may bring along."""
    if isinstance(value, Answer):
        return (ledger.key(value.task_id), value.accepted, value.status, value.order, value.expires_at)
    if isinstance(value, Message):
        return (value.topic, value.subject, value.status, value.attempt, value.available_at)
    if isinstance(value, Lease):
        return (ledger.key(value.task_id), *value._replace(brief=None)[1:])
    if isinstance(value, Task | Event):
        raise TypeError("compare rows by their tables")
    if is_dataclass(value):
        return tuple(getattr(value, f.name) for f in fields(value))
    if isinstance(value, list) or type(value) is tuple:
        return [plain(item, ledger) for item in value]
    return value


async def state_of(ledger: Ledger, seqs: list[int], side: int) -> dict[str, Any]:
    """Every table that both sides have, and the audit rows that are new, by what they speak of."""
    tables = await tables_of(ledger.world, seqs[side])
    if tables["audit"]:
        seqs[side] = max(row["seq"] for row in tables["audit"])
    ledger.learn(tables["tasks"])
    state: dict[str, Any] = {}
    for table in ("jobs", "tasks", "workers", "outbox", "artifacts"):
        state[table] = sorted(
            (comparable(table, row, ledger) for row in tables[table]), key=lambda row: str(row[0])
        )
    log: dict[Any, list[Any]] = defaultdict(list)
    for row in sorted(tables["audit"], key=lambda row: int(row["seq"])):
        subject = ledger.key(row["task_id"]) or row["worker_id"] or row["job_id"] or row["available_at"]
        log[row["noun"], str(subject)].append(comparable("audit", row, ledger))
    for key, rows in log.items():
        if key[0] == "message":
            rows.sort(key=str)
    return {**state, "audit": dict(log)}


async def tables_of(world: World, after: int) -> Tables:
    """The tables to compare, with the audit rows after this number."""
    if isinstance(world.store, OracleStore):
        tables = world.store.dump()
        tables["audit"] = [row for row in tables["audit"] if row["seq"] > after]
        return tables
    assert isinstance(world.store, Store)
    return await world.store.driver.read(read_tables, after)


def read_tables(after: int) -> Op[Tables]:
    """The tables to compare of a database."""
    tables: Tables = {}
    for table in NOT_COMPARED:
        where = f" WHERE seq > {int(after)}" if table == "audit" else ""
        rows = yield Script(f"SELECT * FROM {table}{where}")  # noqa: S608 - constants and a number
        tables[table] = [dict(row) for row in rows]
    return tables


def comparable(table: str, row: dict[str, Any], ledger: Ledger) -> tuple[Any, list[tuple[str, Any]]]:
    """A row with its key first, JSON parsed, and without what is not compared."""
    key = row.get("id")
    if table in ("tasks", "artifacts"):
        key = ledger.key(row["id"] if table == "tasks" else row["task_id"])
    if table == "outbox":
        key = row["subject"]
    values = {name: value for name, value in row.items() if name not in NOT_COMPARED[table]}
    for name in JSON_COLUMNS:
        if isinstance(values.get(name), str):
            values[name] = json.loads(values[name])
    if table == "workers":
        values["disabled"] = bool(values["disabled"])
    return key, sorted(values.items())


def difference(found: Any, expected: Any) -> str:
    """The first rows that differ."""
    if isinstance(expected, dict):
        key = next(key for key in {*found, *expected} if found.get(key) != expected.get(key))
        return f"{key}\n store:  {found.get(key)}\n oracle: {expected.get(key)}"
    extra = [row for row in found if row not in expected]
    missing = [row for row in expected if row not in found]
    return f"\n store:  {extra[:2]}\n oracle: {missing[:2]}"
