"""PostgreSQL crashes, hangs up, is slow or contended: nothing acknowledged is lost, nothing is half done."""

import asyncio
import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import pytest

from takeup.core.errors import OutcomeUnknown, StoreUnavailable
from takeup.core.ids import new_id
from takeup.core.plan import NewJob, plan_job
from takeup.store.drivers import postgres
from takeup.store.op import Script
from takeup.store.ops import submit
from takeup.store.store import Store
from tests.services import PostgresServer, ServiceError
from tests.store.scenes import ONE, add_worker, claim_request, dump, faults_of, run_one, upgrade_schema

CRASHES = 2
STREAMS = 4


@pytest.fixture(scope="module")
def fragile() -> Iterator[PostgresServer]:
    """A server of our own to crash, as durable as a real one."""
    with contextlib.closing(PostgresServer("postgres15", fsync=True)) as server:
        yield server


def stop(server: PostgresServer, mode: str) -> None:
    if mode == "kill":
        os.kill(server.pid, signal.SIGKILL)
    server.stop("immediate")


def start_again(server: PostgresServer) -> None:
    """In the main thread, since a server ends with the thread that started it."""
    deadline = time.monotonic() + 30
    while True:  # the children of a killed server need a moment to see that it is gone
        try:
            server.start()
        except ServiceError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


async def stream(store: Store, prefix: str, is_over: asyncio.Event) -> tuple[dict[str, str], list[str]]:
    """Submit one job after the other; answers with the acknowledged ones and with those in doubt."""
    known: dict[str, str] = {}
    doubtful = []
    number = 0
    while not is_over.is_set():
        key = f"{prefix}-{number}"
        number += 1
        try:
            (known[key],) = await store.operator.submit([NewJob(ONE, {"key": key}, idempotency_key=key)])
        except StoreUnavailable:  # OutcomeUnknown is one of these
            doubtful.append(key)
            await asyncio.sleep(0.02)
    return known, doubtful


@pytest.mark.parametrize("mode", ["immediate", "kill"])
async def test_a_crash_loses_nothing_acknowledged(fragile: PostgresServer, mode):
    await fragile.create_database(f"crash_{mode}")
    url = fragile.dsn(f"crash_{mode}")
    store = await Store.open(url, upgrade=True)
    known: dict[str, str] = {}
    doubtful: list[str] = []
    for round_ in range(CRASHES):
        is_over = asyncio.Event()
        streams = [asyncio.create_task(stream(store, f"{round_}-{n}", is_over)) for n in range(STREAMS)]
        await asyncio.sleep(0.2 + random.random() / 5)
        await asyncio.to_thread(stop, fragile, mode)
        await asyncio.sleep(0.1)
        start_again(fragile)
        is_over.set()
        for acknowledged, unsure in await asyncio.gather(*streams):
            known |= acknowledged
            doubtful += unsure
    assert known
    assert doubtful
    for key in doubtful:
        (known[key],) = await store.operator.submit([NewJob(ONE, {"key": key}, idempotency_key=key)])
    rows = await dump(url)
    assert {row["idempotency_key"]: row["id"] for row in rows["jobs"]} == known
    assert len(rows["jobs"]) == len(rows["tasks"]) == len(known)
    assert faults_of(rows) == []
    await store.close()


def hang_up(url: str) -> None:
    """End every session of the driver on this database, from another thread."""

    async def end() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        await connection.close()

    thread = threading.Thread(target=lambda: asyncio.run(end()))
    thread.start()
    thread.join()


def interrupted(operation, position: int, interrupt: Callable[[], None]):
    """The operation, with something happening once, before its n-th step."""
    happened = []

    def run(*args: Any):
        op = operation(*args)
        step = next(op)
        for count in range(1000):
            if count == position and not happened:
                happened.append(count)
                interrupt()
            try:
                step = op.send((yield step))
            except StopIteration as stop:
                return stop.value
        raise AssertionError("it never ends")

    return run


@pytest.mark.parametrize("position", [1, 2, 4, 7])
async def test_a_connection_cut_between_statements(postgres_url, position):
    store = await Store.open(postgres_url)
    await store.operator.submit([NewJob(ONE)])
    before = await dump(postgres_url)
    cut = interrupted(submit.submit, position, lambda: hang_up(postgres_url))
    jobs = [NewJob(ONE, subject=f"s{n}", idempotency_key=f"k{n}") for n in range(submit.FEW_JOBS + 1)]
    plans = [(new_id("job", os.urandom), plan_job(job)) for job in jobs]
    with pytest.raises(StoreUnavailable) as caught:
        await store.driver.run(cut, plans)
    assert not isinstance(caught.value, OutcomeUnknown), "no commit was on its way"
    assert await dump(postgres_url) == before
    assert len(await store.operator.submit(jobs)) == len(jobs)
    await store.close()


async def test_a_connection_cut_before_a_statement_that_commits_by_itself(postgres_url):
    store = await Store.open(postgres_url)
    await store.operator.submit([NewJob(ONE)])
    cut = interrupted(submit.submit, 2, lambda: hang_up(postgres_url))
    job = NewJob(ONE, subject="s", idempotency_key="k")
    with pytest.raises(OutcomeUnknown):
        await store.driver.run(cut, [(new_id("job", os.urandom), plan_job(job))])
    assert len(await store.operator.submit([job])) == 1, "asked again, it is made or found"
    assert len(await store.read.jobs()) == 2
    await store.close()


