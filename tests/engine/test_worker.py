"""What a worker does with stages that block, hang, crash, return junk or are cancelled."""

import asyncio
import contextlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from takeup.core.model import Lease
from takeup.store.ops.claim import ClaimRequest
from tests.engine.conftest import MARK, wearing
from tests.engine.scene import Scene, scene_on


async def test_a_stage_that_blocks_for_three_leases_is_never_taken_over(scene: Scene):
    await scene.start_worker("w", slots=2)
    await scene.start_worker("other", slots=1)
    holds = await scene.submit("holds", {"seconds": 9})
    blocks = await scene.submit("waits", {"seconds": 9})
    for job_id in (holds, blocks):
        assert (await scene.finished(job_id)).status == "completed"
        moves = await scene.moves(job_id)
        assert moves.count("claim") == 1, moves
        assert moves.count("renew") >= 6, moves
        assert "expire" not in moves


async def test_a_cancelled_task_takes_its_whole_process_tree_with_it(scene: Scene):
    await scene.start_worker("w")
    job_id = await scene.act("run_a_tree")
    mark = os.environ[MARK]
    await scene.until(lambda: sum("sleep" in line for line in wearing(mark)) >= 3)
    await scene.store.operator.cancel([job_id])
    ordered = time.monotonic()
    await scene.until(lambda: not any("sleep" in line for line in wearing(mark)), 10)
    assert time.monotonic() - ordered < 5, "the order was not obeyed within seconds"
    assert (await scene.finished(job_id)).status == "cancelled"
    next_id = await scene.act("nothing")
    assert (await scene.finished(next_id)).status == "completed"


async def test_a_stage_may_notice_that_it_is_cancelled(small_scene: Scene, tmp_path: Path):
    await small_scene.start_worker("w")
    told = tmp_path / "told"
    job_id = await small_scene.act("watch_for_cancel", told=str(told))
    await small_scene.running(job_id)
    await asyncio.sleep(0.2)
    await small_scene.store.operator.cancel([job_id])
    await small_scene.until(told.exists, 5)


@pytest.mark.parametrize("name", ["leave_a_child", "leave_a_daemon"])
async def test_nothing_that_a_stage_left_behind_outlives_its_worker(small_scene: Scene, name: str):
    await small_scene.start_worker("w")
    assert (await small_scene.finished(await small_scene.act(name))).status == "completed"
    if name == "leave_a_child":
        await small_scene.until(lambda: not any("sleep" in line for line in wearing(os.environ[MARK])))
    assert (await small_scene.finished(await small_scene.act("nothing"))).status == "completed"


LONG_LEASE = """
import time
from pathlib import Path

from takeup import Pipeline

patient = Pipeline("patient", lease="10m")


@patient.stage()
def work(ctx):
    ctx.progress(50, "half")
    while not Path(ctx.spec["go"]).exists():
        time.sleep(0.05)
"""


async def test_progress_is_seen_long_before_its_lease_is_renewed(small_scene: Scene, tmp_path: Path):
    await small_scene.start_worker_on(tmp_path / "patient.py", LONG_LEASE)
    go = tmp_path / "go"
    job_id = await small_scene.submit("patient", {"go": str(go)})
    async with asyncio.timeout(20):
        while (await small_scene.store.read.progress(job_id)).stages[0].percent_sum < 50:
            await asyncio.sleep(0.05)
    go.touch()
    assert (await small_scene.finished(job_id)).status == "completed"


async def test_a_stalled_stage_and_an_endless_one_are_stopped(small_scene: Scene):
    await small_scene.start_worker("w", slots=2)
    stalled = await small_scene.submit("idle")
    endless = await small_scene.submit("endless")
    assert "no progress" in ((await small_scene.finished(stalled)).error or "")
    assert "longer than its limit of 0.5 s" in ((await small_scene.finished(endless)).error or "")


async def test_a_stage_that_kills_its_process_fails_after_its_attempts(scene: Scene):
    await scene.start_worker("w")
    job_id = await scene.act("die")
    job = await scene.finished(job_id)
    assert job.status == "failed"
    attempts = await scene.store.read.attempts(job_id)
    assert [(a.attempt, a.outcome) for a in attempts] == [(1, "fail"), (2, "fail"), (3, "give_up")]
    assert all("killed by signal 9" in (a.error or "") for a in attempts)


async def test_a_crash_is_retried(small_scene: Scene):
    await small_scene.start_worker("w")
    job_id = await small_scene.act("die_once")
    assert (await small_scene.finished(job_id)).status == "completed"
    (task,) = await small_scene.store.read.tasks(job_id)
    assert dict(task.result or {}) == {"attempt": 2}


