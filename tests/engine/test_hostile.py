"""Stages, disks, files and databases that misbehave in ways that a worker must take calmly."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from takeup.core.errors import StoreUnavailable
from takeup.core.plan import NewJob
from takeup.dispatch.bell import Bell
from takeup.engine import carrier, claimer
from takeup.engine.orchestrator import Orchestrator
from takeup.store.ops.orchestrate import Advance
from tests.engine.conftest import MARK, wearing
from tests.engine.scene import ACTS, Scene

CHAIN = """
from takeup import Pipeline, RetryPolicy
chain = Pipeline("chain", lease=30)

@chain.stage()
def make(ctx):
    ctx.output("made.txt").write_text("made")

@chain.stage(needs=[make], retries=RetryPolicy(max_attempts=1))
def use(ctx):
    return {"text": ctx.inputs["make"].path("made.txt").read_text()}
"""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("never_again", "retry after inf"),
        ("talk_nonsense", "makes no sense"),
        ("bad_percent", "makes no sense"),
        ("leave_by_the_window", "sys.exit(3)"),
    ],
)
async def test_a_stage_that_misbehaves_fails_and_the_worker_goes_on(small_scene: Scene, name: str, says: str):
    await small_scene.start_worker("w", slots=1)
    job = await small_scene.finished(await small_scene.act(name))
    assert job.status == "failed"
    assert says in (job.error or "")
    assert (await small_scene.finished(await small_scene.act("nothing"))).status == "completed"


async def test_a_runner_cannot_speak_for_the_task_of_another(small_scene: Scene):
    worker = await small_scene.start_worker("w", slots=2)
    victim = await small_scene.act("sleep", seconds=2)
    await small_scene.running(victim)
    (task,) = await small_scene.store.read.tasks(victim)
    forger = await small_scene.act("forge_an_end", victim=task.id, seconds=1)
    await small_scene.finished(forger)
    assert (await small_scene.store.read.task(task.id)).status == "RUNNING"
    assert (await small_scene.finished(victim)).status == "completed"
    await small_scene.until(lambda: worker.runners.free == 2)


async def test_neither_errors_nor_notes_hold_secrets(small_scene: Scene):
    await small_scene.start_worker("w")
    job_id = await small_scene.act("tell_a_secret")
    assert "password=[hidden]" in ((await small_scene.finished(job_id)).error or "")
    stored = repr((await small_scene.store.read.tasks(job_id), await small_scene.events(job_id)))
    assert "hunter2" not in stored


async def test_a_line_that_cannot_be_stored_blocks_no_other(small_scene: Scene):
    worker = await small_scene.start_worker("w")
    job_id = await small_scene.act("log_what_cannot_be_stored")
    assert (await small_scene.finished(job_id)).status == "completed"
    worker.hurry()
    await small_scene.workers[0][1]
    assert "a good line" in [line.message for line in await small_scene.store.read.logs(job_id)]


async def test_many_jobs_pass_while_one_stays(small_scene: Scene, monkeypatch: pytest.MonkeyPatch):
    """The spec of a job that stays is still known when it is needed again."""
    monkeypatch.setattr(claimer, "BRIEFS_MAX", 3)
    await small_scene.start_worker("w", slots=4, processes=1)
    stays = await small_scene.submit("fan", {"segments": 40})
    others = [await small_scene.submit("act", {"act": "nothing", "n": n}) for n in range(30)]
    for job_id in (stays, *others):
        assert (await small_scene.finished(job_id)).status == "completed"


async def test_inputs_are_published_by_whoever_needs_them(small_scene: Scene, tmp_path: Path):
    """The worker that made them was killed between the answer and the rename, as far as anybody can tell."""
    worker = await small_scene.start_worker_on(tmp_path / "chain.py", CHAIN)
    worker._endings._carrier.keep = lambda _ending: None
    job_id = await small_scene.submit("chain")
    assert (await small_scene.finished(job_id)).status == "completed"
    tasks = {task.stage: task for task in await small_scene.store.read.tasks(job_id)}
    assert tasks["use"].result == {"text": "made"}
    assert tasks["use"].attempt == 1


async def test_who_cannot_get_an_input_is_not_to_blame(
    small_scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(carrier, "INPUT_WAIT_S", 0.1)
    worker = await small_scene.start_worker_on(tmp_path / "chain.py", CHAIN)
    artifacts = worker._artifacts
    worker._endings._carrier.keep = lambda ending: artifacts.drop(ending.holding.folder)
    job_id = await small_scene.submit("chain")
    assert (await small_scene.finished(job_id)).status == "failed"
    (ended,) = [event for event in await small_scene.events(job_id) if event.event == "give_up"]
    why = "the files of an input are not in the storage of this worker"
    assert ended.reason == f"it asked to be tried again: {why} (chain.py:11)"


async def test_a_file_that_breaks_later_costs_only_new_runners(small_scene: Scene, tmp_path: Path):
    path = tmp_path / "flow.py"
    shutil.copy(ACTS, path)
    worker = await small_scene.start_worker("w", sources=(str(path),), slots=1)
    good = path.read_text()
    path.write_text("this is no Python")
    job_id = await small_scene.act("die_once")
    await small_scene.until(lambda: worker.runners.broken is not None)
    path.write_text(good)
    assert (await small_scene.finished(job_id)).status == "completed"


async def test_a_scratch_folder_that_was_removed_is_made_again(small_scene: Scene):
    await small_scene.start_worker("w")
    shutil.rmtree(small_scene.app.settings.scratch)
    assert (await small_scene.finished(await small_scene.act("fill_scratch", bytes=3))).status == "completed"


async def test_a_worker_that_the_database_forgot_registers_again(small_scene: Scene):
    await small_scene.start_worker("w")
    await small_scene.store.driver.run(_forget_workers)
    job_id = await small_scene.act("nothing")
    assert (await small_scene.finished(job_id)).status == "completed"


def _forget_workers():
    from takeup.store.op import Script  # noqa: PLC0415 - as a restore of an old backup would

    yield Script("DELETE FROM worker_lanes")
    yield Script("DROP TRIGGER IF EXISTS workers_guard_delete")
    yield Script("DELETE FROM workers")


async def test_told_to_hurry_it_ends_in_time_though_the_database_is_gone(small_scene: Scene):
    worker = await small_scene.start_worker("w")
    job_id = await small_scene.act("sleep", seconds=60)
    await small_scene.running(job_id)

    async def gone(*_args: object, **_options: object) -> None:
        raise StoreUnavailable("gone")

    for name in ("release", "renew", "leave", "glance", "heartbeat", "add_logs"):
        setattr(worker._source, name, gone)
    begun = time.monotonic()
    worker.hurry()
    await small_scene.workers[0][1]
    assert time.monotonic() - begun < 10
    assert wearing(os.environ[MARK]) == []


async def test_the_sweep_comes_by_however_many_hints_there_are():
    class Jobs:
        looked: list[list[str]] = []  # noqa: RUF012 - one test

        async def live_jobs(self, **_window: object) -> list[str]:
            return ["named", "forgotten"]

        async def advance(self, jobs: list[str]) -> Advance:
            self.looked.append(jobs)
            return Advance(ready=1)

    now, bell, jobs = [0.0], Bell(), Jobs()
    orchestrator = Orchestrator(jobs, bell, period_s=1.0, clock=lambda: now[0])
    for _ in range(20):
        now[0] += 0.25
        bell.ring("jobs", ["named"])
        await orchestrator.run_once()
    assert sum("forgotten" in looked for looked in jobs.looked) >= 4


def test_a_full_disk_for_logs_ends_nothing(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "takeup.cli.main",
        "run",
        ACTS + ":act",
        "--spec",
        "spec.json",
        "--log-level",
        "debug",
    ]
    (tmp_path / "spec.json").write_text('{"act": "nothing"}')
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            command, cwd=tmp_path, stderr=full, stdout=subprocess.PIPE, timeout=60, check=False
        )
    assert ran.returncode == 0
    assert b"completed" in ran.stdout


async def test_a_name_used_twice_runs_nothing_twice_at_once(small_scene: Scene):
    """The second process cuts the leases of the first; what the first ran is killed, not left running."""
    await small_scene.start_worker("same", slots=1)
    job_id = await small_scene.act("run_a_tree")
    mark = os.environ[MARK]
    await small_scene.until(lambda: sum("sleep" in line for line in wearing(mark)) >= 3)
    await small_scene.start_worker("same", slots=2)
    async with asyncio.timeout(20):
        while (await small_scene.moves(job_id)).count("claim") < 2:
            await asyncio.sleep(0.02)
    await asyncio.sleep(2.5)
    trees = sum(b"sleep 300 & sleep 300" in line.encode() for line in wearing(mark))
    assert trees <= 1
    await small_scene.store.operator.cancel([job_id])
    await small_scene.store.operator.submit([NewJob(small_scene.pipelines["act"], {"act": "nothing"})])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("stop_iterating", "StopIteration"),
        ("be_rude", "Rude: not even an exception"),
        ("be_mute", "its text cannot be made"),
        ("leave_a_generator", "GeneratorExit"),
        ("fail_together", "(2 sub-exceptions) (acts.py:"),
        ("fail_together", "first of all KeyError: 'inner'"),
    ],
)
async def test_whatever_a_stage_raises_ends_its_attempt(small_scene: Scene, name: str, words: str):
    await small_scene.start_worker("w", slots=1)
    job = await small_scene.finished(await small_scene.act(name))
    assert job.status == "failed"
    assert words in (job.error or "")


async def test_a_log_field_that_is_no_number_is_told_in_words(small_scene: Scene):
    await small_scene.start_worker("w", slots=1)
    assert (await small_scene.finished(await small_scene.act("log_no_number"))).status == "completed"


UNHASHABLE = """
from dataclasses import dataclass
from takeup import Pipeline
odd = Pipeline("odd")