async def test_a_connection_cut_within_a_statement(postgres_url):
    store = await Store.open(postgres_url)

    def slow():
        yield Script("SELECT pg_sleep(20)")

    running = asyncio.create_task(store.driver.run(slow))
    await asyncio.sleep(0.2)
    await asyncio.to_thread(hang_up, postgres_url)
    with pytest.raises(StoreUnavailable):
        await running
    assert await store.read.jobs() == []
    await store.close()


@pytest.mark.parametrize("setting", ["statement_timeout", "lock_timeout"])
async def test_too_slow_or_too_contended(postgres_url, setting, monkeypatch):
    monkeypatch.setitem(postgres.SETTINGS, setting, "100ms")
    monkeypatch.setattr(postgres, "RACES_MAX", 2)
    store = await Store.open(postgres_url)
    await add_worker(store)
    job_id, _ = await run_one(store)
    before = await dump(postgres_url)
    holder = await asyncpg.connect(postgres_url)
    async with holder.transaction():
        await holder.execute("SELECT 1 FROM tasks FOR UPDATE")
        with pytest.raises(StoreUnavailable) as caught:
            await store.operator.cancel([job_id])
        assert caught.value.retryable
        assert caught.value.http_status == 503
    await holder.close()
    assert await dump(postgres_url) == before
    assert await store.operator.cancel([job_id]) == [job_id]
    await store.close()


async def test_a_client_that_sleeps_in_a_transaction_is_cut_off(postgres_url, monkeypatch):
    monkeypatch.setitem(postgres.SETTINGS, "idle_in_transaction_session_timeout", "100ms")
    store = await Store.open(postgres_url)
    before = await dump(postgres_url)
    sleepy = interrupted(submit.submit, 5, lambda: time.sleep(0.5))
    with pytest.raises(StoreUnavailable):
        await store.driver.run(sleepy, [("job_1", plan_job(NewJob(ONE)))])
    assert await dump(postgres_url) == before
    assert len(await store.operator.submit([NewJob(ONE)])) == 1
    await store.close()


def lost_race(code: str, times: int, attempts: list[int]):
    """An operation that loses so many races and then writes."""

    def run():
        attempts.append(len(attempts) + 1)
        yield Script("INSERT INTO schema_guards (fingerprint) VALUES ('half done')")
        if len(attempts) <= times:
            yield Script(f"DO $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '{code}'; END $$")
        yield Script("UPDATE schema_guards SET fingerprint = 'done' WHERE fingerprint = 'half done'")
        return "done"

    return run


@pytest.mark.parametrize("code", ["40001", "40P01", "55P03"])
async def test_a_lost_race_is_run_again_a_few_times(postgres_url, code):
    store = await Store.open(postgres_url)
    attempts: list[int] = []
    assert await store.driver.run(lost_race(code, 2, attempts)) == "done"
    assert attempts == [1, 2, 3]
    before = await dump(postgres_url)
    with pytest.raises(StoreUnavailable, match="contended"):
        await store.driver.run(lost_race(code, 99, attempts := []))
    assert len(attempts) == postgres.RACES_MAX
    assert await dump(postgres_url) == before
    await store.close()


async def test_a_real_deadlock_reaches_no_caller(postgres_url):
    store = await Store.open(postgres_url)
    jobs = sorted(await store.operator.submit([NewJob(ONE), NewJob(ONE)]))
    both_hold_one = threading.Barrier(2)
    attempts: list[str] = []

    def crossing(first: str, second: str):
        def run():
            attempts.append(first)
            yield Script(f"UPDATE jobs SET version = version + 1 WHERE id = '{first}'")
            with contextlib.suppress(threading.BrokenBarrierError):
                both_hold_one.wait(5 if len(attempts) <= 2 else 0)
            yield Script(f"UPDATE jobs SET version = version + 1 WHERE id = '{second}'")

        return run

    async def one_side(first: str, second: str) -> None:
        own = await Store.open(postgres_url)
        await own.driver.run(crossing(first, second))
        await own.close()

    sides = [asyncio.to_thread(asyncio.run, one_side(*order)) for order in (jobs, jobs[::-1])]
    await asyncio.gather(*sides)
    assert len(attempts) > 2, "one of them was the victim and ran again"
    assert [(await store.read.job(job_id)).version for job_id in jobs] == [3, 3]
    await store.close()


async def test_a_cancelled_caller_leaves_a_usable_store(postgres_url):
    store = await Store.open(postgres_url)
    before = await dump(postgres_url)

    def slow():
        yield Script("INSERT INTO schema_guards (fingerprint) VALUES ('half done')")
        yield Script("SELECT pg_sleep(20)")

    for _ in range(2):
        calls = [asyncio.create_task(store.driver.run(slow)) for _ in range(postgres.POOL_SIZE + 5)]
        await asyncio.sleep(0.3)
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)
    async with asyncio.timeout(10):
        assert await dump(postgres_url) == before
        await add_worker(store)
        await store.operator.submit([NewJob(ONE) for _ in range(20)])
        claims = [store.worker.claim(claim_request("w1")) for _ in range(20)]
        assert sum(len(leases) for leases in await asyncio.gather(*claims)) == 20
    await store.close()


async def test_a_restart_in_between_is_survived_by_the_pool(fragile: PostgresServer):
    await fragile.create_database("restarted")
    await upgrade_schema(fragile.dsn("restarted"))
    store = await Store.open(fragile.dsn("restarted"))
    (job_id,) = await store.operator.submit([NewJob(ONE)])
    await asyncio.to_thread(fragile.stop, "fast")
    with pytest.raises(StoreUnavailable):
        await store.read.job(job_id)
    fragile.start()
    assert (await store.read.job(job_id)).id == job_id
    await store.close()
