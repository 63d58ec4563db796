"""Workers elsewhere: with a server's address and a key alone they make the same stream, byte for byte."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi import FastAPI

from takeup.api.build import build_api
from takeup.api.listening import listen, serve
from takeup.app import App, make_folder, open_app, run_loops
from takeup.cli.serve import on_this_disk
from takeup.config import load
from takeup.core.plan import NewJob
from takeup.engine.enrolment import enrol
from takeup.engine.remote.cache import KEEP_S, Cache
from takeup.engine.remote.starting import RemoteWorker, remote_worker
from takeup.pipelines.loading import load_all
from takeup.pipelines.transcode import transcode
from tests.conftest import GetPostgres
from tests.media.conftest import Make
from tests.media.jobs import LOOK_S, PIPELINE, run_jobs
from tests.media.test_transcode import contents
from tests.services import database_from_template
from tests.store.scenes import upgrade_schema

PIPELINES = load_all([PIPELINE])
PATIENCE_S = 90.0


@dataclass
class Server:
    """A server that encodes nothing itself."""

    app: App
    address: str
    folder: Path

    @asynccontextmanager
    async def worker(self, name: str, slots: int = 1) -> AsyncIterator[RemoteWorker]:
        """One elsewhere, in a folder of its own."""
        _, key = await enrol(self.app.store, name)
        settings = load(
            os.environ,
            {
                "data_dir": self.folder / name,
                "server_url": self.address,
                "worker_api_key": key.text,
                "worker_claim_wait": 5.0,
            },
        )
        make_folder(settings.data_dir)
        async with remote_worker(settings, PIPELINES, [PIPELINE], slots=slots) as afar:
            running = asyncio.create_task(afar.worker.run())
            yield afar
            afar.stop()
            afar.worker.hurry()
            await running

    async def finished(self, job_id: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while (job := await self.app.store.read.job(job_id)).finished_at is None:
                await asyncio.sleep(LOOK_S)
        assert job.status == "completed", job.error


@pytest.fixture(params=["sqlite", "postgres15"])
async def server(
    request: pytest.FixtureRequest, tmp_path: Path, get_postgres: GetPostgres
) -> AsyncIterator[Server]:
    if request.param == "sqlite":
        async with served(tmp_path, f"sqlite:///{tmp_path}/takeup.db") as one:
            yield one
    else:
        postgres = get_postgres(request.param)
        async with database_from_template(postgres, upgrade_schema) as url, served(tmp_path, url) as one:
            yield one


@asynccontextmanager
async def served(
    folder: Path, url: str, prepare: Callable[[FastAPI], None] = lambda _: None
) -> AsyncIterator[Server]:
    settings = load(os.environ, {"database_url": url, "data_dir": folder / "server"})
    make_folder(settings.data_dir)
    async with open_app(settings) as app:
        stop = asyncio.Event()
        opened = listen("127.0.0.1", 0)
        api = build_api(app, PIPELINES)
        prepare(api)
        own = app.worker([PIPELINE], worker_id="own", slots=1, stages=on_this_disk(PIPELINES))
        running = [
            asyncio.create_task(serve(api, opened, stop)),
            asyncio.create_task(run_loops(app.job_loops(), stop)),
            asyncio.create_task(own.run()),
        ]
        yield Server(app, f"http://127.0.0.1:{opened.getsockname()[1]}", folder)
        own.hurry()
        stop.set()
        await asyncio.gather(*running)
        opened.close()


async def test_two_elsewhere_make_what_one_here_makes(server: Server, make: Make, tmp_path: Path):
    source = await asyncio.to_thread(make, "plain")
    spec = {"segment_s": 2.0}
    here = await run_jobs(tmp_path / "here" / "data", [source], spec=spec)
    assert here[0].job.status == "completed"
    out = tmp_path / "afar"
    async with server.worker("first") as first, server.worker("second") as second:
        (job_id,) = await server.app.submit(
            [NewJob(transcode, {"source": str(source), "publish_to": str(out), **spec})]
        )
        await server.finished(job_id)
        makers = {
            attempt.owner
            for attempt in await server.app.store.read.attempts(job_id)
            if attempt.stage in ("encode", "sound")
        }
        assert makers == {first.worker.id, second.worker.id}
    assert contents(out) == contents(tmp_path / "here" / "streams" / "0")
    for name in ("first", "second"):
        assert not list((tmp_path / name / "artifacts" / ".staging").iterdir())
    segments = [t for t in await server.app.store.read.tasks(job_id) if t.stage == "encode"]
    assert len(segments) >= 2
    steps = await server.app.store.read.steps(job_id)
    assert sum(step.exit_code == 0 for step in steps if "libx264" in step.command) == len(segments)


async def test_files_of_jobs_that_are_over_are_removed(server: Server, make: Make, tmp_path: Path):
    source = await asyncio.to_thread(make, "480 lines")
    async with server.worker("only") as afar:
        spec = {"source": str(source), "publish_to": str(tmp_path / "out")}
        (job_id,) = await server.app.submit([NewJob(transcode, spec)])
        await server.finished(job_id)
        data = tmp_path / "only"
        await afar.cache.run_once()
        assert len(list(data.rglob("source.mp4"))) == 1  # its next task may come
        later = Cache(
            afar.source,
            data / "artifacts",
            data / "scratch",
            jobs_held=list,
            bytes_max=1 << 40,
            wall=lambda: time.time() + 2 * KEEP_S,
        )
        await later.run_once()
        assert not list(data.rglob("source.mp4"))
