"""SQLite keeps what it acknowledged: after kill -9, with a full disk, and beside a second writer."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from takeup.core.errors import StoreError, StoreUnavailable
from takeup.core.plan import NewJob
from takeup.store.drivers import sqlite
from takeup.store.store import Store
from tests.store.scenes import ONE, add_worker, claim_request, dump, dump_sqlite, faults_of, path_in, run_one

KILLS = 3

WRITER = """
import asyncio, sys
from takeup.core.plan import NewJob
from takeup.store.store import Store
from tests.store.scenes import ONE

async def main(url, prefix):
    store = await Store.open(url)
    for number in range(100_000):
        key = f"{prefix}-{number}"
        (job_id,) = await store.operator.submit([NewJob(ONE, {"a": "x" * 500}, idempotency_key=key)])
        print(key, job_id, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""

FILLER = """
import asyncio, resource, sys
from takeup.core.errors import StoreError
from takeup.core.plan import NewJob
from takeup.store.store import Store
from tests.store.scenes import ONE

async def main(url, limit):
    store = await Store.open(url)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    for number in range(100_000):
        try:
            (job_id,) = await store.operator.submit([NewJob(ONE, {"a": "x" * 10_000})])
        except StoreError as error:
            print("refused", type(error).__name__, error.retryable, flush=True)
            break
        print("stored", job_id, flush=True)
    print("readable", len(await store.read.jobs(limit=1000)), flush=True)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


def start(code: str, *args: str) -> subprocess.Popen[str]:
    """A real process of its own, with the same import path."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )


def integrity(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        broken = connection.execute("PRAGMA foreign_key_check").fetchall()
        return [row[0] for row in connection.execute("PRAGMA integrity_check")] + broken
    finally:
        connection.close()


async def test_the_promised_settings_are_in_force(sqlite_url):
    store = await Store.open(sqlite_url)

    def ask(name: str) -> object:
        session = store.driver._session
        return next(iter(session.connection.execute(f"PRAGMA {name}").fetchone().values()))

    found = await asyncio.to_thread(
        lambda: {name: ask(name) for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")}
    )
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 5000}
    await store.close()


def test_a_killed_writer_loses_nothing_acknowledged(sqlite_url):
    known: dict[str, str] = {}
    path = path_in(sqlite_url)
    for round_ in range(KILLS):
        writer = start(WRITER, sqlite_url, str(round_))
        assert writer.stdout is not None
        lines = [writer.stdout.readline()]
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            lines.append(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
        writer.wait()
        writer.stdout.close()
        known |= dict(line.split() for line in lines if line.endswith("\n"))
        assert integrity(path) == ["ok"]
    rows = dump_sqlite(path)
    stored = {row["idempotency_key"]: row["id"] for row in rows["jobs"]}
    assert known.items() <= stored.items()
    assert len(stored) - len(known) <= KILLS, "at most the one in flight was stored but not acknowledged"
    assert len(rows["tasks"]) == len(stored)
    assert faults_of(rows) == []


async def test_what_was_in_doubt_is_settled_by_repeating_it(sqlite_url):
    store = await Store.open(sqlite_url)
    job = NewJob(ONE, {"a": 1}, idempotency_key="k")
    assert await store.operator.submit([job]) == await store.operator.submit([job])
    assert len((await dump(sqlite_url))["jobs"]) == 1
    await store.close()


async def test_a_second_writer_that_holds_the_file(sqlite_url, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 100)
    store = await Store.open(sqlite_url)
    await add_worker(store)
    job_id, lease = await run_one(store)
    before = await dump(sqlite_url)
    other = sqlite3.connect(path_in(sqlite_url), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for call in (
        lambda: store.operator.submit([NewJob(ONE)]),
        lambda: store.worker.claim(claim_request("w1")),
        lambda: store.operator.cancel([job_id]),
        store.recovery.expire,
    ):
        with pytest.raises(StoreUnavailable, match="another writer") as caught:
            await call()
        assert caught.value.retryable
    other.execute("ROLLBACK")
    other.close()
    assert await dump(sqlite_url) == before
    assert await store.operator.cancel([lease.job_id]) == [job_id]
    await store.close()


async def test_a_reader_does_not_wait_for_a_writer(sqlite_url, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 100)
    store = await Store.open(sqlite_url)
    (job_id,) = await store.operator.submit([NewJob(ONE)])
    other = sqlite3.connect(path_in(sqlite_url), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert (await store.read.job(job_id)).id == job_id
    other.execute("ROLLBACK")
    other.close()
    await store.close()


def test_a_full_disk_refuses_and_keeps_what_was_stored(sqlite_url):
    path = path_in(sqlite_url)
    filler = start(FILLER, sqlite_url, str(600_000))
    output, _ = filler.communicate(timeout=60)
    lines = [line.split() for line in output.splitlines()]
    stored = {line[1] for line in lines if line[0] == "stored"}
    assert stored, output
    assert ["refused", "StoreUnavailable", "True"] in lines, output
    assert lines[-1] == ["readable", str(len(stored))], output
    assert filler.returncode == 0
    assert integrity(path) == ["ok"]
    rows = dump_sqlite(path)
    assert {row["id"] for row in rows["jobs"]} == stored
    assert faults_of(rows) == []


async def test_a_full_database_refuses_and_goes_on_when_there_is_room(sqlite_url):
    store = await Store.open(sqlite_url)
    (first,) = await store.operator.submit([NewJob(ONE)])
    connection = store.driver._session.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone().values()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    before = await dump(sqlite_url)
    with pytest.raises(StoreUnavailable, match="full"):
        await store.operator.submit([NewJob(ONE, {"a": "x" * 100_000})])
    assert await dump(sqlite_url) == before
    assert [job.id for job in await store.read.jobs()] == [first]
    connection.execute("PRAGMA max_page_count = 1000000")
    assert len(await store.operator.submit([NewJob(ONE, {"a": "x" * 100_000})])) == 1
    await store.close()


async def test_a_damaged_file_is_an_error_of_the_store(sqlite_url):
    store = await Store.open(sqlite_url)
    await store.operator.submit([NewJob(ONE, {"a": "x" * 1000}) for _ in range(200)])
    await store.close()
    path = path_in(sqlite_url)
    content = bytearray(path.read_bytes())
    content[4096 * 3 :] = b"\xff" * (len(content) - 4096 * 3)
    path.write_bytes(content)
    with pytest.raises(StoreError):
        await read_jobs(sqlite_url)


async def read_jobs(url: str) -> None:
    store = await Store.open(url)
    try:
        await store.read.jobs()
    finally:
        await store.close()
