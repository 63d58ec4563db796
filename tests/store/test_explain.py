"""The hot statements find their rows by index, however long the table has become."""

import os
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest

from takeup.core.budget import ErrorBudget
from takeup.core.control import Adoption
from takeup.core.live import Watch
from takeup.core.model import Completion, Failure, Held, Lease, Progress
from takeup.core.plan import NewJob, plan_job
from takeup.store.dialect import PARAMETER, Dialect
from takeup.store.drivers.postgres import SETTINGS
from takeup.store.op import Op
from takeup.store.ops import (
    archive,
    claim,
    claim_task,
    control,
    feed,
    operate,
    orchestrate,
    quarantine,
    recover,
    report,
    submit,
)
from takeup.store.sqlfile import catalog
from takeup.store.store import Store
from tests.store.bulk import load
from tests.store.explain import Plan, buffers_of, indexes_of, plans_of, scans_of
from tests.store.scenes import FAN, ONE, add_worker, claim_request, path_in

ROWS = int(os.environ.get("TAKEUP_EXPLAIN_ROWS", "1000000"))
POOLED = {"jit": SETTINGS["jit"]}
"""What an operation behind PgBouncer sets for its own transaction, as far as it changes a plan."""
HELD = 200
BATCH = 20
SEGMENTS = 100
PAIR = Adoption(NewJob(FAN, subject="pairs:[1]", idempotency_key="pair"), done=("cut", "encode"))
LARGE = {"tasks", "tasks_pkey", "tasks_once", "tasks_live"}
"""What has a million rows or more; the other indexes hold only what is due, running or broken."""


@dataclass
class Scene:
    """A long table in which a few tasks run, a few wait for a retry and one job is to be split."""

    url: str
    leases: list[Lease]
    fan_id: str

    @property
    def held(self) -> list[Held]:
        return [lease.held for lease in self.leases[:BATCH]]


