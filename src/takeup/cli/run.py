"""`takeup run`: one job of a user's pipeline to its end, embedded; killed and run again, it resumes."""

import argparse
import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from takeup.app import App, local_worker_id, make_folder, open_app, run_loops
from takeup.cli.options import add_common, add_workers, read_spec, settings_of
from takeup.cli.progress import Parts, follow, no_parts, say, show_result
from takeup.config import Settings
from takeup.core.errors import StoreConfig, TakeupError
from takeup.core.ids import canonical_json, digest
from takeup.core.model import Job
from takeup.core.pipeline import Pipeline
from takeup.core.plan import NewJob, plan_job
from takeup.engine.worker import Worker
from takeup.pipelines.loading import load_one
from takeup.store.ops.read import JobFilter
from takeup.telemetry import logs


class FolderInUse(StoreConfig):
    """Another process runs a job in this folder."""

    help = "Wait for it, or use another folder with --data DIR."


def add(parser: argparse.ArgumentParser, _name: str) -> None:
    """The arguments of this command."""
    parser.add_argument("pipeline", metavar="FILE.py[:PIPELINE]", help="the file that declares your pipeline")
    parser.add_argument("--spec", metavar="FILE|-", help="the job's parameters: one JSON object")
    add_workers(parser)
    parser.add_argument("--json", action="store_true", help="print the finished job as JSON")
    add_common(parser)
    parser.set_defaults(run=run)


async def run(options: argparse.Namespace) -> int:
    """Submit or find the job, run it here, show how it goes."""
    settings = settings_of(options, log_level="warning")
    logs.configure(style=settings.log_format, level=settings.log_level)  # type: ignore[arg-type]
    pipeline = load_one(options.pipeline)
    spec = read_spec(options.spec)
    make_folder(settings.data_dir)
    warn_of_space(settings)
    with only_one(settings.data_dir):
        async with open_app(settings) as app:
            job, is_new = await find_or_submit(app, pipeline, spec)
            if not is_new:
                say(found_before(job))
            if job.finished_at is None:
                worker = worker_of(app, settings, options.pipeline, options)
                job = await run_here(app, worker, job)
            artifacts = await app.store.read.artifacts(job.id)
            show_result(job, artifacts, settings.storage, as_json=options.json)
    return 0 if job.status == "completed" else 1


def warn_of_space(settings: Settings) -> None:
    """A worker takes nothing while its disk is nearly full; the job only looks as if it waited."""
    free = shutil.disk_usage(settings.data_dir).free // 2**20
    if free < settings.disk_reserve_mb:
        few = f"only {free} MB are free in {settings.data_dir}, fewer than disk_reserve_mb"
        say(f"{few} ({settings.disk_reserve_mb}): nothing is run until there is room")


def found_before(job: Job) -> str:
    if job.finished_at is None:
        return f"{job.id} was begun before and goes on"
    return (
        f"{job.id} was completed before, so nothing is run; `takeup jobs retry {job.id}` runs it again, "
        "and so does a new `version` of the pipeline"
    )


async def find_or_submit(
    app: App,
    pipeline: Pipeline,
    spec: dict[str, Any],
    *,
    subject: str | None = None,
    unless: Callable[[Job], bool] = lambda _: False,
) -> tuple[Job, bool]:
    """The newest job for the same pipeline and spec if it is live or done; else a new one, and True.

    One of which `unless` holds is passed over.
    """
    new = NewJob(pipeline, spec, subject=subject)
    plan = plan_job(new)
    subject = plan.subject or f"run:{digest(canonical_json([pipeline.name, pipeline.version, spec]))[:32]}"
    for listed in await app.store.read.jobs(JobFilter(subject=subject), limit=1):
        job = await app.store.read.job(listed.id)
        is_same = dict(job.spec) == spec and job.pipeline == pipeline.name
        if is_same and job.status not in ("failed", "cancelled") and not unless(job):
            return job, False
    (job_id,) = await app.submit([NewJob(pipeline, spec, subject=subject)])
    return await app.store.read.job(job_id), True


def worker_of(app: App, settings: Settings, source: str, options: argparse.Namespace) -> Worker:
    """The worker of this process, for the pipeline of this source."""
    return app.worker(
        [source],
        worker_id=local_worker_id(settings),
        slots=options.workers,
        capabilities=options.capability or (),
    )


async def run_here(app: App, worker: Worker, job: Job, *, parts: Parts = no_parts) -> Job:
    """Loops and a worker in this process until the job is finished; a signal stops it, nothing is lost."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        stop.set()
        worker.hurry()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    working = asyncio.create_task(worker.run())
    looping = asyncio.create_task(run_loops(app.job_loops(), stop))
    ear = app.bell.listen("jobs")
    following = asyncio.create_task(follow(app.store.read, job.id, ear=ear, parts=parts))
    try:
        await asyncio.wait((working, following), return_when=asyncio.FIRST_COMPLETED)
        if not following.done():
            following.cancel()
            worker.hurry()
            await working
            why = "interrupted" if stop.is_set() else "the worker was told to stop"
            say(f"{why}; nothing is lost: the same command goes on with it")
            raise KeyboardInterrupt
        return await following
    finally:
        worker.hurry()
        await asyncio.gather(working, return_exceptions=True)
        stop.set()
        await looping
        with contextlib.suppress(TakeupError, OSError):  # what is left is swept the next time
            await app.sweeper().run_once()
            await app.outbox().run_once()


@contextlib.contextmanager
def only_one(folder: Path, advice: str | None = None) -> Iterator[None]:
    """Hold the folder's lock, so that a worker found under our own id is surely a dead one."""
    with (folder / "run.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pid = file.read().strip()
            holder = f"process {pid}" if pid else "another process"
            raise FolderInUse(f"{folder} is in use by {holder}", advice=advice) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