@dataclass
class Work:
    number: int

    def __call__(self, ctx):
        return {"number": self.number}

odd.stage(name="work")(Work(3))
"""


async def test_a_stage_may_be_any_callable(small_scene: Scene, tmp_path: Path):
    await small_scene.start_worker_on(tmp_path / "odd.py", UNHASHABLE, slots=1)
    job_id = await small_scene.submit("odd")
    assert (await small_scene.finished(job_id)).status == "completed"


async def test_a_database_that_is_away_costs_no_attempt_of_a_reader(small_scene: Scene, tmp_path: Path):
    worker = await small_scene.start_worker_on(tmp_path / "chain.py", CHAIN)
    read, failures = worker._source.inputs, iter([StoreUnavailable("away")] * 3)

    async def inputs(*args: Any, **options: Any) -> Any:
        for error in failures:
            raise error
        return await read(*args, **options)

    worker._source.inputs = inputs
    job_id = await small_scene.submit("chain")
    assert (await small_scene.finished(job_id)).status == "completed"
    assert {task.attempt for task in await small_scene.store.read.tasks(job_id)} == {1}
    assert next(failures, None) is None


async def test_a_frozen_guardian_does_not_keep_its_worker(small_scene: Scene):
    worker = await small_scene.start_worker("w", slots=1)
    guardian = worker.runners._guardian
    assert guardian is not None
    os.kill(guardian.pid, signal.SIGSTOP)
    worker.hurry()
    await asyncio.wait_for(small_scene.workers[0][1], 15)
    assert guardian.poll() is not None
