"""The statements that write a status agree with the machine tables: sources, targets, births."""

import re
from itertools import product

import pytest

from takeup.core.machine import JOB, MACHINES, OUTBOX, PHASES, TASK, WORKER, Machine
from takeup.store.dialect import Dialect
from takeup.store.sqlfile import Block, load_blocks, select

TABLES: dict[str, Machine] = {"tasks": TASK, "jobs": JOB, "workers": WORKER, "outbox": OUTBOX}
DIALECTS = [Dialect("postgres"), Dialect("sqlite"), Dialect("duckdb")]
UPDATE = re.compile(r"UPDATE (tasks|jobs|workers|outbox) SET\s+(.*?)(?=RETURNING|\Z)", re.DOTALL)
INSERT = re.compile(r"INSERT INTO (jobs|workers|outbox) \(([^;]*?)(?=\n\)|\Z)", re.DOTALL)
LITERAL = re.compile(r"'([A-Za-z_]+)'")

# What the statements that take their target from a parameter are used for by the operations.
PARAMETRIC = {
    ("tasks", "fail_tasks"): ("fail", "give_up"),
    ("tasks", "release_tasks"): ("release", "give_up"),
    ("tasks", "move_tasks"): ("ready", "abandon", "wake", "revoke", "skip", "cancel"),
    ("outbox", "end_messages"): ("deliver", "retry", "park"),
    ("workers", "set_worker_status"): ("drain", "leave"),
    ("jobs", "start_jobs"): tuple(f"enter_{phase}" for phase in PHASES[1:]),
    ("jobs", "close_jobs"): ("complete", "fail", "cancel"),
}
# Statements that name their states, and the moves they make.
LITERALS = {
    ("tasks", "claim_tasks"): ("claim",),
    ("tasks", "claim_task"): ("claim",),
    ("tasks", "complete_tasks"): ("complete",),
    ("tasks", "expire_tasks"): ("expire", "bury"),
    ("outbox", "take_messages"): ("take",),
    ("outbox", "free_messages"): ("free",),
    ("workers", "lose_workers"): ("lose",),
}
FUNCTIONS = ("takeup_start_job", "takeup_close_job")
"""What PostgreSQL calls where the other databases run start_jobs and close_jobs."""


def status_writes(dialect: Dialect) -> list[tuple[str, Block, str, str]]:
    """(table, block, new status, rest of the statement) of every UPDATE that writes a status."""
    found = []
    for block in select(list(load_blocks()), dialect):
        for table, rest in UPDATE.findall(dialect.expand(block.sql)):
            columns = split_columns(rest)
            values = [c.partition("=")[2].strip() for c in columns if re.match(r"status\s*=", c)]
            if values:
                found.append((table, block, values[0], rest))
    return found


def split_columns(text: str) -> list[str]:
    """The assignments of a SET clause, split at the commas outside of brackets, up to FROM or WHERE."""
    parts, depth, current = [], 0, ""
    for word in re.split(r"([(),]|\bFROM\b|\bWHERE\b)", text):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in ("FROM", "WHERE"):
            break
        if depth == 0 and word == ",":
            parts.append(current.strip())
            current = ""
        else:
            current += word
    return [*parts, current.strip()]


def sources_of(table: str, rest: str) -> set[str] | None:
    """The states that the WHERE clause names; None if they come with the parameters."""
    column = rf"(?<![\w.])(?:{table}\.)?status"
    where = rest[re.search(r"\bWHERE\b", rest).start() :]  # type: ignore[union-attr]
    if re.search(column + r"\s*=\s*g\.from_status", where):
        return None
    named = re.search(column + r"\s*(?:=\s*('\w+')|IN \(([^)]*)\))", where)
    assert named, f"an UPDATE of {table} names no state it starts from: {where}"
    return set(LITERAL.findall(named[1] or named[2]))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_every_write_of_a_status_is_a_move(dialect: Dialect):
    seen = set()
    for table, block, value, rest in status_writes(dialect):
        key, machine = (table, block.name), TABLES[table]
        if block.name in FUNCTIONS:
            continue  # looked at below
        if table == "workers" and block.name in ("register_again", "beat_workers"):
            continue  # looked at below
        names = LITERALS.get(key) or PARAMETRIC.get(key)
        assert names, f"{block.name} writes {table}.status: say here which moves it makes"
        moves = [machine.move(name) for name in names]
        sources = sources_of(table, rest)
        if sources is not None:
            assert sources <= set.intersection(*(set(move.sources) for move in moves)), block.name
        if key in LITERALS:
            targets = set(LITERAL.findall(value)) & set(machine.states)
            made = {move.target for move in moves}
            assert targets - set.union(set(), *(set(m.sources) for m in moves)) <= made, block.name
            assert made <= targets, block.name
            pairs = product(sources or (), made)
            assert all(pair in machine.pairs() for pair in pairs), block.name
        else:
            assert value.startswith("g.to_status"), (block.name, value)
        seen.add(key)
    expected = {*LITERALS, *PARAMETRIC}
    assert expected <= seen, f"no statement of these is left: {expected - seen}"


def test_the_functions_of_postgres_make_the_moves_of_a_job():
    postgres = Dialect("postgres")
    functions = {b.name: postgres.expand(b.sql) for b in load_blocks() if b.name in FUNCTIONS}
    start, close = (functions[name] for name in FUNCTIONS)
    rank = f"array_position('{{{','.join(PHASES)}}}'::TEXT[], "
    assert f"AND {rank}f.status) < {rank}furthest)" in start, "a phase must only rise"
    assert set(re.findall(r"ending(?: TEXT)? := '(\w+)'", close)) == set(JOB.final)
    finals = ", ".join(f"'{state}'" for state in JOB.final)
    assert re.search(rf"IF former\.status IN \({finals}\).*?THEN\s+RETURN;", close, re.DOTALL)
    events = dict(re.findall(r"WHEN '(\w+)' THEN '(\w+)'", close))
    assert {JOB.move(event).target for event in events.values()} == set(events)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_workers_register_and_revive_as_the_table_says(dialect: Dialect):
    writes = {block.name: value for table, block, value, _ in status_writes(dialect) if table == "workers"}
    assert writes["register_again"] == f"'{WORKER.move('register').target}'"
    assert set(WORKER.move("register").sources) == set(WORKER.states), "it has no state in its guard"
    revive = WORKER.move("revive")
    assert writes["beat_workers"] == (
        f"CASE WHEN status = '{revive.sources[0]}' THEN '{revive.target}' ELSE status END"
    )


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_rows_are_born_in_an_initial_state(dialect: Dialect):
    births = 0
    for block in select(list(load_blocks()), dialect):
        sql = dialect.expand(block.sql)
        for table, rest in re.findall(
            r"INSERT INTO (jobs|workers|outbox) \(([^;]*?)(?=\n\)|\Z)", sql, re.DOTALL
        ):
            machine = TABLES[table]
            states = set(re.findall(r"'([A-Za-z_]+)'", rest)) & set(machine.states)
            assert states <= set(machine.initial), (block.name, states)
            births += bool(states)
    assert births >= 3


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_every_state_in_a_statement_exists(dialect: Dialect):
    """A misspelt state in a condition would never match, and nobody would see it."""
    states = {state for machine in MACHINES for state in machine.states}
    for block in select(list(load_blocks()), dialect):
        sql = dialect.expand(block.sql)
        for one, many in re.findall(r"\bstatus\s*(?:=|<>)\s*('\w+')|\bstatus\s+(?:NOT )?IN \(([^)]*)\)", sql):
            for word in LITERAL.findall(one or many):
                assert word in states, (block.name, word)
