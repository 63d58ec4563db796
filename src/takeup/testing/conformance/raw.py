"""Writes that bypass the code: what the database itself must stop, whoever sends it.

Every illegal write has the shape of its target state, so that only the guard in question can stop it. The
same templates make the legal moves, which must pass, so that a broken template cannot hide.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from takeup.core.errors import StoreError
from takeup.core.machine import JOB, OUTBOX, PHASES, TASK, WORKER, Machine
from takeup.store.op import Op, Script
from takeup.store.schema import TABLES
from takeup.store.store import Store
from takeup.testing.conformance.matrix import build
from takeup.testing.conformance.matrix_other import bring, message_in
from takeup.testing.conformance.world import World

Rows = dict[str, dict[str, Any]]
"""Table, then state, then the id of a row in that state."""

NO_LEASE = dict.fromkeys(
    ("lease_owner", "lease_slot", "nonce_hash", "lease_expires_at", "claimed_at", "claim_request"), "NULL"
)
LEASE = {
    "lease_owner": "'x'",
    "lease_slot": "77",
    "nonce_hash": "'forged'",
    "lease_expires_at": "created_at",
    "claimed_at": "created_at",
    "claim_request": "'r'",
}


@dataclass(frozen=True, slots=True)
class RawWrite:
    """One statement, and what it tries."""

    kind: str
    name: str
    sql: str


class Undo(Exception):
    """Rolls a write back that the database let through."""


def try_write(sql: str) -> Op[None]:
    """Send one statement and take it back."""
    yield Script(sql)
    raise Undo


async def is_stopped(world: World, write: RawWrite) -> bool:
    """Whether the database refuses this write."""
    assert isinstance(world.store, Store)
    message = ""
    try:
        await world.store.driver.run(try_write, write.sql)
    except Undo:
        return False
    except StoreError as error:
        message = str(error)
    assert is_refusal(message), f"{write.name}: not a guard but {message!r}"
    return True


def is_refusal(message: str) -> bool:
    """Whether a guard spoke, and not a mistake in the statement."""
    words = ("takeup:", "constraint", "violates", "violated")
    return any(word in message.lower() for word in words)


async def fill(world: World) -> Rows:
    """A row in every state of every machine, made by legal operations."""
    for name in ("w", "a", "b", "active", "draining", "offline"):
        await world.add_worker(name, 1000)
    rows: Rows = {table: {} for table in TABLES}
    for state in JOB.states:
        rows["jobs"][state] = await job_in(world, state)
    for state in TASK.states:
        subject = await build(world, state)
        rows["tasks"][state] = subject.task_id
        if state in ("NEW", "READY"):
            await world.store.operator.set_control([subject.job_id], "PAUSED")
    await world.store.recovery.deliver(await world.store.recovery.take_messages())
    for state in ("SENDING", "SENT", "PARKED", "WAITING"):
        rows["outbox"][state] = (await message_in(world, state)).id
    for state in WORKER.states:
        rows["workers"][state] = (await bring(world, state, state)).id
    return rows


async def job_in(world: World, state: str) -> str:
    """A job in this state, which no later claim touches."""
    phase = state if state in PHASES[1:] else "processing"
    stage = world.stage("work", phase=phase, lease_s=80_000.0)
    job_id = await world.submit(world.pipeline(stage, name="raw"), subject=f"raw {state}")
    if state == "pending":
        await world.store.operator.set_control([job_id], "PAUSED")
        return job_id
    lease = await world.lease("a")
    if state == "completed":
        await world.finish(lease)
    elif state == "failed":
        await world.fail(lease, retryable=False)
    elif state == "cancelled":
        await world.store.operator.cancel([job_id])
    return job_id


def shape(table: str, state: str) -> dict[str, str]:
    """The columns that make a row of this table look right in this state."""
    machine = TABLES[table]
    sets = {"status": f"'{state}'"}
    if machine is TASK:
        sets |= LEASE | {"attempt": "1"} if state == "RUNNING" else NO_LEASE
        sets |= {"result": "'{}'"} if state == "DONE" else {}
    if machine is OUTBOX:
        sets["lease_expires_at"] = "created_at" if state == "SENDING" else "NULL"
    if machine is JOB:
        sets["live_subject"] = "NULL" if state in JOB.final else "subject"
    if machine.final:
        sets["finished_at"] = "created_at" if state in machine.final else "NULL"
    if machine in (TASK, JOB) and state in machine.final:
        sets["started_at"] = "NULL"
    return sets


def update(table: str, row_id: Any, sets: Mapping[str, str]) -> str:
    """An UPDATE of one row."""
    columns = ", ".join(f"{column} = {value}" for column, value in sets.items())
    return f"UPDATE {table} SET {columns} WHERE id = {literal(row_id)}"  # noqa: S608 - that is the point


def moves(rows: Rows, *, legal: bool) -> Iterator[RawWrite]:
    """A write for every pair of different states that the tables allow, or for every one they do not."""
    for table, machine in TABLES.items():
        pairs = [p for p in sorted(machine.pairs()) if p[0] != p[1]] if legal else machine.illegal_pairs()
        for source, target in pairs:
            sets = shape(table, target)
            if machine is TASK and target == "RUNNING":
                sets["epoch"] = "epoch + 1"
            sql = update(table, rows[table][source], sets)
            yield RawWrite("move", f"{machine.noun} {source}>{target}", sql)


def edits_of_final_rows(rows: Rows) -> Iterator[RawWrite]:
    """Any edit of a row in a final state, even one that changes nothing."""
    edits = {
        "tasks": ("priority = 1", "result = '{\"a\":1}'", "error = 'x'", "control = 'PAUSED'", "id = id"),
        "jobs": ("priority = 1", "error = 'x'", "spec = '{\"a\":1}'", "control = 'PAUSED'", "id = id"),
        "outbox": ("attempt = 9", "error = 'x'", "body = '{\"a\":1}'", "id = id"),
    }
    for table, columns in edits.items():
        for state in TABLES[table].final:
            for column in columns:
                sql = f"UPDATE {table} SET {column} WHERE id = {literal(rows[table][state])}"  # noqa: S608
                yield RawWrite("final", f"{table} {state}: {column}", sql)


def forged_tokens(rows: Rows) -> Iterator[RawWrite]:
    """Epochs that jump or go back, a claim without its epoch, a nonce changed under its holder."""
    for state in TASK.live:
        for change in ("epoch + 1", "epoch + 5"):
            sql = update("tasks", rows["tasks"][state], {"epoch": change})
            yield RawWrite("token", f"task {state}: epoch = {change}", sql)
    back = update("tasks", rows["tasks"]["RUNNING"], {"epoch": "epoch - 1"})
    yield RawWrite("token", "task RUNNING: epoch - 1", back)
    for change in ("epoch", "epoch + 2"):
        sets = {**shape("tasks", "RUNNING"), "epoch": change}
        sql = update("tasks", rows["tasks"]["READY"], sets)
        yield RawWrite("token", f"task READY>RUNNING with epoch = {change}", sql)
    stolen = update("tasks", rows["tasks"]["RUNNING"], {"nonce_hash": "'forged'"})
    yield RawWrite("token", "task RUNNING: another nonce", stolen)


def births(rows: Rows, columns: Mapping[str, list[str]]) -> Iterator[RawWrite]:
    """Rows that are born in a state that only a move may reach."""
    for table, machine in TABLES.items():
        for state in machine.states:
            if state not in machine.initial:
                yield RawWrite(
                    "birth", f"{machine.noun} born {state}", insert(table, machine, state, rows, columns)
                )


def legal_births(rows: Rows, columns: Mapping[str, list[str]]) -> Iterator[RawWrite]:
    """The same template with the states that a row may be born in."""
    for table, machine in TABLES.items():
        for state in machine.initial:
            yield RawWrite(
                "birth", f"{machine.noun} born {state}", insert(table, machine, state, rows, columns)
            )


def insert(
    table: str,
    machine: Machine,
    state: str,
    rows: Rows,
    columns: Mapping[str, list[str]],
) -> str:
    """An INSERT of a copy of a live row, shaped for this state."""
    new_id = {"tasks": "id + 1000000", "outbox": "id + 1000000"}.get(table, "'new-' || id")
    sets = {**shape(table, state), "id": new_id}
    if table == "tasks":
        sets |= {"stage": "'other'", "epoch": "1"}
    if table == "jobs":
        sets |= {"idempotency_key": "NULL", "live_subject": "NULL", "subject": "NULL"}
    values = ", ".join(sets.get(column, column) for column in columns[table])
    source = literal(rows[table][machine.live[0]])
    names = ", ".join(columns[table])
    return f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} WHERE id = {source}"  # noqa: S608


def deletes(rows: Rows) -> Iterator[RawWrite]:
    """Live rows that vanish."""
    for table in ("tasks", "jobs", "outbox"):
        for state in TABLES[table].live:
            sql = f"DELETE FROM {table} WHERE id = {literal(rows[table][state])}"  # noqa: S608 - that is the point
            yield RawWrite("delete", f"{table} {state}", sql)


IDENTITIES = {
    "tasks": ("id = id + 1000000", "job_id = (SELECT MAX(j.id) FROM jobs j)", "stage = 'x'", "segment = 7"),
    "jobs": ("id = 'x'", "user_id = 'x'", "live_subject = 'x'", "idempotency_key = 'x'"),
    "workers": ("id = 'x'",),
    "outbox": ("id = id + 1000000",),
}


def other_identities(rows: Rows) -> Iterator[RawWrite]:
    """Rows that become another row."""
    for table, changes in IDENTITIES.items():
        row_id = literal(rows[table][TABLES[table].live[0]])
        for change in changes:
            sql = f"UPDATE {table} SET {change} WHERE id = {row_id}"  # noqa: S608 - that is the point
            yield RawWrite("identity", f"{table}: {change}", sql)


def audit_edits() -> Iterator[RawWrite]:
    """History that is rewritten or trimmed."""
    live = "(SELECT id FROM jobs WHERE status = 'processing')"
    yield RawWrite("audit", "rows of a live job", f"DELETE FROM audit WHERE job_id IN {live}")  # noqa: S608
    for change in ("reason = 'x'", "event = 'complete'", "to_status = 'DONE'", "seq = seq + 1000000"):
        yield RawWrite("audit", change, f"UPDATE audit SET {change} WHERE seq = (SELECT MIN(seq) FROM audit)")  # noqa: S608


def literal(value: Any) -> str:
    """A value as SQL writes it."""
    return f"'{value}'" if isinstance(value, str) else str(value)
