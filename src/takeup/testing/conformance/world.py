"""What a case works on: a store, a clock, and short words for jobs, workers and leases."""

import hashlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from takeup.core.errors import TakeupError
from takeup.core.model import (
    Answer,
    Artifact,
    Completion,
    Event,
    Failure,
    Held,
    Lease,
    Progress,
    Task,
    WorkerSpec,
)
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.plan import NewJob
from takeup.core.policy import RetryPolicy
from takeup.store.op import Op, Script
from takeup.store.ops.claim import ClaimRequest
from takeup.store.ops.read import PAGE_MAX
from takeup.store.store import Store
from takeup.testing.clocks import ManualClock
from takeup.testing.oracle import OracleStore, Tables

LEASE_S = 60.0
HOT_TABLES = (
    "jobs",
    "job_stages",
    "task_deps",
    "tasks",
    "lanes",
    "claims",
    "workers",
    "worker_lanes",
    "audit",
    "artifacts",
    "outbox",
    "schedules",
    "job_logs",
    "execution_steps",
)
ARCHIVE_TABLES = (
    "jobs_archive",
    "job_stages_archive",
    "task_deps_archive",
    "tasks_archive",
    "audit_archive",
    "artifacts_archive",
    "job_logs_archive",
    "execution_steps_archive",
)

E = TypeVar("E", bound=TakeupError)