async def prepare(url: str, status: str) -> Scene:
    store = await Store.open(url)
    await add_worker(store, slots=1000)
    (fan_id,) = await store.operator.submit([NewJob(FAN)])
    (cut,) = await store.worker.claim(claim_request("w1"))
    await store.worker.complete("w1", [Completion(cut.held, {"segments": SEGMENTS})])
    await load(url, status, ROWS)
    await store.operator.submit([NewJob(ONE, priority=10) for _ in range(2 * HELD)])
    leases = await store.worker.claim(claim_request("w1", HELD))
    assert {lease.stage for lease in leases} == {"work"}
    await store.worker.fail("w1", [Failure(lease.held, "boom", after_s=0) for lease in leases[HELD // 2 :]])
    await store.close()
    connection = await asyncpg.connect(url)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()
    return Scene(url, leases, fan_id)


async def end_leases(connection: asyncpg.Connection) -> None:
    """Let every lease be over."""
    await connection.execute(
        "UPDATE tasks SET lease_expires_at = now() - interval '1 s' WHERE status = 'RUNNING'"
    )


Make = Callable[[Scene], Op[Any]]
OPERATIONS: dict[str, Make] = {
    "claim one": lambda _: claim.claim(claim_request("w1")),
    "claim a batch": lambda _: claim.claim(claim_request("w1", BATCH)),
    "renew": lambda s: report.renew("w1", [Progress(held, 50.0) for held in s.held]),
    "complete": lambda s: report.complete("w1", [Completion(held) for held in s.held]),
    "fail": lambda s: report.fail("w1", [Failure(held, "boom") for held in s.held], luck=lambda: 0.0),
    "give up": lambda s: report.fail("w1", [Failure(s.held[0], "boom", retryable=False)], luck=lambda: 0.0),
    "release": lambda s: report.release("w1", s.held),
    "renew one": lambda s: report.renew("w1", [Progress(s.held[0], 50.0)]),
    "complete one": lambda s: report.complete("w1", [Completion(s.held[0])]),
    "fail one": lambda s: report.fail("w1", [Failure(s.held[0], "boom")], luck=lambda: 0.0),
    "release one": lambda s: report.release("w1", s.held[:1]),
    "quarantine": lambda _: quarantine.quarantine(ErrorBudget(1, 3600.0)),
    "wake": lambda _: recover.wake(1000),
    "live jobs": lambda _: orchestrate.live_jobs("", 500),
    "split": lambda s: orchestrate.advance([s.fan_id], 1000),
    "advance": lambda s: orchestrate.advance([lease.job_id for lease in s.leases[:BATCH]], 1000),
    "cancel": lambda s: operate.cancel([s.leases[0].job_id]),
    "pause": lambda s: operate.set_control([s.leases[0].job_id], "PAUSED"),
    "submit": lambda _: submit.submit([("job_new", plan_job(NewJob(FAN, subject="s", idempotency_key="k")))]),
    "claim by name": lambda s: claim_task.claim_task(claim_request("w1"), s.leases[-1].task_id + 1),
    "adopt": lambda _: control.adopt([("job_own", plan_job(PAIR.job), PAIR)], reason="done before"),
    "row": lambda _: control.row_of("pairs:[1]"),
    "follow": lambda s: feed.look(Watch([one.job_id for one in s.leases[:BATCH]], ["s"], workers=True), 0),
    "see jobs": lambda s: feed.jobs([lease.job_id for lease in s.leases[:BATCH]]),
    "see workers": lambda _: feed.workers(),
    "archive": lambda _: archive.archive(0.0, BATCH),
    "forget messages": lambda _: archive.forget_messages(0.0, 0.0, BATCH),
    "forget workers": lambda _: archive.forget_workers(0.0, BATCH),
    "expire": lambda _: recover.expire(1000),
}

USES = {
    "claim_tasks": {"tasks_ready"},
    "overdue_tasks": {"tasks_running"},
    "due_retries": {"tasks_retrying"},
    "ready_candidates": {"tasks_new", "tasks_live"},
    "closable_jobs": {"tasks_live"},
    "live_jobs": {"jobs_live"},
}

PAGES_A_TASK = 80
TOUCHED = {
    "claim one": 1,
    "renew one": 1,
    "complete one": 1,
    "fail one": 1,
    "release one": 1,
    "quarantine": HELD // 2,
    "wake": HELD // 2,
    "expire": HELD // 2,
    "split": SEGMENTS,
    "live jobs": 500,
}
"""How many tasks or jobs an operation has to do with, if not a batch."""


def faults_of(operation: str, plans: dict[str, Plan]) -> list[str]:
    faults = []
    for name, plan in plans.items():
        scanned = scans_of(plan) & LARGE
        if scanned:
            faults.append(f"{operation}: {name} reads all of {', '.join(sorted(scanned))}")
        if name in USES and not USES[name] & indexes_of(plan):
            faults.append(f"{operation}: {name} uses {sorted(indexes_of(plan))}, not {sorted(USES[name])}")
        if "JIT" in plan:
            faults.append(f"{operation}: {name} is compiled, which takes longer than to run it")
        most = 500 + PAGES_A_TASK * TOUCHED.get(operation, BATCH)
        if buffers_of(plan) > most:
            faults.append(f"{operation}: {name} reads {buffers_of(plan)} pages, over {most}")
    return faults


async def check(scene: Scene, settings: dict[str, str]) -> list[str]:
    connection = await asyncpg.connect(scene.url, server_settings={**settings, "statement_timeout": "60s"})
    faults = []
    try:
        for operation, make in OPERATIONS.items():
            if operation == "expire":
                await end_leases(connection)
            plans = await plans_of(connection, lambda make=make: make(scene))
            assert plans
            faults += faults_of(operation, plans)
    finally:
        await connection.close()
    return faults


@pytest.mark.parametrize("status", ["READY", "DONE"])
async def test_no_hot_statement_reads_the_whole_table(postgres_url, status):
    scene = await prepare(postgres_url, status)
    faults = [f"direct: {fault}" for fault in await check(scene, SETTINGS)]
    faults += [f"behind PgBouncer: {fault}" for fault in await check(scene, POOLED)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("options", ["", "&pgbouncer=1"])
async def test_a_large_fan_out_in_a_long_table(postgres_url, options):
    """The statistics know nothing of tasks that were just created, so no plan may rest on them."""
    store = await Store.open(postgres_url + options)
    await add_worker(store)
    await store.operator.cancel(await store.operator.submit([NewJob(FAN)]))
    await load(postgres_url, "DONE", ROWS // 5)
    (job_id,) = await store.operator.submit([NewJob(FAN)])
    (cut,) = await store.worker.claim(claim_request("w1"))
    await store.worker.complete("w1", [Completion(cut.held, {"segments": 10_000})])
    done = await store.orchestrator.advance([job_id])
    assert (done.expanded, done.ready, done.has_more) == (10_000, 10_000, False)
    await store.close()


HOT = (
    "claim_lanes", "claim_slots", "claim_candidates", "claim_tasks", "claimed_before", "renew_tasks",
    "complete_tasks", "failure_context", "fail_tasks", "release_tasks", "explain_refusals",
    "overdue_tasks", "expire_tasks", "due_retries", "move_tasks", "live_tasks", "tasks_by_id",
    "ready_candidates", "doomed_tasks", "closable_jobs", "close_jobs", "live_jobs", "splittable_stages",
    "log_tasks", "set_tasks_job_control", "set_tasks_priority", "add_tasks", "task_by_id", "tasks_page",
    "watched_stages", "watched_workers", "blamed_lanes", "finished_since", "lanes_at_stake",
)  # fmt: skip
SMALL_INDEXES = ("tasks_running", "tasks_retrying", "tasks_broken", "tasks_new")


@pytest.mark.parametrize("rows", [0, 300])
async def test_no_hot_statement_of_sqlite_scans_the_tasks(sqlite_url, rows):
    store = await Store.open(sqlite_url)
    await add_worker(store)
    await store.operator.submit([NewJob(ONE) for _ in range(rows)])
    await store.worker.claim(claim_request("w1", 10))
    await store.close()
    connection = sqlite3.connect(path_in(sqlite_url))
    connection.execute("ANALYZE")
    statements = catalog(Dialect("sqlite"))
    faults = []
    for name in HOT:
        sql = statements[name].sql
        aliases = {"tasks", *re.findall(r"\btasks (?:AS )?([a-z]{1,2})\b", sql)}
        values = dict.fromkeys(PARAMETER.findall(sql))
        for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values):
            scanned = re.match(r"SCAN (\w+)", step)
            if scanned and scanned[1] in aliases and not step.endswith(SMALL_INDEXES):
                faults.append(f"{name}: {step}")
    connection.close()
    assert faults == []
