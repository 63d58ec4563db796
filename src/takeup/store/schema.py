"""The guards that the databases themselves keep, rendered from the machine tables.

Row shape is in the CHECK constraints of the migrations. Here are the triggers that refuse an illegal move,
any edit of a final row, a birth in the wrong state and a forged epoch, whoever sends the statement. DuckDB
has no triggers: there the guarded statements and the CHECKs stand alone, and one process writes.
"""

from collections.abc import Iterator

from takeup.core.ids import digest
from takeup.core.machine import JOB, OUTBOX, TASK, WORKER, Machine
from takeup.store.dialect import DialectName

TABLES: dict[str, Machine] = {"tasks": TASK, "jobs": JOB, "workers": WORKER, "outbox": OUTBOX}

EPOCH_RULE = (
    "NEW.epoch <> OLD.epoch + (CASE WHEN OLD.status = 'READY' AND NEW.status = 'RUNNING' THEN 1 ELSE 0 END)"
    " OR (OLD.status = 'RUNNING' AND NEW.status = 'RUNNING' AND NEW.nonce_hash <> OLD.nonce_hash)"
)
"""A token changes only by a claim, and only to the next epoch."""

IDENTITY = {
    "tasks": "NEW.id <> OLD.id OR NEW.job_id <> OLD.job_id OR NEW.stage <> OLD.stage"
    " OR COALESCE(NEW.segment, -1) <> COALESCE(OLD.segment, -1)",
    "jobs": "NEW.id <> OLD.id OR NEW.user_id <> OLD.user_id"
    " OR COALESCE(NEW.live_subject, OLD.live_subject, '') <> COALESCE(OLD.live_subject, '')"
    " OR COALESCE(NEW.idempotency_key, '') <> COALESCE(OLD.idempotency_key, '')",
    "workers": "NEW.id <> OLD.id",
    "outbox": "NEW.id <> OLD.id",
}
"""What an update may never change: which row it is."""

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
    rules.append(f"({IDENTITY[_TABLE_OF[machine.noun]]})")
    return " OR ".join(rules)


_TABLE_OF = {machine.noun: table for table, machine in TABLES.items()}


def illegal_insert(machine: Machine) -> str:
    """The condition on NEW under which a new row must be refused."""
    return f"NEW.status NOT IN ({_list(machine.initial)})"


def illegal_delete(machine: Machine) -> str:
    """The condition on OLD under which a row must stay: only final rows may leave for the archive."""
    return f"OLD.status IN ({_list(machine.live)})"


def guards(dialect: DialectName) -> list[str]:
    """The statements that install every guard, replacing older ones."""
    if dialect == "postgres":
        return list(_postgres_guards())
    if dialect == "sqlite":
        return list(_sqlite_guards())
    return []


def fingerprint(dialect: DialectName) -> str:
    """Changes whenever the guards do, so that they are installed again."""
    return digest("\n".join(guards(dialect)))


def _rules() -> Iterator[tuple[str, str, str, str]]:
    """Table, event, the condition to refuse and what to say; in both databases."""
    for table, machine in TABLES.items():
        yield table, "UPDATE", illegal_update(machine), f"illegal move of a {machine.noun}"
        yield table, "INSERT", illegal_insert(machine), f"a {machine.noun} cannot start in this state"
        if machine.final:
            yield table, "DELETE", illegal_delete(machine), f"a live {machine.noun} cannot be deleted"
    yield "audit", "UPDATE", "1 = 1", "the audit log is never edited"
    live = _list(JOB.live)
    alive = f"EXISTS (SELECT 1 FROM jobs j WHERE j.id = OLD.job_id AND j.status IN ({live}))"  # noqa: S608
    yield "audit", "DELETE", alive, "the log of a live job stays"


def _replacing() -> Iterator[tuple[str, str, str, str]]:
    """The same for SQLite's REPLACE."""
    for table, keys in TAKEN.items():
        taken = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {key})" for key in keys)  # noqa: S608
        yield table, "INSERT", taken, f"a row of {table} is never replaced"
    yield "tasks", "UPDATE", SLOT_TAKEN, "a slot holds one lease"


def _postgres_guards() -> Iterator[str]:
    """The condition stands in a function, compiled once a session; a WHEN clause is parsed each time."""
    for table, event, condition, message in _rules():
        name = f"{table}_guard_{event.lower()}"
        row = "OLD" if event == "DELETE" else "NEW"
        yield (
            f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF {condition} THEN "
            f"RAISE EXCEPTION 'takeup: {message}' USING ERRCODE = 'check_violation'; END IF; "
            f"RETURN {row}; END $$"
        )
        yield f"DROP TRIGGER IF EXISTS {name} ON {table}"
        yield f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()"


def _sqlite_guards() -> Iterator[str]:
    for kind, rules in (("guard", _rules()), ("replace", _replacing())):
        for table, event, condition, message in rules:
            name = f"{table}_{kind}_{event.lower()}"
            yield f"DROP TRIGGER IF EXISTS {name}"
            yield (
                f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW WHEN ({condition}) "
                f"BEGIN SELECT RAISE(ABORT, 'takeup: {message}'); END"
            )


def _list(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)
