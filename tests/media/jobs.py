"""Transcodes as jobs of a worker, many at once: a process for each command would take most of the time."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from takeup.app import make_folder, open_app, run_loops
from takeup.config import load
from takeup.core.model import Job, Task
from takeup.core.plan import NewJob
from takeup.pipelines.transcode import transcode

PIPELINE = "takeup.pipelines.transcode"
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Done:
    """A job that is over, and its tasks by stage."""

    job: Job
    tasks: dict[str, Task]


def spec_of(data: Path, number: int, source: Path) -> dict[str, str]:
    """What a job for this source is submitted with; its streams lie beside the data."""
    return {"source": str(source), "publish_to": str(data.parent / "streams" / str(number))}


async def run_jobs(
    data: Path,
    sources: Sequence[Path],
    *,
    within_s: float = 60,
    spec: Mapping[str, Any] | None = None,
    pipeline: str = PIPELINE,
) -> list[Done]:
    """Run a job for each source to its end, as the environment says; `spec` is what else is asked for."""
    settings = load(os.environ, {"data_dir": data})
    make_folder(data)
    async with open_app(settings) as app:
        asked = [{**spec_of(data, number, source), **(spec or {})} for number, source in enumerate(sources)]
        ids = await app.submit([NewJob(transcode, one) for one in asked])
        worker = app.worker([pipeline], worker_id="w", slots=2)
        stop = asyncio.Event()
        running = [
            asyncio.create_task(worker.run()),
            asyncio.create_task(run_loops(app.job_loops(), stop)),
        ]
        try:
            async with asyncio.timeout(within_s):
                while any([(await app.store.read.job(one)).finished_at is None for one in ids]):
                    await asyncio.sleep(LOOK_S)
        finally:
            worker.hurry()
            stop.set()
            await asyncio.gather(*running)
        return [
            Done(await app.store.read.job(one), {t.stage: t for t in await app.store.read.tasks(one)})
            for one in ids
        ]