async def test_scratch_is_gone_when_the_task_is(tmp_path: Path, no_orphans):
    async with scene_on(f"sqlite:///{tmp_path}/takeup.db", tmp_path, sweep_interval=3600) as scene:
        await scene.start_worker("w")
        job_id = await scene.act("fill_scratch", bytes=10)
        assert (await scene.finished(job_id)).status == "completed"
        await scene.until(lambda: not list(scene.app.settings.scratch.iterdir()))


async def test_outputs_that_an_attempt_made_before_it_died_are_used(small_scene: Scene, tmp_path: Path):
    """The runner dies right after sealing; the next attempt finds the outputs whole and runs nothing."""
    count = tmp_path / "count"
    spec = {"act": "seal_and_die_once", "count": str(count), "die_at": "stage.after seal"}
    await small_scene.start_worker("w")
    job_id = await small_scene.submit("act", spec)
    assert (await small_scene.finished(job_id)).status == "completed"
    assert (await small_scene.moves(job_id)).count("claim") == 2
    assert count.read_text() == "run\n"
    (artifact,) = await small_scene.store.read.artifacts(job_id)
    path = small_scene.app.settings.storage / artifact.key
    await small_scene.until(path.exists)
    assert path.read_text() == "made once"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("junk", "returned int"),
        ("no_json", "not JSON"),
        ("fatal", "the source is corrupt"),
        ("bad_output", "outside"),
    ],
)
async def test_what_cannot_get_better_is_not_tried_again(small_scene: Scene, name: str, says: str):
    await small_scene.start_worker("w")
    job_id = await small_scene.act(name)
    job = await small_scene.finished(job_id)
    assert job.status == "failed"
    assert says in (job.error or "")
    assert (await small_scene.moves(job_id)).count("claim") == 1


async def test_an_exception_is_a_failed_attempt_and_says_where(small_scene: Scene):
    await small_scene.start_worker("w")
    job_id = await small_scene.act("fail")
    error = (await small_scene.finished(job_id)).error or ""
    assert "ValueError: boom (acts.py:" in error
    assert (await small_scene.moves(job_id)).count("claim") == 3


async def test_a_stage_says_when_to_try_again(small_scene: Scene):
    await small_scene.start_worker("w")
    job_id = await small_scene.act("again_later")
    assert (await small_scene.finished(job_id)).status == "completed"
    failed, claimed = [
        event
        for event in await small_scene.events(job_id)
        if event.event in ("fail", "claim") and event.logged_at
    ][1:3]
    assert (claimed.logged_at - failed.logged_at).total_seconds() >= 0.2
    assert failed.excuse == "asked_again"


async def test_a_stage_that_only_says_so_has_no_excuse(small_scene: Scene):
    await small_scene.start_worker("w")
    job_id = await small_scene.act("feign")
    await small_scene.finished(job_id)
    (failed, *_) = [event for event in await small_scene.events(job_id) if event.event == "fail"]
    assert "it asked to be tried again: no device" in (failed.reason or "")
    assert failed.excuse is None


async def test_logs_steps_and_prints_are_kept_without_their_secrets(small_scene: Scene):
    worker = await small_scene.start_worker("w")
    job_id = await small_scene.submit("act", {"act": "echo"}, subject="s")
    assert (await small_scene.finished(job_id)).status == "completed"
    worker.hurry()
    await small_scene.workers[0][1]
    steps = await small_scene.store.read.steps(job_id)
    assert [(s.exit_code, s.success, s.stdout, s.stderr) for s in steps] == [
        (0, True, "out\n", "err\n"),
        (7, False, "", ""),
    ]
    lines = await small_scene.store.read.logs(job_id)
    assert {"a logged line", "a printed line with password=[hidden]"} <= {line.message for line in lines}
    assert "hunter2" not in repr((steps, lines))
    (task,) = await small_scene.store.read.tasks(job_id)
    assert task.result == {"spec": {"act": "echo"}, "subject": "s"}


async def test_a_full_scratch_disk_costs_the_job_no_attempt(small_scene: Scene, tmp_path: Path):
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root")
    scratch = tmp_path / "data" / "scratch"
    scratch.mkdir(parents=True)
    mount = await asyncio.create_subprocess_exec(
        "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(scratch)
    )
    assert await mount.wait() == 0
    try:
        await small_scene.start_worker("w")
        job_id = await small_scene.act("fill_scratch", bytes=2_000_000)
        async with asyncio.timeout(10):
            while "release" not in await small_scene.moves(job_id):
                await asyncio.sleep(0.02)
        (released,) = [e for e in await small_scene.events(job_id) if e.event == "release"]
        assert "disk is full" in (released.reason or "")
        assert released.attempt == 0
        await small_scene.until(lambda: len(small_scene.workers[0][0].hand) == 0)
        await small_scene.store.operator.cancel([job_id])
        await small_scene.end()
    finally:
        with contextlib.suppress(ProcessLookupError):
            umount = await asyncio.create_subprocess_exec("umount", "-l", str(scratch))
            await umount.wait()


