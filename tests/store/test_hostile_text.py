"""Text that looks like SQL, or that no database can hold, in every field: stored literally or refused."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from takeup.core.errors import TakeupError
from takeup.core.model import Artifact, Completion, Failure, Lease, Progress, WorkerSpec
from takeup.core.plan import NewJob
from takeup.store.ops.claim import ClaimRequest
from takeup.store.ops.moves import clip
from takeup.store.ops.read import JobFilter
from takeup.store.store import Store
from tests.store.scenes import ONE, Dump, add_worker, claim_request, dump, run_one

TEXTS = {
    "sql": "'; DROP TABLE tasks; --",
    "quotes": "\"'`\\' OR 1=1 /*",
    "placeholders": "{now} :now_at $1 %s ? {rows g(a text)}",
    "json": '["a", {"b": null}]',
    "nul": "a\x00b",
    "half a character": "a\ud800b",
    "lines": "a\r\nb\tc",
    "other scripts": "Ünïcødé 漢字 😀 \u202egnirts",
    "long": "x" * 100_000,
}

Call = Callable[[str], Awaitable[Any]]


def submitting(field: str) -> Callable[[Store, Lease], Call]:
    return lambda store, _lease: lambda text: store.operator.submit([NewJob(ONE, **{field: text})])


def registering(field: str) -> Callable[[Store, Lease], Call]:
    return lambda store, _lease: (
        lambda text: store.worker.register(WorkerSpec(**{"id": "w2", "slots": 2, field: text}))
    )


def completing(field: str) -> Callable[[Store, Lease], Call]:
    def bind(store: Store, lease: Lease) -> Call:
        good = {"name": "n", "key": "k", "sha256": "0" * 64, "size_bytes": 1}
        return lambda text: store.worker.complete(
            "w1", [Completion(lease.held, {}, (Artifact(**{**good, field: text}),))]
        )

    return bind


FIELDS: dict[str, Callable[[Store, Lease], Call]] = {
    "subject": submitting("subject"),
    "user": submitting("user_id"),
    "key": submitting("idempotency_key"),
    "worker id": registering("id"),
    "worker name": registering("name"),
    "worker stages": lambda s, _: lambda text: s.worker.register(WorkerSpec("w2", stages=(text,))),
    "worker capabilities": lambda s, _: (
        lambda text: s.worker.register(WorkerSpec("w2", capabilities=frozenset({text})))
    ),
    "worker metadata": lambda s, _: lambda text: s.worker.register(WorkerSpec("w2", metadata={text: text})),
    "submit request": lambda s, _: lambda text: s.operator.submit([NewJob(ONE)], request_id=text),
    "claim request": lambda s, _: lambda text: s.worker.claim(ClaimRequest("w1", text, "s" * 32)),
    "claim secret": lambda s, _: lambda text: s.worker.claim(ClaimRequest("w1", "r", text + "s" * 32)),
    "claim worker": lambda s, _: lambda text: s.worker.claim(claim_request(text)),
    "note": lambda s, le: lambda text: s.worker.renew("w1", [Progress(le.held, 1.0, text)]),
    "renew request": lambda s, le: lambda text: s.worker.renew("w1", [Progress(le.held)], request_id=text),
    "error": lambda s, le: lambda text: s.worker.fail("w1", [Failure(le.held, text)]),
    "last error": lambda s, le: lambda text: s.worker.fail("w1", [Failure(le.held, text, retryable=False)]),
    "release reason": lambda s, le: lambda text: s.worker.release("w1", [le.held], reason=text),
    "result": lambda s, le: lambda text: s.worker.complete("w1", [Completion(le.held, {"a": text})]),
    "artifact name": completing("name"),
    "artifact key": completing("key"),
    "artifact hash": completing("sha256"),
    "reporting worker": lambda s, le: lambda text: s.worker.complete(text, [Completion(le.held)]),
    "cancel reason": lambda s, le: lambda text: s.operator.cancel([le.job_id], reason=text),
    "pause reason": lambda s, le: lambda text: s.operator.set_control([le.job_id], "PAUSED", reason=text),
    "skip reason": lambda s, le: lambda text: s.operator.set_control([le.job_id], "SKIP", reason=text),
    "task skip reason": lambda s, le: (
        lambda text: s.operator.set_task_control([le.task_id], "SKIP", reason=text)
    ),
    "disable reason": lambda s, _: lambda text: s.operator.disable(["w1"], reason=text),
    "cancelled job": lambda s, _: lambda text: s.operator.cancel([text]),
    "heartbeat": lambda s, _: lambda text: s.worker.heartbeat([text]),
    "read job": lambda s, _: s.read.job,
    "read worker": lambda s, _: s.read.worker,
    "filter": lambda s, _: lambda text: s.read.jobs(JobFilter(text, text, text, text)),
    "events of a job": lambda s, _: lambda text: s.read.events(job_id=text),
    "advance": lambda s, _: lambda text: s.orchestrator.advance([text]),
    "live jobs": lambda s, _: lambda text: s.orchestrator.live_jobs(after=text),
}

STORING = {
    "subject", "user", "key", "worker id", "worker name", "submit request", "note", "error", "last error",
    "release reason", "artifact name", "artifact key", "cancel reason", "pause reason", "skip reason",
    "task skip reason", "disable reason",
}  # fmt: skip
"""The fields whose text must be found again in a row, as it came or clipped."""


async def fault_of(store: Store, url: str, field: str, text: str) -> str | None:
    """What is wrong with how the store took the text in this field."""
    await store.operator.cancel(await store.orchestrator.live_jobs())
    await store.operator.enable(["w1"])
    await add_worker(store)
    _, lease = await run_one(store)
    call = FIELDS[field](store, lease)
    before = await dump(url)
    try:
        await call(text)
    except TakeupError as error:
        if error.http_status >= 500:
            return f"{error!r}"
        return None if await dump(url) == before else "refused, but rows changed"
    except Exception as error:  # noqa: BLE001 - a driver's own error is the fault looked for
        return f"raw {error!r}"
    kept = texts_in(await dump(url))
    if field in STORING and kept.isdisjoint({text, clip(text)}):
        return "accepted but not stored as it came"
    return None


def texts_in(rows: Dump) -> set[str]:
    cells = {
        cell for table in rows.values() for row in table for cell in row.values() if isinstance(cell, str)
    }
    return cells | {cell.partition(": ")[2] for cell in cells}


@pytest.mark.parametrize("field", FIELDS)
async def test_every_text_on_sqlite(field, sqlite_url, clock):
    store = await Store.open(sqlite_url, clock=clock)
    await add_worker(store)
    found = {name: await fault_of(store, sqlite_url, field, text) for name, text in TEXTS.items()}
    assert {name: fault for name, fault in found.items() if fault} == {}
    await store.close()


@pytest.mark.parametrize("name", ["sql", "placeholders", "nul", "half a character"])
async def test_every_field_on_postgres(name, postgres_url, clock):
    store = await Store.open(postgres_url, clock=clock)
    await add_worker(store)
    found = {field: await fault_of(store, postgres_url, field, TEXTS[name]) for field in FIELDS}
    assert {field: fault for field, fault in found.items() if fault} == {}
    await store.close()
