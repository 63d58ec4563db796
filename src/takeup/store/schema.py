"""The guards that the databases themselves keep, rendered from the machine tables.

Row shape is in the CHECK constraints of the migrations. Here are the triggers that refuse an illegal move,
any edit of a final row, a birth in the wrong state and a forged epoch, whoever sends the statement. DuckDB
has no triggers: there the guarded statements and the CHECKs stand alone, and one process writes.
"""

from collections.abc import Iterator
from typing import NamedTuple

from takeup.core.ids import digest
from takeup.core.machine import JOB, OUTBOX, TASK, WORKER, Machine
from takeup.store.dialect import Dialect, DialectName
from takeup.store.sqlfile import load_blocks

TABLES: dict[str, Machine] = {"tasks": TASK, "jobs": JOB, "workers": WORKER, "outbox": OUTBOX}

EPOCH_RULE = (
    "NEW.epoch <> OLD.epoch + (CASE WHEN OLD.status = 'READY' AND NEW.status = 'RUNNING' THEN 1 ELSE 0 END)"
    " OR (OLD.status = 'RUNNING' AND NEW.status = 'RUNNING' AND NEW.nonce_hash <> OLD.nonce_hash)"
)
"""A token changes only by a claim, and only to the next epoch."""

IDENTITY = {
    "tasks": (
        "id, job_id, pipeline, stage, segment",
        (
            "NEW.id <> OLD.id OR NEW.job_id <> OLD.job_id OR NEW.pipeline <> OLD.pipeline"
            " OR NEW.stage <> OLD.stage OR COALESCE(NEW.segment, -1) <> COALESCE(OLD.segment, -1)"
        ),
    ),
    "jobs": (
        "id, user_id, live_subject, idempotency_key",
        (
            "NEW.id <> OLD.id OR NEW.user_id <> OLD.user_id"
            " OR COALESCE(NEW.live_subject, OLD.live_subject, '') <> COALESCE(OLD.live_subject, '')"
            " OR COALESCE(NEW.idempotency_key, '') <> COALESCE(OLD.idempotency_key, '')"
        ),
    ),
    "workers": ("id", "NEW.id <> OLD.id"),
    "outbox": ("id", "NEW.id <> OLD.id"),
}
"""What an update may never change: which row it is. Checked only by an update that names these columns."""

HOT = ("claim", "renew", "complete")
"""The moves of a task that PostgreSQL lets pass without calling the guard's function."""

TAKEN = {
    "tasks": (
        "id = NEW.id",
        "job_id = NEW.job_id AND stage = NEW.stage AND COALESCE(segment, -1) = COALESCE(NEW.segment, -1)",
    ),
    "jobs": (
        "id = NEW.id",
        "live_subject = NEW.live_subject",
        "user_id = NEW.user_id AND idempotency_key = NEW.idempotency_key",
    ),
    "workers": ("id = NEW.id",),
    "outbox": ("id = NEW.id",),
    "audit": ("seq = NEW.seq",),
}
"""The keys of each table. SQLite's REPLACE deletes the row that is in its way without asking a trigger."""

SLOT_TAKEN = (
    "NEW.status = 'RUNNING' AND EXISTS (SELECT 1 FROM tasks o WHERE o.status = 'RUNNING'"
    " AND o.lease_owner = NEW.lease_owner AND o.lease_slot = NEW.lease_slot AND o.id <> NEW.id)"
)


def illegal_update(machine: Machine) -> str:
    """The condition on OLD and NEW under which an update must be refused."""
    pairs = sorted(f"{source}>{target}" for source, target in machine.pairs() if source != target)
    rules = [f"(OLD.status <> NEW.status AND OLD.status || '>' || NEW.status NOT IN ({_list(pairs)}))"]
    if machine.final:
        rules.insert(0, f"OLD.status IN ({_list(machine.final)})")
    if machine is TASK:
        rules.append(f"({EPOCH_RULE})")
    return " OR ".join(rules)


def illegal_insert(machine: Machine) -> str:
    """The condition on NEW under which a new row must be refused."""
    return f"NEW.status NOT IN ({_list(machine.initial)})"


def illegal_delete(machine: Machine) -> str:
    """The condition on OLD under which a row must stay: only final rows may leave for the archive."""
    return f"OLD.status IN ({_list(machine.live)})"


def guards(dialect: DialectName) -> list[str]:
    """The statements that install every guard and function, replacing older ones."""
    if dialect == "postgres":
        return [*_postgres_guards(), *_postgres_functions()]
    if dialect == "sqlite":
        return list(_sqlite_guards())
    return []