async def test_told_to_stop_it_lets_tasks_finish(small_scene: Scene):
    worker = await small_scene.start_worker("w")
    job_id = await small_scene.act("sleep", seconds=1)
    await small_scene.running(job_id)
    worker.stop()
    await small_scene.workers[0][1]
    moves = await small_scene.moves(job_id)
    assert [move for move in moves if move != "renew"] == ["create", "claim", "complete"]
    assert (await small_scene.store.read.worker("w")).status == "offline"


async def test_told_to_hurry_it_hands_tasks_back_with_their_attempt(small_scene: Scene):
    worker = await small_scene.start_worker("w")
    job_id = await small_scene.act("sleep", seconds=30)
    await small_scene.running(job_id)
    begun = time.monotonic()
    worker.hurry()
    await small_scene.workers[0][1]
    assert time.monotonic() - begun < 10
    (task,) = await small_scene.store.read.tasks(job_id)
    assert (task.status, task.attempt) == ("READY", 0)


async def test_a_drained_worker_finishes_and_ends(small_scene: Scene):
    await small_scene.start_worker("w")
    job_id = await small_scene.act("sleep", seconds=1)
    await small_scene.running(job_id)
    await small_scene.store.operator.drain(["w"])
    await asyncio.wait_for(small_scene.workers[0][1], 15)
    assert (await small_scene.finished(job_id)).status == "completed"


async def test_without_its_guardian_a_worker_starts_again(small_scene: Scene):
    worker = await small_scene.start_worker("w")
    job_id = await small_scene.act("sleep", seconds=3)
    await small_scene.running(job_id)
    assert worker.runners._guardian is not None
    worker.runners._guardian.kill()
    assert (await small_scene.finished(job_id)).status == "completed"
    assert (await small_scene.moves(job_id)).count("claim") == 2


async def test_a_fan_out_joins_exactly_once(scene: Scene):
    await scene.start_worker("w", slots=100, processes=1)
    job_id = await scene.submit("fan", {"segments": 300})
    assert (await scene.finished(job_id)).status == "completed"
    counts = await scene.store.read.task_counts(job_id)
    assert counts == {("split", "DONE"): 1, ("noop", "DONE"): 300, ("join", "DONE"): 1}
    assert (await scene.moves(job_id)).count("complete") == 302


async def test_ten_thousand_segments_are_done_exactly_once(scene: Scene):
    await scene.start_worker("w", slots=400, processes=1)
    job_id = await scene.submit("fan", {"segments": 10_000})
    assert (await scene.finished(job_id, patience_s=120)).status == "completed"
    counts = await scene.store.read.task_counts(job_id)
    assert counts == {("split", "DONE"): 1, ("noop", "DONE"): 10_000, ("join", "DONE"): 1}
    joined = [task for task in await scene.store.read.tasks(job_id, limit=3) if task.stage == "join"]
    assert joined[0].result == {"count": 10_000}
    events = [(e.task_id, e.event) for e in await scene.events(job_id) if e.noun == "task"]
    assert sum(event == "claim" for _, event in events) == 10_002
    completed = [task_id for task_id, event in events if event == "complete"]
    assert len(completed) == len(set(completed)) == 10_002


async def test_work_goes_to_a_worker_that_can_do_it(small_scene: Scene):
    await small_scene.start_worker("plain")
    job_id = await small_scene.submit("gpu")
    await asyncio.sleep(0.5)
    assert (await small_scene.store.read.job(job_id)).status == "pending"
    await small_scene.start_worker("strong", capabilities=["gpu"])
    assert (await small_scene.finished(job_id)).status == "completed"


async def test_urgent_jobs_pass_the_others(small_scene: Scene):
    calm = [await small_scene.submit("act", {"act": "nothing", "n": n}, priority=0) for n in range(3)]
    urgent = await small_scene.submit("act", {"act": "nothing"}, priority=10)
    await small_scene.start_worker("w")
    jobs = [await small_scene.finished(job_id) for job_id in (*calm, urgent)]
    assert min(jobs, key=lambda job: job.started_at).id == urgent


async def test_a_worker_lets_its_claims_go_on_where_the_last_one_ended(small_scene: Scene, monkeypatch):
    asked = []
    claim = small_scene.store.worker.claim

    async def record(request: ClaimRequest, **options: Any) -> list[Lease]:
        asked.append(request)
        return await claim(request, **options)

    monkeypatch.setattr(small_scene.store.worker, "claim", record)
    await small_scene.start_worker("w", slots=1)
    assert (await small_scene.finished(await small_scene.act("nothing"))).status == "completed"
    assert all(request.may_skim for request in asked)
