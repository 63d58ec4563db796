"""Writes that bypass the code: PostgreSQL and SQLite stop all of them; DuckDB, without triggers, some."""

from collections import Counter

import pytest

from takeup.core.machine import JOB, OUTBOX, TASK, WORKER
from takeup.store.schema import TABLES
from takeup.testing.conformance import World, raw, raw_shape
from tests.conformance.conftest import WITH_TRIGGERS, OpenWorld


async def columns_of(world: World) -> dict[str, list[str]]:
    tables = await world.dump()
    return {table: list(tables[table][0]) for table in ("tasks", "jobs", "workers", "outbox")}


async def all_writes(world: World) -> tuple[list[raw.RawWrite], list[raw.RawWrite]]:
    """Every illegal write, and the legal ones made from the same templates."""
    rows = await raw.fill(world)
    columns = await columns_of(world)
    illegal = [
        *raw.moves(rows, legal=False),
        *raw.edits_of_final_rows(rows),
        *raw.forged_tokens(rows),
        *raw.births(rows, columns),
        *raw.deletes(rows),
        *raw.other_identities(rows),
        *raw.audit_edits(),
        *raw_shape.broken_shapes(rows),
        *raw_shape.doubled_rows(rows, columns),
    ]
    return illegal, [*raw.moves(rows, legal=True), *raw.legal_births(rows, columns)]


@pytest.mark.parametrize("store", WITH_TRIGGERS)
async def test_every_illegal_write_is_stopped(store: str, open_world: OpenWorld, record_property):
    async with open_world(store) as world:
        illegal, legal = await all_writes(world)
        async with world.unchanged():
            passed = [w for w in illegal if not await raw.is_stopped(world, w)]
            stopped = [w.name for w in legal if await raw.is_stopped(world, w)]
    counts = Counter(write.kind for write in illegal)
    record_property("illegal_writes_stopped", str(dict(counts)))
    assert passed == []
    assert stopped == [], "the templates must be able to pass, or they prove nothing"
    machines = (TASK, JOB, WORKER, OUTBOX)
    assert counts["move"] == sum(len(list(machine.illegal_pairs())) for machine in machines)


async def test_duckdb_keeps_shapes_but_no_moves(open_world: OpenWorld):
    """It has no triggers: the CHECKs stand, illegal moves of well-shaped rows do not stop it."""
    async with open_world("duckdb") as world:
        illegal, _ = await all_writes(world)
        stopped = {w.name for w in illegal if await raw.is_stopped(world, w)}
    shapes = [write.name for write in illegal if write.kind == "shape"]
    moves = [write.name for write in illegal if write.kind == "move"]
    assert [name for name in shapes if name not in stopped] == []
    assert [name for name in moves if name in stopped] == [], "better than documented: say so in the docs"


@pytest.mark.parametrize("verb", ["INSERT OR REPLACE", "REPLACE", "INSERT OR IGNORE"])
async def test_sqlite_replaces_no_row(verb: str, open_world: OpenWorld):
    """REPLACE deletes the row that is in its way without a DELETE trigger; IGNORE leaves it as it is."""
    async with open_world("sqlite") as world:
        rows = await raw.fill(world)
        columns = await columns_of(world)
        async with world.unchanged():
            for table, machine in TABLES.items():
                sets = raw.shape(table, machine.initial[-1])
                if table == "tasks":
                    sets["attempt"] = "0"
                values = ", ".join(sets.get(name, name) for name in columns[table])
                for state in machine.states:
                    row_id = raw.literal(rows[table][state])
                    names = ", ".join(columns[table])
                    sql = f"{verb} INTO {table} ({names}) SELECT {values} FROM {table} WHERE id = {row_id}"
                    assert await raw.is_stopped(world, raw.RawWrite("replace", state, sql)), (table, state)
