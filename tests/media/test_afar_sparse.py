"""Workers elsewhere fetch of a long source each its own share, and make what a worker on the disk makes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from takeup.core.plan import NewJob
from takeup.engine.enrolment import enrol
from takeup.engine.remote.cache import Cache
from takeup.media.tools import Tools
from takeup.pipelines.transcode import transcode
from tests.cli.conftest import environment
from tests.media.conftest import H264, PICTURE
from tests.media.jobs import LOOK_S, PIPELINE, run_jobs
from tests.media.packages import ffmpeg, tiny_profile
from tests.media.test_afar import Server, served
from tests.media.test_transcode import contents

SECONDS, SEGMENT_S = 36, 6.0
RATE = ("-b:v", "4M", "-minrate", "4M", "-maxrate", "4M", "-bufsize", "4M", "-nal-hrd", "cbr")
SOUND = (*PICTURE, f"sine=duration={SECONDS}")
PATIENCE_S = 90.0


class Counted:
    """Notes how many bytes of sources are sent to whom."""

    def __init__(self, app: ASGIApp, sent: Counter[str]) -> None:
        self._app = app
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        is_source = "/files/" in scope["path"] or scope["path"].endswith("source.mkv")

        async def counted(message: Message) -> None:
            if is_source:
                self._sent[key] += len(message.get("body", b""))
            await send(message)

        await self._app(scope, receive, counted)


@pytest.fixture
def sent() -> Counter[str]:
    return Counter()


@pytest.fixture
async def server(tmp_path: Path, sent: Counter[str]) -> AsyncIterator[Server]:
    def counted(api: FastAPI) -> None:
        api.add_middleware(Counted, sent=sent)

    async with served(tmp_path, f"sqlite:///{tmp_path}/takeup.db", counted) as one:
        yield one


def long_source(tools: Tools, file: Path, *more: str) -> Path:
    """At a steady rate, so that the share of a segment is known; more than any head that all have to read."""
    pictures = f"testsrc2=size=320x180:rate=25:duration={SECONDS}"
    ffmpeg(tools, *PICTURE, pictures, *more, *H264, *RATE, file)
    return file


def new_job(tmp_path: Path, source: Path) -> NewJob:
    return NewJob(transcode, {"source": str(source), "publish_to": str(tmp_path / "out"), **spec(tmp_path)})


def spec(folder: Path) -> dict[str, object]:
    tiny_profile(folder)
    return {"segment_s": SEGMENT_S, "profile": str(folder / "tiny.toml")}


async def as_here(tmp_path: Path, source: Path) -> None:
    """What came out is what one worker on the disk makes."""
    here = await run_jobs(tmp_path / "here" / "data", [source], spec=spec(tmp_path))
    assert here[0].job.status == "completed"
    assert contents(tmp_path / "out") == contents(tmp_path / "here" / "streams" / "0")


@pytest.mark.parametrize(("ending", "most"), [("mp4", 1.4), pytest.param("ts", 1.7, marks=pytest.mark.long)])
async def test_each_fetches_about_its_share(
    server: Server, sent: Counter[str], tools: Tools, tmp_path: Path, ending: str, most: float
):
    source = await asyncio.to_thread(long_source, tools, tmp_path / f"long.{ending}")
    size = source.stat().st_size
    async with server.worker("first") as first, server.worker("second") as second:
        (job_id,) = await server.app.submit([new_job(tmp_path, source)])
        await server.finished(job_id)
        segments = Counter(
            attempt.owner
            for attempt in await server.app.store.read.attempts(job_id)
            if attempt.stage == "encode"
        )
        for name, worker in (("first", first.worker.id), ("second", second.worker.id)):
            share = segments[worker] / segments.total()
            held = sum(
                file.stat().st_blocks * 512
                for file in (tmp_path / name).rglob("sparse/**/*")
                if file.suffix in (".mp4", ".mkv")
            )
            assert held < size * min(share * most + 0.15, 0.95)
        data = tmp_path / "first"
        cache = Cache(
            first.source, data / "artifacts", data / "scratch", jobs_held=list, bytes_max=int(size * 0.95)
        )
        await cache.run_once()
        assert list(data.rglob("sparse/*")), "a hole takes no room"
    assert size > 15_000_000
    twice = "little came twice: the head, what was read ahead, and what lies before a place that is sought"
    assert sum(sent.values()) < size * most, twice
    assert max(sent.values()) < size * 0.95
    await as_here(tmp_path, source)


@pytest.mark.long
async def test_sound_and_segments_share_one_copy(
    server: Server, sent: Counter[str], tools: Tools, tmp_path: Path
):
    source = await asyncio.to_thread(long_source, tools, tmp_path / "long.mp4", *SOUND, "-c:a", "aac")
    async with server.worker("only", slots=2):
        (job_id,) = await server.app.submit([new_job(tmp_path, source)])
        await server.finished(job_id)
    assert sum(sent.values()) == source.stat().st_size, "every byte came once"
    await as_here(tmp_path, source)


@pytest.mark.long
async def test_a_worker_that_is_killed_while_it_fetches_goes_on(
    server: Server, sent: Counter[str], tools: Tools, tmp_path: Path
):
    source = await asyncio.to_thread(long_source, tools, tmp_path / "long.mp4")
    _, key = await enrol(server.app.store, "killed")
    data = tmp_path / "killed"

    @asynccontextmanager
    async def worker() -> AsyncIterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "takeup.cli.main", "work", "--server", server.address,
                   "--pipelines", PIPELINE, "--data", str(data), "--slots", "1"]  # fmt: skip
        running = await asyncio.to_thread(
            subprocess.Popen, command, env=environment(TAKEUP_WORKER_API_KEY=key.text)
        )
        try:
            yield running
        finally:
            if running.poll() is None:
                running.terminate()
            await asyncio.to_thread(running.wait, PATIENCE_S)

    (job_id,) = await server.app.submit([new_job(tmp_path, source)])
    for times in range(1, 4):
        async with worker() as running, asyncio.timeout(PATIENCE_S):
            while sent[key.text] < times * source.stat().st_size / 6:
                await asyncio.sleep(LOOK_S)
            os.kill(running.pid, signal.SIGKILL)
    async with worker():
        await server.finished(job_id)
    assert sent[key.text] < source.stat().st_size * 1.5, "what was there was not fetched again"
    await as_here(tmp_path, source)


async def test_a_source_that_changes_on_the_way_ends_the_job(server: Server, tools: Tools, tmp_path: Path):
    source = await asyncio.to_thread(long_source, tools, tmp_path / "long.mp4")
    (job_id,) = await server.app.submit([new_job(tmp_path, source)])
    async with asyncio.timeout(PATIENCE_S):
        while not any(t.stage == "encode" for t in await server.app.store.read.tasks(job_id)):
            await asyncio.sleep(LOOK_S)
    changed = source.read_bytes()
    source.write_bytes(changed[:-1] + b"x")
    async with server.worker("late"), asyncio.timeout(PATIENCE_S):
        while (job := await server.app.store.read.job(job_id)).finished_at is None:
            await asyncio.sleep(LOOK_S)
    assert job.status == "failed"
    assert "was changed after its plan was made" in (job.error or "")
