"""Ten real processes that do the same thing at the same moment, each with its own store."""

import asyncio
import multiprocessing
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from takeup.core.budget import ErrorBudget, Judged
from takeup.core.model import Answer, Completion, WorkerSpec
from takeup.core.plan import NewJob
from takeup.store import migrate
from takeup.store.drivers import connect
from takeup.store.ops.orchestrate import Advance
from takeup.store.store import Store
from tests.store.scenes import ONE, Clock, claim_request

SIZE = 10
WAIT_S = 120
Work = Callable[..., Coroutine[Any, Any, Any]]


class Crowd:
    """A pool whose members start each call together."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(SIZE, timeout=WAIT_S)
        self._pool = ProcessPoolExecutor(
            SIZE, mp_context=context, initializer=_keep_barrier, initargs=(barrier,)
        )

    def run(self, work: Work, *args: Any, each: Sequence[Any] = range(SIZE)) -> list[Any]:
        """Every member runs `work(item, *args)` with its own item; raises what the first one raised."""
        futures = [self._pool.submit(_at_once, work, item, *args) for item in each]
        return [future.result(WAIT_S) for future in futures]

    def close(self) -> None:
        self._pool.shutdown()


_state: dict[str, threading.Barrier] = {}


def _keep_barrier(barrier: threading.Barrier) -> None:
    _state["barrier"] = barrier


def _at_once(work: Work, *args: Any) -> Any:
    _state["barrier"].wait()
    return asyncio.run(work(*args))


async def upgrade(_member: int, url: str) -> list[str]:
    driver = await connect(url)
    try:
        return await driver.run(migrate.upgrade, driver.dialect)
    finally:
        await driver.close()


async def claim_and_complete(member: int, url: str, limit: int) -> list[int]:
    """Claim until nothing is left; answers with the tasks that were finished here."""
    store = await Store.open(url)
    worker_id = f"w{member}"
    done: list[int] = []
    try:
        await store.worker.register(WorkerSpec(worker_id, slots=limit))
        while leases := await store.worker.claim(claim_request(worker_id, limit)):
            answers = await store.worker.complete(worker_id, [Completion(lease.held) for lease in leases])
            done += [answer.task_id for answer in answers if answer.accepted]
    finally:
        await store.close()
    return done


async def advance(_member: int, url: str, job_id: str) -> Advance:
    store = await Store.open(url)
    try:
        return await store.orchestrator.advance([job_id])
    finally:
        await store.close()


async def expire(_member: int, url: str, clock: Clock) -> list[int]:
    store = await Store.open(url, clock=clock)
    try:
        return await store.recovery.expire()
    finally:
        await store.close()


async def judge(_member: int, url: str) -> Judged:
    store = await Store.open(url)
    try:
        return await store.recovery.quarantine(ErrorBudget(1, 600))
    finally:
        await store.close()


async def submit(member: int, url: str, key: str) -> str:
    store = await Store.open(url)
    try:
        (job_id,) = await store.operator.submit(
            [NewJob(ONE, {"a": 1}, idempotency_key=key, subject="video")], request_id=f"r{member}"
        )
    finally:
        await store.close()
    return job_id


async def cancel_or_complete(
    member: int, url: str, rounds: Sequence[tuple[str, Completion]]
) -> list[list[str] | Answer]:
    """One half of the crowd cancels each job, the other half completes its task."""
    store = await Store.open(url)
    found: list[list[str] | Answer] = []
    try:
        for job_id, completion in rounds:
            if member % 2:
                found.append(await store.operator.cancel([job_id]))
            else:
                found += await store.worker.complete("w1", [completion])
    finally:
        await store.close()
    return found
