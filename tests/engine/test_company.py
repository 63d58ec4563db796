"""Tasks that share a runner, and a runner whose worker stands still."""

import asyncio
from pathlib import Path

import pytest

from takeup.engine import runners, worker
from takeup.pipelines.loading import load_one
from tests.engine.scene import Scene

SPOILS = """
from takeup import Pipeline
spoils = Pipeline("spoils", lease=30)

@spoils.stage()
def split(ctx):
    return {"segments": 20}

@spoils.stage(needs=[split], each="segment")
async def spoil(ctx):
    ctx.parameters["names"].append(ctx.segment)
    ctx.spec["names"].append("spoiled")
    return {"names": ctx.parameters["names"], "split": ctx.inputs["split"].result["segments"]}
"""


async def test_what_a_task_does_to_its_parameters_no_other_sees(small_scene: Scene, tmp_path: Path):
    path = tmp_path / "spoils.py"
    path.write_text(SPOILS)
    await small_scene.start_worker("w", sources=(str(path),), slots=20, processes=1)
    small_scene.pipelines["spoils"] = load_one(str(path))
    job_id = await small_scene.submit("spoils", {"names": []})
    assert (await small_scene.finished(job_id)).status == "completed"
    tasks = [task for task in await small_scene.store.read.tasks(job_id) if task.stage == "spoil"]
    for task in tasks:
        assert task.result is not None
        assert task.result["names"] == [task.segment, "spoiled"]
        assert task.result["split"] == 20, "asked for while orders came in"


async def test_an_idle_runner_goes_with_a_silent_worker_and_is_replaced(
    small_scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runners, "SILENT_S", 0.4)
    (one,) = [await small_scene.start_worker("w", slots=1)]
    await small_scene.until(lambda: all(r.until is not None for r in one.runners.all.values()))
    before = set(one.runners.all)
    monkeypatch.setattr(one, "_reckon", lambda: None)  # nothing is heard of it any more
    await small_scene.until(lambda: before.isdisjoint(one.runners.all))
    monkeypatch.undo()
    assert (await small_scene.finished(await small_scene.act("nothing"))).status == "completed"


async def test_a_task_whose_worker_stood_still_is_handed_back_and_not_blamed(
    small_scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runners, "SILENT_S", 0.5)
    monkeypatch.setattr(worker, "WATCH_TICK_S", 0.1)
    one = await small_scene.start_worker("w", slots=1)
    await small_scene.until(lambda: all(r.until is not None for r in one.runners.all.values()))
    monkeypatch.setattr(one, "_reckon", lambda: None)
    job_id = await small_scene.act("sleep", seconds=0.9)
    async with asyncio.timeout(20):
        while "release" not in await small_scene.moves(job_id):
            await asyncio.sleep(0.02)
    monkeypatch.undo()
    assert (await small_scene.finished(job_id)).status == "completed"
    (task,) = await small_scene.store.read.tasks(job_id)
    assert task.attempt == 1, "the attempt was given back"
