"""Raw writes that break the shape of a row: CHECKs, unique indexes and references must stop them."""

from collections.abc import Iterator

from takeup.testing.conformance.raw import LEASE, RawWrite, Rows, literal, shape, update

TASK_SHAPES = (
    ("RUNNING", "attempt = 0"),
    ("RUNNING", "attempt = -1"),
    ("RUNNING", "attempt = max_attempts + 1"),
    ("RUNNING", "attempt = epoch + 1"),
    ("RUNNING", "max_attempts = 0"),
    ("RUNNING", "refunds = -1"),
    ("RUNNING", "priority = 11"),
    ("RUNNING", "priority = -1"),
    ("RUNNING", "control = 'STOP'"),
    ("RUNNING", "job_control = 'STOP'"),
    ("RUNNING", "phase = 'pending'"),
    ("RUNNING", "segment = -1"),
    ("RUNNING", "lease_s = 0"),
    ("RUNNING", "stall_s = 0"),
    ("RUNNING", "progress_percent = 101"),
    ("RUNNING", "progress_percent = -1"),
    ("RUNNING", "status = NULL"),
    ("RUNNING", "status = 'LOST'"),
    ("RUNNING", "parameters = NULL"),
    ("RUNNING", "finished_at = created_at"),
    ("READY", "finished_at = created_at"),
    ("READY", "attempt = epoch + 1"),
    ("NEW", "attempt = 1"),
    ("ERROR", "finished_at = created_at"),
)
JOB_SHAPES = (
    ("processing", "priority = 11"),
    ("processing", "priority = -1"),
    ("processing", "control = 'STOP'"),
    ("processing", "status = 'paused'"),
    ("processing", "status = NULL"),
    ("processing", "generation = 0"),
    ("processing", "finished_at = created_at"),
    ("processing", "spec = NULL"),
    ("processing", "live_subject = NULL"),
)
WORKER_SHAPES = (
    ("active", "slots = 0"),
    ("active", "kind = 'cloud'"),
    ("active", "status = 'busy'"),
    ("active", "status = NULL"),
    ("active", "capabilities = NULL"),
)
MESSAGE_SHAPES = (
    ("WAITING", "status = 'LOST'"),
    ("WAITING", "lease_expires_at = created_at"),
    ("WAITING", "finished_at = created_at"),
    ("SENDING", "lease_expires_at = NULL"),
    ("SENDING", "finished_at = created_at"),
)


def broken_shapes(rows: Rows) -> Iterator[RawWrite]:
    """Rows that no state has."""
    for table, shapes in (
        ("tasks", TASK_SHAPES),
        ("jobs", JOB_SHAPES),
        ("workers", WORKER_SHAPES),
        ("outbox", MESSAGE_SHAPES),
    ):
        for state, change in shapes:
            sql = f"UPDATE {table} SET {change} WHERE id = {literal(rows[table][state])}"  # noqa: S608
            yield RawWrite("shape", f"{table} {state}: {change}", sql)
    yield from half_leases(rows)
    yield from half_moves(rows)


def half_leases(rows: Rows) -> Iterator[RawWrite]:
    """A lease column missing while RUNNING, or set while not."""
    for column, value in LEASE.items():
        for state, new in (("RUNNING", "NULL"), ("READY", value), ("NEW", value), ("ERROR", value)):
            sql = update("tasks", rows["tasks"][state], {column: new})
            yield RawWrite("shape", f"tasks {state}: {column} = {new}", sql)


def half_moves(rows: Rows) -> Iterator[RawWrite]:
    """Legal pairs of states, but without what the new state needs."""
    running, job, sending = rows["tasks"]["RUNNING"], rows["jobs"]["processing"], rows["outbox"]["SENDING"]
    for state in ("DONE", "FAILED", "CANCELLED"):
        bare = {key: value for key, value in shape("tasks", state).items() if key != "finished_at"}
        yield RawWrite("shape", f"task to {state} without finished_at", update("tasks", running, bare))
        held = {key: value for key, value in shape("tasks", state).items() if key not in LEASE}
        yield RawWrite("shape", f"task to {state} with its lease", update("tasks", running, held))
    empty = {**shape("tasks", "DONE"), "result": "NULL"}
    yield RawWrite("shape", "task to DONE without result", update("tasks", running, empty))
    for state in ("completed", "failed", "cancelled"):
        bare = {key: value for key, value in shape("jobs", state).items() if key != "finished_at"}
        yield RawWrite("shape", f"job to {state} without finished_at", update("jobs", job, bare))
        busy = {**shape("jobs", state), "live_subject": "'s'"}
        yield RawWrite("shape", f"job to {state} with a live subject", update("jobs", job, busy))
    for state in ("SENT", "PARKED"):
        bare = {key: value for key, value in shape("outbox", state).items() if key != "finished_at"}
        yield RawWrite("shape", f"message to {state} without finished_at", update("outbox", sending, bare))


def doubled_rows(rows: Rows, columns: dict[str, list[str]]) -> Iterator[RawWrite]:
    """What may be there once only: a task of a stage and segment, a slot; and a task needs its job."""
    names = columns["tasks"]
    for what, sets, state in (
        ("the same stage and segment again", {"id": "id + 1000000"}, "NEW"),
        ("a task of no job", {"id": "id + 1000000", "job_id": "'job_nobody'"}, "NEW"),
    ):
        values = ", ".join(sets.get(name, name) for name in names)
        source = literal(rows["tasks"][state])
        sql = f"INSERT INTO tasks ({', '.join(names)}) SELECT {values} FROM tasks WHERE id = {source}"  # noqa: S608
        yield RawWrite("index", what, sql)
    claim = shape("tasks", "RUNNING") | {"epoch": "epoch + 1"}
    holder = rows["tasks"]["RUNNING"]
    for column in ("lease_owner", "lease_slot"):
        claim[column] = f"(SELECT r.{column} FROM tasks r WHERE r.id = {holder})"  # noqa: S608
    yield RawWrite("index", "one slot twice", update("tasks", rows["tasks"]["READY"], claim))
