"""Everything works through PgBouncer in transaction mode, and nothing is left on its server connections."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import asyncpg
import pytest

from takeup.core.model import Artifact, Completion, Failure, Progress
from takeup.core.plan import NewJob
from takeup.store import migrate
from takeup.store.drivers import connect
from takeup.store.store import Store
from tests.services import PgBouncerServer, PostgresServer
from tests.store import crowd as members
from tests.store.crowd import Crowd
from tests.store.scenes import FAN, ONE, add_worker, claim_request, dump, faults_of

TASKS = 100


@pytest.fixture
async def pooled(server: PostgresServer, pgbouncer: PgBouncerServer, tmp_path) -> AsyncIterator[str]:
    """An empty database, reached through the pooler."""
    name = f"pooled_{abs(hash(tmp_path))}"
    await server.create_database(name)
    yield f"{pgbouncer.dsn(name)}&pgbouncer=1"
    await server.drop_database(name)


def direct(server: PostgresServer, pooled: str) -> str:
    return server.dsn(pooled.partition("@/")[2].partition("?")[0])


async def test_the_whole_life_of_jobs(server, pooled):
    store = await Store.open(pooled, upgrade=True)
    await add_worker(store)
    (job_id,) = await store.operator.submit([NewJob(FAN, {"a": 1}, subject="video", idempotency_key="k")])
    assert [job_id] == await store.operator.submit(
        [NewJob(FAN, {"a": 1}, subject="video", idempotency_key="k")]
    )
    request = claim_request("w1")
    (cut,) = await store.worker.claim(request)
    assert await store.worker.claim(request) == [cut]
    (answer,) = await store.worker.renew("w1", [Progress(cut.held, 50.0, "half")])
    assert answer.accepted
    await store.worker.fail("w1", [Failure(cut.held, "boom", after_s=0)])
    assert await store.recovery.wake() == [cut.task_id]
    (cut,) = await store.worker.claim(claim_request("w1"))
    file = Artifact("plan.json", "objects/1", "0" * 64, 5)
    (answer,) = await store.worker.complete("w1", [Completion(cut.held, {"segments": 3}, (file,))])
    assert answer.accepted
    assert (await store.orchestrator.advance([job_id])).ready == 3
    first, *others = await store.worker.claim(claim_request("w1", 10))
    await store.worker.release("w1", [first.held])
    await store.worker.complete("w1", [Completion(lease.held) for lease in others])
    (again,) = await store.worker.claim(claim_request("w1", 10))
    await store.worker.complete("w1", [Completion(again.held)])
    assert (await store.orchestrator.advance([job_id])).ready == 1
    (join,) = await store.worker.claim(claim_request("w1"))
    await store.worker.complete("w1", [Completion(join.held)])
    assert (await store.read.job(job_id)).status == "completed"
    assert await store.read.artifacts(job_id) == [file]
    (other,) = await store.operator.submit([NewJob(ONE, subject="video")])
    await store.operator.set_control([other], "PAUSED")
    assert await store.worker.claim(claim_request("w1")) == []
    await store.operator.set_control([other], "READY")
    await store.worker.claim(claim_request("w1"))
    assert await store.operator.cancel([other]) == [other]
    assert faults_of(await dump(direct(server, pooled))) == []
    assert sorted(await store.recovery.archive(-1)) == sorted([job_id, other])
    assert await store.read.jobs() == []
    await store.close()


async def test_migrations_run_once(pooled):
    drivers = [await connect(pooled) for _ in range(5)]
    applied = await asyncio.gather(*(driver.run(migrate.upgrade, driver.dialect) for driver in drivers))
    assert sorted(map(len, applied)) == [0, 0, 0, 0, migrate.newest()]
    for driver in drivers:
        await driver.close()


def test_ten_claimers_take_every_task_once(server, pooled, crowd: Crowd):
    async def prepare() -> None:
        store = await Store.open(pooled, upgrade=True)
        await store.operator.submit([NewJob(ONE) for _ in range(TASKS)])
        await store.close()

    asyncio.run(prepare())
    done = crowd.run(members.claim_and_complete, pooled, 3)
    assert sorted(task for each in done for task in each) == list(range(1, TASKS + 1))
    rows = asyncio.run(dump(direct(server, pooled)))
    assert Counter(row["status"] for row in rows["jobs"]) == {"completed": TASKS}
    assert faults_of(rows) == []


async def test_nothing_is_left_on_the_server_connections(pooled):
    store = await Store.open(pooled, upgrade=True)
    await add_worker(store)
    for _ in range(20):
        await store.operator.submit([NewJob(ONE)])
        (lease,) = await store.worker.claim(claim_request("w1"))
        await store.worker.complete("w1", [Completion(lease.held)])
    probe = await asyncpg.connect(pooled.removesuffix("&pgbouncer=1"), statement_cache_size=0)
    async with probe.transaction():
        assert await probe.fetchval("SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql") <= 1
        assert await probe.fetchval("SELECT count(*) FROM pg_listening_channels()") == 0
        assert await probe.fetchval("SELECT count(*) FROM pg_cursors") <= 1
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        assert await probe.fetchval(held) == 0
        changed = await probe.fetch(
            "SELECT name, setting FROM pg_settings WHERE source = 'session' AND setting <> reset_val"
        )
        ours = {row["name"].lower(): row["setting"] for row in changed}
        assert ours.keys() <= {"application_name", "timezone", "client_encoding"}, "PgBouncer sets these"
    idle = await probe.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
    )
    assert idle == 0
    await probe.close()
    await store.close()


async def test_the_limits_hold_within_every_transaction(pooled):
    def show():
        rows = yield migrate.Script(
            "SELECT current_setting('statement_timeout') AS statement,"
            " current_setting('lock_timeout') AS lock,"
            " current_setting('idle_in_transaction_session_timeout') AS idle"
        )
        return dict(rows[0])

    driver = await connect(pooled)
    assert await driver.run(show) == {"statement": "5s", "lock": "1s", "idle": "5s"}
    await driver.close()
