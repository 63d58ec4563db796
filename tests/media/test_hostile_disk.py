"""A disk that is full while ffmpeg writes: the attempt is handed back and says why; room is all it needs."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeup.app import App, make_folder, open_app, run_loops
from takeup.config import load
from takeup.core.model import Event
from takeup.core.plan import NewJob
from takeup.media.tools import Tools
from takeup.pipelines.transcode import transcode
from tests.media.conftest import PICTURE
from tests.media.jobs import LOOK_S, PIPELINE, spec_of

SMALL, LARGE = "256k", "64m"
WITHIN_S = 60


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)  # noqa: S607


@pytest.fixture
def noise(tools: Tools, tmp_path: Path) -> Path:
    """A source whose stream is larger than the small disk."""
    file = tmp_path / "noise.mp4"
    picture = "testsrc2=size=640x360:rate=25:duration=4,noise=alls=60:allf=t"
    command = [
        tools.binaries.ffmpeg,
        "-v",
        "error",
        *PICTURE,
        picture,
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
    ]
    subprocess.run([*command, file], check=True, timeout=60)
    return file


async def released(app: App, job_id: str) -> Event:
    """The first attempt that was handed back."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            for event in await app.store.read.events(job_id=job_id):
                if event.event == "release":
                    return event
            await asyncio.sleep(LOOK_S)


async def test_a_full_disk_is_told_and_the_job_goes_on_when_there_is_room(
    small_disk: Path, noise: Path, tmp_path: Path
):
    flags = {"data_dir": tmp_path / "data", "storage_url": f"file://{small_disk}", "disk_reserve_mb": 0}
    settings = load(os.environ, {**flags, "worker_poll_interval": 0.2, "worker_heartbeat_interval": 0.5})
    make_folder(settings.data_dir)
    async with open_app(settings) as app:
        (job_id,) = await app.submit([NewJob(transcode, spec_of(tmp_path / "data", 0, noise))])
        worker, stop = app.worker([PIPELINE], worker_id="w", slots=1), asyncio.Event()
        running = [
            asyncio.create_task(worker.run()),
            asyncio.create_task(run_loops(app.job_loops(), stop)),
        ]
        try:
            event = await released(app, job_id)
            assert "the worker's disk is full" in (event.reason or "")
            assert "found no space" in (event.reason or "")
            larger = ["mount", "-o", f"remount,size={LARGE}", str(small_disk)]
            await asyncio.to_thread(subprocess.run, larger, check=True)
            async with asyncio.timeout(WITHIN_S):
                while (await app.store.read.job(job_id)).finished_at is None:
                    await asyncio.sleep(LOOK_S)
            assert (await app.store.read.job(job_id)).status == "completed"
        finally:
            worker.hurry()
            stop.set()
            await asyncio.gather(*running)
    assert list((tmp_path / "streams").rglob("master.m3u8"))
