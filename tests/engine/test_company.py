"""Tasks that share a runner, and a runner whose worker stands still."""

import asyncio
from pathlib import Path

import pytest

from takeup.engine import runners
from takeup.pipelines.loading import load_one
from tests.engine.scene import PATIENCE_S, Scene

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

BRIEF = """
import time
from takeup import Pipeline
brief = Pipeline("brief", lease=1)

@brief.stage()
def work(ctx):
    time.sleep(2.5)
"""

PAIR = """
import asyncio
from takeup import Pipeline
pair = Pipeline("pair", lease=10)

@pair.stage()
async def work(ctx):
    seconds = 300 if ctx.parameters["for_ever"] else 3
    while seconds > 0:
        try:
            await asyncio.sleep(0.05)
            seconds -= 0.05
        except asyncio.CancelledError:
            pass
"""


async def test_what_a_task_does_to_its_parameters_no_other_sees(small_scene: Scene, tmp_path: Path):
    await small_scene.start_worker_on(tmp_path / "spoils.py", SPOILS, slots=20, processes=1)
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
    one = await small_scene.start_worker("w", slots=1)
    await small_scene.until(lambda: all(r.until is not None for r in one.runners.all.values()))
    before = set(one.runners.all)
    monkeypatch.setattr(one, "_reckon", lambda: None)  # nothing is heard of it any more
    await small_scene.until(lambda: before.isdisjoint(one.runners.all))
    monkeypatch.undo()
    assert (await small_scene.finished(await small_scene.act("nothing"))).status == "completed"


async def test_a_task_whose_worker_stood_still_is_handed_back_and_not_blamed(
    small_scene: Scene, monkeypatch: pytest.MonkeyPatch
):
    one = await small_scene.start_worker("w", slots=1)
    job_id = await small_scene.act("sleep", seconds=300)
    await small_scene.running(job_id)
    await small_scene.until(lambda: any(r.tasks for r in one.runners.all.values()))
    monkeypatch.setattr(one, "_reckon", lambda: None)
    (runner,) = one.runners.all.values()
    one.runners._limit(runner, one._clock())  # as if nothing had been extended for long
    async with asyncio.timeout(20):
        while "release" not in await small_scene.moves(job_id):
            await asyncio.sleep(0.02)
    (release,) = [event for event in await small_scene.events(job_id) if event.event == "release"]
    assert release.reason == "its worker stood still for too long"
    await small_scene.store.operator.cancel([job_id])


async def test_the_shortest_lease_is_kept_for_as_long_as_its_task_runs(small_scene: Scene, tmp_path: Path):
    await small_scene.start_worker_on(tmp_path / "brief.py", BRIEF, slots=1)
    job_id = await small_scene.submit("brief")
    assert (await small_scene.finished(job_id)).status == "completed"
    moves = await small_scene.moves(job_id)
    assert moves.count("claim") == 1, moves


async def test_who_ran_beside_a_task_that_would_not_stop_is_handed_back(small_scene: Scene, tmp_path: Path):
    await small_scene.start_worker_on(tmp_path / "pair.py", PAIR, slots=2, processes=1)
    stubborn = await small_scene.submit("pair", {"for_ever": True})
    other = await small_scene.submit("pair", {"for_ever": False})
    await small_scene.running(stubborn)
    await small_scene.running(other)
    await small_scene.store.operator.cancel([stubborn])
    assert (await small_scene.finished(other)).status == "completed"
    releases = [event.reason or "" for event in await small_scene.events(other) if event.event == "release"]
    assert releases
    assert all("its runner" in reason for reason in releases), "the worker did not stand still"


def test_a_time_that_has_passed_is_not_moved(monkeypatch: pytest.MonkeyPatch):
    orders: list[dict[str, object]] = []
    some = runners.Runners(
        runners.RunnerSetup((), Path(), Path()), 1, on_frame=print, on_end=print, on_line=print
    )
    monkeypatch.setattr(some, "_order", orders.append)
    runner = runners.Runner(1, 1)
    some.extend(runner, None, 100.0)
    assert runner.until == 100.0 + runners.SILENT_S
    some.extend(runner, 500.0, runner.until)
    assert runner.until == 100.0 + runners.SILENT_S, "its guardian kills it now: nobody may think it lives on"
    assert len(orders) == 1


HOSTS = """
import asyncio
from takeup import Pipeline
from takeup.core.policy import RetryPolicy
hosts = Pipeline("hosts", lease=30)

@hosts.stage(retries=RetryPolicy(max_attempts=50, initial_s=0.0))
async def work(ctx):
    {body}
"""


async def test_a_worker_on_a_broken_host_is_quarantined_and_the_others_do_its_work(
    small_scene: Scene, tmp_path: Path
):
    bodies = {"broken": "raise OSError('no device')", "well": "await asyncio.sleep(0.05)"}
    for name, body in bodies.items():
        (tmp_path / name).mkdir()
        file = tmp_path / name / "hosts.py"
        file.write_text(HOSTS.format(body=body))
        small_scene.pipelines["hosts"] = load_one(str(file))
        await small_scene.start_worker(name, sources=(str(file),), slots=2)
    jobs = [await small_scene.submit("hosts") for _ in range(20)]
    for job_id in jobs:
        assert (await small_scene.finished(job_id)).status == "completed"
    async with asyncio.timeout(PATIENCE_S):
        while (broken := await small_scene.store.read.worker("broken")).quarantined_at is None:
            await asyncio.sleep(0.02)
    assert "that other workers finished, and finished 0 like them" in (broken.quarantine_reason or "")
    assert (await small_scene.store.read.worker("well")).quarantined_at is None
    await small_scene.start_worker("broken", sources=(str(tmp_path / "well" / "hosts.py"),), slots=2)
    again = [await small_scene.submit("hosts") for _ in range(4)]
    for job_id in again:
        await small_scene.finished(job_id)
        assert {one.owner for one in await small_scene.store.read.attempts(job_id)} == {"well"}
