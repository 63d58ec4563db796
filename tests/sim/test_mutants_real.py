"""The three defects that only a real database shows: what goes wrong, and that ours does not."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import duckdb
import pytest

from takeup.core.errors import StoreInUse, StoreUnavailable
from takeup.core.model import WorkerSpec
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.plan import NewJob
from takeup.store.drivers import postgres
from takeup.store.drivers.postgres import PostgresDriver
from takeup.store.ops import claim
from takeup.store.store import Store
from tests.conftest import GetPostgres
from tests.services import FLAVOURS, PgBouncerServer, database_from_template

WORKERS = 8
PIPELINE = Pipeline.of("p", [Stage("s")])


async def prepare(dsn: str) -> None:
    store = await Store.open(dsn, upgrade=True)
    await store.close()


@pytest.fixture
async def dsn(get_postgres: GetPostgres) -> AsyncIterator[str]:
    async with database_from_template(get_postgres(FLAVOURS[0]), prepare) as dsn:
        yield dsn


def through(pgbouncer: PgBouncerServer, dsn: str) -> str:
    return pgbouncer.dsn(dsn.partition("?")[0].rpartition("/")[2])


async def held_locks(dsn: str) -> int:
    watcher = await asyncpg.connect(dsn)
    try:
        return await watcher.fetchval("SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory'")
    finally:
        await watcher.close()


async def test_d14_session_lock_through_a_pooler_is_never_freed(dsn: str, pgbouncer: PgBouncerServer):
    pooled = through(pgbouncer, dsn)
    first = await asyncpg.connect(pooled, statement_cache_size=0)
    second = await asyncpg.connect(pooled, statement_cache_size=0)
    await first.execute("SELECT pg_advisory_lock(14)")
    await second.execute("BEGIN")
    await second.execute("SELECT 1")
    assert await first.fetchval("SELECT pg_advisory_unlock(14)") is False
    await second.execute("ROLLBACK")
    await first.close()
    await second.close()
    assert await held_locks(dsn) == 1, "the lock outlived its client: whoever asks next waits for ever"


async def test_d14_ours_creates_one_job_a_key_and_leaves_no_lock(dsn: str, pgbouncer: PgBouncerServer):
    stores = [await Store.open(f"{through(pgbouncer, dsn)}&pgbouncer=1", upgrade=True) for _ in range(4)]
    new = NewJob(PIPELINE, idempotency_key="k")
    answers = await asyncio.gather(*(store.operator.submit([new]) for store in stores * 3))
    assert len({job for (job,) in answers}) == 1
    assert len(await stores[0].read.jobs()) == 1
    for store in stores:
        await store.close()
    assert await held_locks(dsn) == 0


async def claim_all(dsn: str, *, is_mutant: bool) -> tuple[int, int]:
    """How many claims and how many errors eight workers get that claim at once, again and again."""
    store = await Store.open(f"{dsn}&pgbouncer=1" if is_mutant else dsn)
    if is_mutant:
        assert isinstance(store.driver, PostgresDriver)
        store.driver._begin = "BEGIN ISOLATION LEVEL SERIALIZABLE"
    await store.operator.submit([NewJob(PIPELINE) for _ in range(WORKERS * 5)])
    for number in range(WORKERS):
        await store.worker.register(WorkerSpec(f"w{number}", slots=10))

    async def once(number: int, turn: int) -> int:
        request = claim.ClaimRequest(f"w{number}", f"r{number}-{turn}", f"{number:032}{turn}")
        return len(await store.worker.claim(request))

    claims = errors = 0
    for turn in range(5):
        answers = await asyncio.gather(*(once(n, turn) for n in range(WORKERS)), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, StoreUnavailable):
                errors += 1
            elif isinstance(answer, BaseException):
                raise answer
            else:
                claims += answer
    await store.close()
    return claims, errors


async def test_d18_serializable_without_retry_hands_errors_to_the_caller(
    dsn: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgres, "RACES_MAX", 1)  # the other half: a lost race is not run again
    claims, errors = await claim_all(dsn, is_mutant=True)
    assert errors > 0
    assert claims < WORKERS * 5


async def test_d18_ours_claims_everything_without_an_error(dsn: str):
    assert await claim_all(dsn, is_mutant=False) == (WORKERS * 5, 0)


HOLDER = """
import asyncio, sys
from takeup.store.store import Store
async def main():
    store = await Store.open(sys.argv[1], upgrade=True)
    print("held", flush=True)
    sys.stdin.readline()
    await store.close()
asyncio.run(main())
"""


async def test_d20_second_process_on_one_duckdb_file_is_told_what_to_do(tmp_path: Path):
    file = tmp_path / "control.duckdb"
    url = f"duckdb:///{file}"
    with subprocess.Popen(  # noqa: ASYNC220 - the test's loop has nothing else to do
        [sys.executable, "-c", HOLDER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(duckdb.IOException):
            duckdb.connect(str(file))
        with pytest.raises(StoreInUse, match="held by another process") as error:
            await Store.open(url)
        assert "one process" in error.value.help
        holder.communicate("\n")
    store = await Store.open(url)
    await store.close()