def fingerprint(dialect: DialectName) -> str:
    """Changes whenever the guards do, so that they are installed again."""
    return digest("\n".join(guards(dialect)))


def _postgres_functions() -> list[str]:
    postgres = Dialect("postgres")
    blocks = [block for block in load_blocks() if block.name.startswith("takeup_")]
    return [
        *(f"DROP FUNCTION IF EXISTS {block.name}" for block in blocks),
        *(postgres.expand(block.sql) for block in blocks),
    ]


class Rule(NamedTuple):
    """A condition under which a database refuses a change, and what it says then."""

    table: str
    name: str
    event: str
    condition: str
    message: str


def _rules() -> Iterator[Rule]:
    for table, machine in TABLES.items():
        noun = machine.noun
        yield Rule(table, "guard_update", "UPDATE", illegal_update(machine), f"illegal move of a {noun}")
        columns, changed = IDENTITY[table]
        yield Rule(
            table, "guard_identity", f"UPDATE OF {columns}", changed, f"a {noun} stays the same {noun}"
        )
        yield Rule(
            table, "guard_insert", "INSERT", illegal_insert(machine), f"a {noun} cannot start in this state"
        )
        if machine.final:
            yield Rule(table, "guard_delete", "DELETE", illegal_delete(machine), f"a live {noun} stays")
    yield Rule("audit", "guard_update", "UPDATE", "1 = 1", "the audit log is never edited")
    live = _list(JOB.live)
    alive = f"EXISTS (SELECT 1 FROM jobs j WHERE j.id = OLD.job_id AND j.status IN ({live}))"  # noqa: S608
    yield Rule("audit", "guard_delete", "DELETE", alive, "the log of a live job stays")


def _replacing() -> Iterator[Rule]:
    """The same for SQLite's REPLACE."""
    for table, keys in TAKEN.items():
        taken = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {key})" for key in keys)  # noqa: S608
        yield Rule(table, "replace_insert", "INSERT", taken, f"a row of {table} is never replaced")
    yield Rule("tasks", "replace_update", "UPDATE", SLOT_TAKEN, "a slot holds one lease")


def _not_hot() -> str:
    """A condition that fails for every legal hot move, and for no illegal change of state or token.

    PostgreSQL parses the condition of a trigger in every statement, so it is kept short: one text that tells
    the states, by how much the epoch grew and whether the nonce stayed.
    """
    moves = []
    for move in map(TASK.move, HOT):
        nonce = "t" if move.sources == (move.target,) else ""
        moves.append(f"{move.sources[0]}{move.target}{int(move.name == 'claim')}{nonce}")
    change = "concat(OLD.status, NEW.status, NEW.epoch - OLD.epoch, OLD.nonce_hash = NEW.nonce_hash)"
    return f"{change} <> ALL ('{{{','.join(moves)}}}')"


def _postgres_guards() -> Iterator[str]:
    """The condition stands in a function, compiled once a session; a WHEN clause is parsed each time.

    An update is judged after it was made: a trigger before it would lock every row a second time.
    """
    for rule in _rules():
        name = f"{rule.table}_{rule.name}"
        row = "OLD" if rule.event == "DELETE" else "NEW"
        moment = "AFTER" if rule.event.startswith("UPDATE") else "BEFORE"
        when = f"WHEN ({_not_hot()}) " if name == "tasks_guard_update" else ""
        yield (
            f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF {rule.condition} THEN "
            f"RAISE EXCEPTION 'takeup: {rule.message}' USING ERRCODE = 'check_violation'; END IF; "
            f"RETURN {row}; END $$"
        )
        yield f"DROP TRIGGER IF EXISTS {name} ON {rule.table}"
        yield (
            f"CREATE TRIGGER {name} {moment} {rule.event} ON {rule.table} FOR EACH ROW {when}"
            f"EXECUTE FUNCTION {name}()"
        )


def _sqlite_guards() -> Iterator[str]:
    for rule in (*_rules(), *_replacing()):
        name = f"{rule.table}_{rule.name}"
        yield f"DROP TRIGGER IF EXISTS {name}"
        yield (
            f"CREATE TRIGGER {name} BEFORE {rule.event} ON {rule.table} FOR EACH ROW WHEN ({rule.condition}) "
            f"BEGIN SELECT RAISE(ABORT, 'takeup: {rule.message}'); END"
        )


def _list(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)
