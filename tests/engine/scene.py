"""A small system for one test: a database, the loops, and workers whose runners are real processes."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from takeup.app import App, bell_of, run_loops
from takeup.config import Settings
from takeup.core.machine import JOB
from takeup.core.model import Event, Job
from takeup.core.plan import NewJob
from takeup.engine.worker import Worker
from takeup.pipelines.loading import load_all, load_one
from takeup.store.store import Store

ACTS = str(Path(__file__).with_name("acts.py"))
PATIENCE_S = 30.0


class Scene:
    """What a test drives."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.store = app.store
        self.pipelines = load_all([ACTS])
        self.stop = asyncio.Event()
        self.workers: list[tuple[Worker, asyncio.Task[None]]] = []

    async def start_worker(
        self, name: str = "w", *, sources: Sequence[str] = (ACTS,), **options: Any
    ) -> Worker:
        worker = self.app.worker(sources, worker_id=name, **options)
        task = asyncio.create_task(worker.run())
        self.workers.append((worker, task))
        await self.until(lambda: worker.runners.free > 0 or task.done())
        if task.done():
            task.result()
        return worker

    async def start_worker_on(self, path: Path, text: str, **options: Any) -> Worker:
        """A worker for a pipeline file of the test's own, which can be submitted by the file's name."""
        path.write_text(text)
        self.pipelines[path.stem] = load_one(str(path))
        return await self.start_worker("w", sources=(str(path),), **options)

    async def submit(self, pipeline: str, spec: dict[str, Any] | None = None, **options: Any) -> str:
        (job_id,) = await self.app.submit([NewJob(self.pipelines[pipeline], spec or {}, **options)])
        return job_id

    async def act(self, name: str, **spec: Any) -> str:
        return await self.submit("act", {"act": name, **spec})

    async def finished(self, job_id: str, patience_s: float = PATIENCE_S) -> Job:
        deadline = time.monotonic() + patience_s
        while (job := await self.store.read.job(job_id)).status not in JOB.final:
            if time.monotonic() > deadline:
                tasks = await self.store.read.tasks(job_id)
                raise AssertionError(
                    f"{job.status}: {[(t.stage, t.status, t.attempt, t.error) for t in tasks]}"
                )
            await asyncio.sleep(0.02)
        return job

    async def running(self, job_id: str) -> None:
        """Wait until a task of the job runs."""
        async with asyncio.timeout(PATIENCE_S):
            while not any(t.status == "RUNNING" for t in await self.store.read.tasks(job_id)):
                await asyncio.sleep(0.02)

    async def events(self, job_id: str) -> list[Event]:
        found: list[Event] = []
        while page := await self.store.read.events(job_id=job_id, after=found[-1].seq if found else 0):
            found += page
        return found

    async def moves(self, job_id: str) -> list[str]:
        return [event.event for event in await self.events(job_id) if event.noun == "task"]

    async def until(self, holds: Any, patience_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + patience_s
        while not holds():
            assert time.monotonic() < deadline, "it did not happen in time"
            await asyncio.sleep(0.02)

    async def end(self) -> None:
        for worker, _ in self.workers:
            worker.hurry()
        for _, task in self.workers:
            await asyncio.wait_for(task, 15)
        self.stop.set()


@contextlib.asynccontextmanager
async def scene_on(url: str, folder: Path, **settings: Any) -> AsyncIterator[Scene]:
    store = await Store.open(url, upgrade=True)
    chosen = {
        "data_dir": folder / "data",
        "database_url": url,
        "worker_poll_interval": 0.2,
        "worker_heartbeat_interval": 1.0,
        "worker_order_interval": 0.2,
        "orchestrator_interval": 0.2,
        "recovery_interval": 0.1,
        "outbox_interval": 0.2,
        "sweep_interval": 1.0,
        "disk_reserve_mb": 0,
        **settings,
    }
    app = App(Settings(**chosen), store, bell_of(store))
    scene = Scene(app)
    looping = asyncio.create_task(run_loops(app.loops(), scene.stop))
    try:
        yield scene
    finally:
        try:
            await scene.end()
        finally:
            scene.stop.set()
            await looping
            await app.bell.close()
            await store.close()
