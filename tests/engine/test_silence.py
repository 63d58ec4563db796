"""A source that was silent for longer than a lease: what it grants then is worked on at once."""

import asyncio
from pathlib import Path
from typing import Any

from takeup.core.errors import StoreUnavailable
from takeup.engine.options import worker_options
from takeup.engine.worker import Worker
from takeup.pipelines.loading import load_one
from tests.engine.scene import Scene

LEASE_S = 1.5
FLOW = f"""
from takeup import Pipeline

brief = Pipeline("brief", lease={LEASE_S})

@brief.stage()
def only(ctx):
    return {{"attempt": ctx.attempt}}
"""


class Silent:
    """The worker facade of a store that hears no claim until it is told to."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.hears = asyncio.Event()
        self.asked = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    async def claim(self, request: Any, **options: Any) -> Any:
        self.asked.set()
        if not self.hears.is_set():
            raise StoreUnavailable("nobody hears")
        return await self._source.claim(request, **options)


async def test_what_is_granted_after_a_long_silence_is_not_left_to_expire(small_scene: Scene, tmp_path: Path):
    scene, file = small_scene, tmp_path / "brief.py"
    file.write_text(FLOW)
    scene.pipelines["brief"] = load_one(str(file))
    source = Silent(scene.store.worker)
    worker = Worker(source, worker_options(scene.app.settings, [str(file)], "w", slots=1), scene.app.bell)
    scene.workers.append((worker, asyncio.create_task(worker.run())))
    job_id = await scene.submit("brief")
    await source.asked.wait()
    asked_at = asyncio.get_running_loop().time()
    await scene.until(lambda: asyncio.get_running_loop().time() > asked_at + LEASE_S)
    source.hears.set()
    job = await scene.finished(job_id)
    assert (job.status, await scene.moves(job_id)) == ("completed", ["create", "claim", "renew", "complete"])