class World:
    """One fresh store with everything a case needs around it."""

    def __init__(
        self, store: Store | OracleStore, clock: ManualClock | None = None, *, seed: int = 0
    ) -> None:
        """Work on this store; without a clock, time is the database's own."""
        self.clock = clock
        self.store = store if isinstance(store, OracleStore) else seeded(store, seed)
        self.owners: dict[Held, str] = {}
        self.keeps_time = True
        self._count = 0

    async def close(self) -> None:
        """Give the store back."""
        await self.store.close()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        assert self.clock is not None, "this case needs a clock that can be set"
        self.clock.advance(seconds)

    async def dump(self) -> Tables:
        """Every row of every table, in a fixed order."""
        if isinstance(self.store, OracleStore):
            return self.store.dump()
        return await self.store.driver.run(dump_tables)

    async def snapshot(self) -> Counter[str]:
        """Every row of every table but the archive as text, to see whether anything changed."""
        if isinstance(self.store, OracleStore):
            return Counter(f"{name} {row}" for name, rows in self.store.dump().items() for row in rows)
        return await self.store.driver.run(snapshot_tables, self.store.driver.dialect.name)

    @asynccontextmanager
    async def unchanged(self) -> AsyncIterator[None]:
        """Nothing in any table may change within."""
        before = await self.snapshot()
        yield
        after = await self.snapshot()
        assert before == after, f"gone: {before - after}, new: {after - before}"

    @asynccontextmanager
    async def refuses(self, error: type[E]) -> AsyncIterator[None]:
        """Exactly this error must be raised within, and nothing may change."""
        raised: TakeupError | None = None
        async with self.unchanged():
            try:
                yield
            except TakeupError as caught:
                raised = caught
        assert type(raised) is error, f"{error.__name__} was expected, not {raised!r}"
        assert str(raised), "the error says nothing"

    @asynccontextmanager
    async def logs(self, *expected: str) -> AsyncIterator[None]:
        """Exactly these audit rows must be written within, in any order: `noun event FROM>TO`."""
        last = max((event.seq for event in await self.events()), default=0)
        yield
        new = sorted(line_of(event) for event in await self.events() if event.seq > last)
        assert new == sorted(expected), new

    async def events(self, job_id: str | None = None) -> list[Event]:
        """The whole audit log, page by page."""
        found: list[Event] = []
        while True:
            after = found[-1].seq if found else 0
            page = await self.store.read.events(after=after, limit=PAGE_MAX, job_id=job_id)
            found += page
            if len(page) < PAGE_MAX:
                return found

    def stage(self, name: str, **options: Any) -> Stage:
        """A stage with three attempts, a lease of a minute and a back-off of ten seconds."""
        attempts = options.pop("attempts", 3)
        options.setdefault("retry", RetryPolicy(max_attempts=attempts, initial_s=10.0, cap_s=300.0))
        options["requires"] = frozenset(options.get("requires", ()))
        return Stage(name=name, **{"lease_s": LEASE_S, **options})

    def pipeline(self, *stages: Stage | str, name: str | None = None, **options: Any) -> Pipeline:
        """A pipeline of these stages; a bare name is a stage without needs."""
        self._count += 1
        made = [self.stage(stage) if isinstance(stage, str) else stage for stage in stages]
        return Pipeline.of(name or f"pipe{self._count}", made or [self.stage("work")], **options)

    def chain(self, *names: str) -> Pipeline:
        """A pipeline in which each stage needs the one before."""
        pairs = zip(names, [(), *((name,) for name in names)], strict=False)
        return self.pipeline(*(self.stage(name, needs=needs) for name, needs in pairs))

    def fan(self) -> Pipeline:
        """A splitter, two segment stages in a chain, and a join."""
        return self.pipeline(
            self.stage("split", phase="planning"),
            self.stage("encode", needs=("split",), each="segment"),
            self.stage("check", needs=("encode",), each="segment"),
            self.stage("join", needs=("check",), phase="uploading_outputs"),
        )

    async def submit(self, pipeline: Pipeline | None = None, **options: Any) -> str:
        """One job; answers with its id."""
        (job_id,) = await self.store.operator.submit([NewJob(pipeline or self.pipeline(), **options)])
        return job_id

    async def add_worker(self, worker_id: str = "w", slots: int = 10, **options: Any) -> str:
        """One registered worker."""
        options["capabilities"] = frozenset(options.get("capabilities", ()))
        await self.store.worker.register(WorkerSpec(worker_id, slots=slots, **options))
        return worker_id

    def request(self, worker_id: str = "w", limit: int = 1, **options: Any) -> ClaimRequest:
        """A new claim request, its secret derived from its number."""
        self._count += 1
        secret = hashlib.sha256(f"secret {self._count}".encode()).hexdigest()
        return ClaimRequest(worker_id, f"request-{self._count}", secret, limit, **options)

    async def claim(self, worker_id: str = "w", limit: int = 1, **options: Any) -> list[Lease]:
        """Claim with a new request."""
        leases = await self.store.worker.claim(self.request(worker_id, limit, **options))
        self.owners.update((lease.held, worker_id) for lease in leases)
        return leases

    async def lease(self, worker_id: str = "w") -> Lease:
        """Claim exactly one task."""
        leases = await self.claim(worker_id)
        assert len(leases) == 1, f"{worker_id} got {len(leases)} leases"
        return leases[0]

    async def renew(self, lease: Lease, percent: float | None = None, note: str | None = None) -> Answer:
        """Renew one lease by its owner."""
        (answer,) = await self.store.worker.renew(
            self.owners[lease.held], [Progress(lease.held, percent, note)]
        )
        return answer

    async def complete(
        self, lease: Lease, result: Mapping[str, Any] | None = None, artifacts: tuple[Artifact, ...] = ()
    ) -> Answer:
        """Complete one lease by its owner."""
        report = Completion(lease.held, result or {}, artifacts)
        (answer,) = await self.store.worker.complete(self.owners[lease.held], [report])
        return answer

    async def fail(self, lease: Lease, error: str = "boom", **options: Any) -> Answer:
        """Fail one lease by its owner."""
        report = Failure(lease.held, error, **options)
        (answer,) = await self.store.worker.fail(self.owners[lease.held], [report])
        return answer

    async def release(self, lease: Lease) -> Answer:
        """Release one lease by its owner."""
        (answer,) = await self.store.worker.release(self.owners[lease.held], [lease.held])
        return answer

    async def finish(self, lease: Lease, result: Mapping[str, Any] | None = None) -> None:
        """Complete one lease, which must be accepted."""
        answer = await self.complete(lease, result)
        assert (answer.accepted, answer.status) == (True, "DONE"), answer

    async def task(self, job_id: str, stage: str = "work", segment: int | None = None) -> Task:
        """The task of this stage and segment."""
        tasks = [t for t in await self.store.read.tasks(job_id) if (t.stage, t.segment) == (stage, segment)]
        assert len(tasks) == 1, f"{stage}/{segment}: {len(tasks)} tasks"
        return tasks[0]

    async def status(self, job_id: str, stage: str = "work", segment: int | None = None) -> str:
        """The state of this task."""
        return (await self.task(job_id, stage, segment)).status

    async def job_status(self, job_id: str) -> str:
        """The state of this job."""
        return (await self.store.read.job(job_id)).status

    async def advance_jobs(self, *job_ids: str) -> None:
        """One pass of the orchestrator."""
        await self.store.orchestrator.advance(job_ids)


def dump_tables() -> Op[Tables]:
    """Every row of every table of a database, in a fixed order."""
    tables: Tables = {}
    for table in (*HOT_TABLES, *ARCHIVE_TABLES):
        rows = yield Script(f"SELECT * FROM {table}")  # noqa: S608 - a constant of this module
        tables[table] = sorted((dict(row) for row in rows), key=repr)
    return tables


def snapshot_tables(dialect: str) -> Op[Counter[str]]:
    """Every row as text, in one statement where the database can make a text of a row."""
    if dialect == "sqlite":
        tables = yield from dump_tables()
        return Counter(f"{name} {row}" for name, rows in tables.items() for row in rows)
    parts = [
        f"SELECT '{table} ' || CAST(r AS TEXT) AS line FROM {table} r"  # noqa: S608 - constants
        for table in HOT_TABLES
    ]
    rows = yield Script(" UNION ALL ".join(parts))
    return Counter(row["line"] for row in rows)


def seeded(store: Store, seed: int) -> Store:
    """The same store with job ids from a seed and without chance in its delays."""
    return Store(store.driver, random=random.Random(seed).randbytes, luck=lambda: 0.5)


def line_of(event: Event) -> str:
    """An audit row as cases write it."""
    return f"{event.noun} {event.event} {event.from_status or ''}>{event.to_status or ''}"
