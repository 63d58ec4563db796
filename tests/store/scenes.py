"""What the store tests share: pipelines, an injected clock, raw dumps, and the fold of the audit log."""

import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg

from takeup.core.budget import ErrorBudget
from takeup.core.model import Completion, Failure, Lease, WorkerSpec
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.plan import NewJob
from takeup.store.ops.claim import ClaimRequest
from takeup.store.store import Store

Row = Mapping[str, Any]
Dump = dict[str, list[Row]]

ONE = Pipeline.of("one", [Stage("work", lease_s=60.0)])
"""A job of one task, ready at once."""

FAN = Pipeline.of(
    "fan",
    [
        Stage("cut", phase="planning", lease_s=60.0),
        Stage("encode", needs=("cut",), each="segment", lease_s=60.0),
        Stage("join", needs=("encode",), phase="uploading_outputs", lease_s=60.0),
    ],
)
"""A fan-out by the segments that `cut` lists, and the join behind it."""

TABLES = (
    "jobs",
    "job_stages",
    "task_deps",
    "tasks",
    "lanes",
    "workers",
    "worker_lanes",
    "claims",
    "audit",
    "artifacts",
    "outbox",
    "jobs_archive",
    "tasks_archive",
    "audit_archive",
    "schema_versions",
    "schema_guards",
)


class Clock:
    """Time that only the test moves."""

    def __init__(self) -> None:
        self.moment = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def pass_s(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def claim_request(worker_id: str, limit: int = 1, request_id: str | None = None) -> ClaimRequest:
    return ClaimRequest(worker_id, request_id or secrets.token_hex(8), secrets.token_hex(16), limit)


async def upgrade_schema(url: str) -> None:
    await (await Store.open(url, upgrade=True)).close()


async def add_worker(store: Store, worker_id: str = "w1", slots: int = 100) -> None:
    await store.worker.register(WorkerSpec(worker_id, slots=slots))


async def quarantine(store: Store, bad: str = "broken", good: str = "well") -> None:
    """Two workers: one failed a task that the other one finished, and gets nothing new any more."""
    for name in (bad, good):
        await store.worker.register(WorkerSpec(name))
    await fail_then_finish(store, bad, good)
    assert (await store.recovery.quarantine(ErrorBudget(1, 60))).quarantined == (bad,)


async def fail_then_finish(store: Store, bad: str, good: str) -> None:
    """A task that one worker fails and another one finishes."""
    _, lease = await run_one(store, bad)
    await store.worker.fail(bad, [Failure(lease.held, "boom", after_s=0.0)])
    await store.recovery.wake()
    (lease,) = await store.worker.claim(claim_request(good))
    await store.worker.complete(good, [Completion(lease.held)])


async def run_one(store: Store, worker_id: str = "w1", **options: Any) -> tuple[str, Lease]:
    """A submitted job of one task, claimed."""
    (job_id,) = await store.operator.submit([NewJob(ONE, **options)])
    (lease,) = await store.worker.claim(claim_request(worker_id))
    assert lease.job_id == job_id
    return job_id, lease


async def dump(url: str, tables: Sequence[str] = TABLES) -> Dump:
    """Every row of the tables that decide, read past the code under test."""
    if url.startswith("sqlite"):
        return dump_sqlite(path_in(url), tables)
    connection = await asyncpg.connect(url)
    try:
        return {
            table: sorted((dict(row) for row in await connection.fetch(f"SELECT * FROM {table}")), key=repr)
            for table in tables
        }
    finally:
        await connection.close()


async def tables_of(url: str) -> list[str]:
    """The name of every table there is."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(path_in(url))) as database:
            rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return sorted(name for (name,) in rows)
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    finally:
        await connection.close()
    return sorted(row["tablename"] for row in found)


def dump_sqlite(path: Path, tables: Sequence[str] = TABLES) -> Dump:
    connection = sqlite3.connect(path)
    connection.text_factory = lambda stored: stored.decode("utf-8", "replace")
    try:
        found: Dump = {}
        for table in tables:
            cursor = connection.execute(f"SELECT * FROM {table}")
            names = [column[0] for column in cursor.description]
            found[table] = sorted((dict(zip(names, row, strict=True)) for row in cursor), key=repr)
        return found
    finally:
        connection.close()


def path_in(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def faults_of(rows: Dump) -> list[str]:
    """Where the audit log does not fold to the rows, or breaks a rule that every schedule must keep."""
    faults = []
    log = sorted(rows["audit"], key=lambda row: row["seq"])
    for noun, table, key in (("task", "tasks", "task_id"), ("job", "jobs", "job_id")):
        state: dict[Any, str] = {}
        for entry in (entry for entry in log if entry["noun"] == noun):
            name, before = entry[key], entry["from_status"]
            if state.get(name) != before:
                faults.append(f"{noun} {name}: {entry['event']} from {before}, was {state.get(name)}")
            state[name] = entry["to_status"]
        wrong = {row["id"]: row["status"] for row in rows[table] if state.get(row["id"]) != row["status"]}
        faults += [f"{noun} {name} is {now}, its log says {state.get(name)}" for name, now in wrong.items()]
    return faults + _token_faults(log, rows["tasks"]) + _closing_faults(rows)


def _token_faults(log: list[Row], tasks: list[Row]) -> list[str]:
    claims = [entry for entry in log if entry["event"] == "claim"]
    hashes = [entry["nonce_hash"] for entry in claims]
    faults = [] if len(set(hashes)) == len(hashes) else ["a nonce was given out twice"]
    for task in tasks:
        epochs = [entry["epoch"] for entry in claims if entry["task_id"] == task["id"]]
        if epochs != list(range(1, task["epoch"] + 1)):
            faults.append(f"task {task['id']} has epoch {task['epoch']}, its claims {epochs}")
    return faults


def _closing_faults(rows: Dump) -> list[str]:
    closed = {row["id"]: row["status"] for row in rows["jobs"] if row["finished_at"] is not None}
    faults = [
        f"job {row['job_id']} is {closed[row['job_id']]}, its task {row['stage']} is {row['status']}"
        for row in rows["tasks"]
        if row["job_id"] in closed and row["finished_at"] is None
    ]
    announced = sorted(row["subject"] for row in rows["outbox"] if row["topic"].startswith("job."))
    if announced != sorted(closed):
        faults.append(f"jobs {sorted(closed)} are closed, announced are {announced}")
    return faults
