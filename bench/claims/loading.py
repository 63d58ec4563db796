"""Fills a store with no-op tasks the honest way: submit jobs, complete their splitters, advance."""

import secrets

from takeup.core.model import Completion, WorkerSpec
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.plan import NewJob
from takeup.store.ops.claim import ClaimRequest
from takeup.store.store import Store

LOADER = "loader"
SEGMENTS_MAX = 1000
"""Tasks a job: each job of a measurement has this many segments, the last one what is left."""

PIPELINE = Pipeline.of(
    "bench",
    [Stage("split", phase="planning"), Stage("work", needs=("split",), each="segment")],
)


async def load_tasks(store: Store, count: int) -> list[str]:
    """Add jobs that hold so many READY tasks of the stage `work`; answers with the ids of the jobs."""
    sizes = [min(SEGMENTS_MAX, count - start) for start in range(0, count, SEGMENTS_MAX)]
    await store.worker.register(WorkerSpec(LOADER, slots=100, stages=("bench/split",)))
    job_ids: list[str] = []
    for size in sizes:
        job_ids += await store.operator.submit([NewJob(PIPELINE)])
        (lease,) = await store.worker.claim(ClaimRequest(LOADER, secrets.token_hex(8), secrets.token_hex(16)))
        await store.worker.complete(LOADER, [Completion(lease.held, {"segments": size})])
        advance = await store.orchestrator.advance(job_ids[-1:])
        assert advance.ready == size
    return job_ids
