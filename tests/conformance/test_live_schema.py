"""The machine tables, and the CHECKs and triggers as the live databases tell them, say the same."""

import re

import pytest

from takeup.core.machine import Machine
from takeup.store.op import Op, Script
from takeup.store.schema import TABLES
from takeup.testing.conformance import World
from tests.conformance.conftest import DATABASES, WITH_TRIGGERS, OpenWorld

CHECKS = {
    "postgres": "SELECT conrelid::regclass::text AS name, pg_get_constraintdef(oid) AS text "
    "FROM pg_constraint WHERE contype = 'c'",
    "sqlite": "SELECT name, sql AS text FROM sqlite_master WHERE type = 'table'",
    "duckdb": "SELECT table_name AS name, expression AS text FROM duckdb_constraints() "
    "WHERE constraint_type = 'CHECK'",
}
TRIGGERS = {
    "postgres": "SELECT t.tgname AS name, p.prosrc AS text FROM pg_trigger t "
    "JOIN pg_proc p ON p.oid = t.tgfoid WHERE NOT t.tgisinternal AND t.tgenabled = 'O'",
    "sqlite": "SELECT name, sql AS text FROM sqlite_master WHERE type = 'trigger'",
}
WORD = re.compile(r"'([A-Za-z_]+)'")
PAIR = re.compile(r"'([A-Za-z_]+)>([A-Za-z_]+)'")


def fetch(sql: str) -> Op[list[tuple[str, str]]]:
    rows = yield Script(sql)
    return [(row["name"], row["text"] or "") for row in rows]


async def catalogue(world: World, queries: dict[str, str]) -> list[tuple[str, str]]:
    driver = world.store.driver
    return await driver.read(fetch, queries[driver.dialect.name])


def status_checks(table: str, checks: list[tuple[str, str]]) -> list[str]:
    """The texts of the CHECKs of a table that speak of its status, one by one."""
    texts = [text for name, text in checks if name == table]
    if len(texts) == 1 and "CREATE TABLE" in texts[0]:
        lines = texts[0].splitlines()
        texts = [line for line in lines if "CHECK" in line]
    return [text for text in texts if re.search(r"\bstatus\b", text)]


def is_list_of_states(text: str, machine: Machine) -> bool:
    return "IS NOT NULL" not in text.replace("TEXT NOT NULL", "") and machine.live[0] in text


@pytest.mark.parametrize("store", DATABASES)
async def test_the_checks_list_the_states_of_the_machines(store: str, open_world: OpenWorld):
    async with open_world(store) as world:
        checks = await catalogue(world, CHECKS)
    for table, machine in TABLES.items():
        texts = status_checks(table, checks)
        listed = [frozenset(WORD.findall(text)) for text in texts if is_list_of_states(text, machine)]
        assert frozenset(machine.states) in listed, (table, texts)
        if machine.final:
            ends = [t for t in texts if "finished_at IS NOT NULL" in t and "started_at" not in t]
            finals = [frozenset(WORD.findall(t)) for t in ends]
            assert finals == [frozenset(machine.final)], (table, ends)


@pytest.mark.parametrize("store", WITH_TRIGGERS)
async def test_the_triggers_know_the_moves_of_the_machines(store: str, open_world: OpenWorld):
    async with open_world(store) as world:
        triggers = dict(await catalogue(world, TRIGGERS))
    for table, machine in TABLES.items():
        text = triggers.pop(f"{table}_guard_update")
        moves = {pair for pair in machine.pairs() if pair[0] != pair[1]}
        assert set(PAIR.findall(text)) == moves, table
        finals = re.search(r"OLD\.status IN \(([^)]*)\)", text)
        assert frozenset(WORD.findall(finals[1]) if finals else ()) == frozenset(machine.final), table
        born = triggers.pop(f"{table}_guard_insert")
        allowed = re.search(r"NEW\.status NOT IN \(([^)]*)\)", born)
        assert allowed, born
        assert set(WORD.findall(allowed[1])) == set(machine.initial)
        if machine.final:
            kept = re.search(r"OLD\.status IN \(([^)]*)\)", triggers.pop(f"{table}_guard_delete"))
            assert kept, table
            assert set(WORD.findall(kept[1])) == set(machine.live)
    assert "audit_guard_update" in triggers


@pytest.mark.parametrize("store", ["postgres15", "postgres18"])
async def test_what_postgres_lets_pass_by_without_its_guard_is_legal(store: str, open_world: OpenWorld):
    sql = (
        "SELECT tgname AS name, pg_get_triggerdef(oid) AS text FROM pg_trigger "
        "WHERE NOT tgisinternal AND tgqual IS NOT NULL"
    )
    async with open_world(store) as world:
        found = dict(await catalogue(world, {"postgres": sql}))
    for name, text in found.items():
        machine = TABLES[name.partition("_")[0]]
        epochs = "(new.epoch - old.epoch), (old.nonce_hash = new.nonce_hash)"
        assert f"WHEN ((concat(old.status, new.status, {epochs}) <> ALL ('{{" in text, text
        passed = re.findall(r"\b([A-Z]+)([01])(t?)\b", text)
        assert len(passed) == 1 + text.count(",READY") + text.count(",RUNNING"), text
        legal = {f"{source}{target}": (source, target) for source, target in machine.pairs()}
        for states, epoch, nonce in passed:
            source, target = legal[states]
            assert (epoch == "1") == (target == "RUNNING" and source != target), text
            assert (nonce == "t") == (source == target), text


async def test_duckdb_has_no_triggers(open_world: OpenWorld):
    async with open_world("duckdb") as world:
        assert isinstance(world, World)
        with pytest.raises(Exception, match=r"(?i)trigger"):
            await world.store.driver.run(
                fetch, "CREATE TRIGGER t BEFORE UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION f()"
            )
