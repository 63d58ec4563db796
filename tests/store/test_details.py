"""What people ask about one job, on every database: by a short id, how far, why not, what failed."""

import os
from datetime import timedelta

import pytest

from takeup.core.errors import InvalidInput, NotFound
from takeup.core.model import Completion, Failure, LogLine, Progress, WorkerSpec
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.plan import NewJob
from takeup.core.progress import Forecast
from takeup.core.why import why
from takeup.store.store import Store
from tests.store.scenes import FAN, ONE, Clock, claim_request, quarantine, run_one

GPU = Pipeline.of("gpu", [Stage("render", requires=frozenset({"gpu"}), lease_s=60.0)])


@pytest.fixture
def store(every_store: Store) -> Store:
    return every_store


async def told(store: Store, job_id: str) -> str:
    return "; ".join(why(await store.read.why(job_id)))


async def test_a_job_is_found_by_the_beginning_of_its_id(store: Store):
    job_id, *_ = await store.operator.submit([NewJob(ONE) for _ in range(3)])
    assert await store.read.find_job(job_id) == job_id
    assert await store.read.find_job(job_id[:16]) == job_id
    assert await store.read.find_job(job_id.removeprefix("job_")[:12]) == job_id
    with pytest.raises(InvalidInput, match="too short"):
        await store.read.find_job("job_12345")
    for text in ("job_zzzzzzzz", "job_'; DROP TABLE jobs", "job_ünïcödé", "job_%%%%%%"):
        with pytest.raises(NotFound):
            await store.read.find_job(text)


async def test_an_ambiguous_beginning_is_refused(store: Store):
    alike = Store(store.driver, random=lambda count: b"\xab\xcd\xef" + os.urandom(count - 3))
    first, second = sorted(await alike.operator.submit([NewJob(ONE), NewJob(ONE)]))
    with pytest.raises(InvalidInput, match=f"several jobs begin with 'abcdef': {first}, {second}"):
        await store.read.find_job("abcdef")
    assert await store.read.find_job(second) == second


async def test_why_names_the_worker_that_is_missing(store: Store, clock: Clock):
    (job_id,) = await store.operator.submit([NewJob(GPU)])
    text = await told(store, job_id)
    assert "no worker is online that serves gpu/render: none was ever registered" in text
    await store.worker.register(WorkerSpec("plain", slots=2))
    await store.worker.register(WorkerSpec("other", stages=("demo/*",)))
    assert await told(store, job_id) == "render is ready, but no worker with gpu: 1 online without it"
    await store.worker.register(WorkerSpec("strong", slots=1, capabilities=frozenset({"gpu"})))
    clock.pass_s(5)
    assert "about to be claimed: strong has a free slot (ready since 5 s)" in await told(store, job_id)
    (lease,) = await store.worker.claim(claim_request("strong"))
    await store.worker.renew("strong", [Progress(lease.held, 40.0, "half")])
    clock.pass_s(12)
    text = await told(store, job_id)
    assert text == "render runs on worker strong since 12 s, 40 %, lease until 2030-01-01 00:01:05 UTC"
    (next_id,) = await store.operator.submit([NewJob(GPU)])
    assert "all 1 slots of the 1 worker that serve it are busy" in await told(store, next_id)
    await store.operator.disable(["strong"])
    await store.operator.drain(["plain"])
    assert "no worker is online that serves gpu/render" in await told(store, next_id)
    clock.pass_s(60)
    assert "lease is over since" in await told(store, job_id)


async def test_why_names_who_is_quarantined_and_how_he_is_let_back(store: Store):
    await quarantine(store)
    await run_one(store, "well")
    (job_id,) = await store.operator.submit([NewJob(ONE)])
    assert await told(store, job_id) == (
        "work is ready, but all 1 slots of the 1 worker that serve it are busy; "
        "broken is quarantined (`takeup workers enable ID` lets a worker back)"
    )
    await store.worker.leave(["well"])
    text = await told(store, job_id)
    assert "no worker is online that serves one/work: 1 quarantined, 1 offline; broken is quarantined" in text
    await store.operator.enable(["broken"])
    assert "about to be claimed: broken" in await told(store, job_id)


async def test_why_tells_of_pauses_delays_and_prerequisites(store: Store, clock: Clock):
    await store.worker.register(WorkerSpec("w1", slots=5))
    (fan,) = await store.operator.submit([NewJob(FAN)])
    (later,) = await store.operator.submit([NewJob(ONE, not_before=clock.now() + timedelta(hours=1))])
    assert await told(store, later) == "stage work: not before 2030-01-01 01:00:00 UTC"
    (cut,) = await store.worker.claim(claim_request("w1"))
    text = await told(store, fan)
    assert "stage encode waits for cut (RUNNING, 0 %)" in text
    assert "stage join waits for encode (NEW)" in text
    await store.worker.complete("w1", [Completion(cut.held, {"segments": 4})])
    assert "stage encode can start" in await told(store, fan)
    await store.orchestrator.advance([fan])
    (lease, _) = await store.worker.claim(claim_request("w1", 2))
    await store.worker.complete("w1", [Completion(lease.held)])
    assert "stage join waits for encode (RUNNING, 25 %)" in await told(store, fan)
    await store.operator.set_control([fan], "PAUSED", reason="too loud")
    clock.pass_s(180)
    assert "paused by an operator 3 min ago (too loud)" in await told(store, fan)
    (born,) = await store.operator.submit([NewJob(ONE, control="PAUSED")])
    assert "paused since it was submitted" in await told(store, born)
    await store.operator.set_control([fan], "READY")
    waiting = await store.read.tasks_in(fan, "READY")
    await store.operator.set_task_control([waiting[0].id], "PAUSED")
    assert "encode is paused by an operator" in await told(store, fan)
    await store.operator.cancel([fan], reason="not needed")
    assert await told(store, fan) == "finished 0 s ago: cancelled (not needed)"


async def test_why_tells_of_retries_and_failures(store: Store, clock: Clock):
    await store.worker.register(WorkerSpec("w1"))
    job_id, lease = await run_one(store)
    await store.worker.fail("w1", [Failure(lease.held, "Traceback\nTimeoutError: too slow", after_s=34)])
    assert await told(store, job_id) == "work: retry in 34 s after attempt 1 of 3: TimeoutError: too slow"
    clock.pass_s(100)
    assert "retry is due (since 66 s)" in await told(store, job_id)
    await store.recovery.wake()
    (lease,) = await store.worker.claim(claim_request("w1"))
    await store.worker.fail("w1", [Failure(lease.held, "Fatal: no such file", retryable=False)])
    clock.pass_s(7)
    ended = "finished 7 s ago: failed because work failed in attempt 2 of 3: Fatal: no such file"
    assert await told(store, job_id) == ended
    (task,) = await store.read.tasks_in(job_id, "FAILED")
    attempts = await store.read.attempts_of(job_id, [task.id])
    assert [(a.epoch, a.attempt, a.owner, a.outcome) for a in attempts] == [
        (1, 1, "w1", "fail"),
        (2, 2, "w1", "give_up"),
    ]
    with pytest.raises(NotFound):
        await store.read.why("job_nobody")


async def test_progress_counts_by_stage_and_foresees_the_end(store: Store, clock: Clock):
    await store.worker.register(WorkerSpec("w1", slots=5))
    (job_id,) = await store.operator.submit([NewJob(FAN)])
    forecast = Forecast()
    first = await store.read.progress(job_id)
    assert [(s.stage, s.done, s.total, s.is_expanded) for s in first.stages] == [
        ("cut", 0, 1, True),
        ("encode", 0, 0, False),
        ("join", 0, 1, True),
    ]
    assert (forecast.see(first), forecast.left_s(first)) == (0.0, None)
    (cut,) = await store.worker.claim(claim_request("w1"))
    await store.worker.complete("w1", [Completion(cut.held, {"segments": 10})])
    await store.orchestrator.advance([job_id])
    leases = await store.worker.claim(claim_request("w1", 5))
    clock.pass_s(10)
    await store.worker.complete("w1", [Completion(lease.held) for lease in leases[:4]])
    await store.worker.renew("w1", [Progress(leases[4].held, 50.0, "half")])
    seen = await store.read.progress(job_id)
    encode = seen.stages[1]
    assert (encode.done, encode.running, encode.total, encode.note) == (4, 1, 10, "half")
    assert (encode.percent_sum, encode.elapsed_s, encode.seconds, encode.squares) == (50, 10, 40, 400)
    assert encode.fraction == pytest.approx(0.45)
    assert forecast.see(seen) == pytest.approx(100 * (1 + 5 * 0.45) / 7)
    low, high = forecast.left_s(seen) or (0, 0)
    assert 5 < low < 55 < high < 90
    with pytest.raises(NotFound):
        await store.read.progress("job_nobody")


async def test_every_rung_is_counted_by_its_segments(store: Store):
    await store.worker.register(WorkerSpec("w1", slots=5))
    (job_id,) = await store.operator.submit([NewJob(FAN)])
    assert await store.read.qualities(job_id) == []
    (cut,) = await store.worker.claim(claim_request("w1"))
    rungs = {"encode": [["720p", "360p"], ["720p-av1"]]}
    await store.worker.complete("w1", [Completion(cut.held, {"segments": 4, "rungs": rungs})])
    await store.orchestrator.advance([job_id])

    async def seen() -> list[tuple[str, str, int, int, float]]:
        found = await store.read.qualities(job_id)
        return [(q.rung, q.status, q.segments, q.done, q.percent) for q in found]

    assert await seen() == [(name, "pending", 4, 0, 0.0) for name in ("720p", "360p", "720p-av1")]
    first, second, third = await store.worker.claim(claim_request("w1", 3))
    await store.worker.renew("w1", [Progress(first.held, 75.0, "frames")])
    assert await seen() == [
        ("720p", "in_progress", 4, 0, 25.0),
        ("360p", "in_progress", 4, 0, 25.0),
        ("720p-av1", "in_progress", 4, 0, 12.5),
    ]
    gap = {"failed": {"720p-av1": "no memory"}}
    await store.worker.complete(
        "w1", [Completion(first.held), Completion(second.held, gap), Completion(third.held)]
    )
    assert await seen() == [
        ("720p", "in_progress", 4, 3, 75.0),
        ("360p", "in_progress", 4, 3, 75.0),
        ("720p-av1", "failed", 4, 2, 50.0),
    ]
    assert (await store.read.qualities(job_id))[2].error == "no memory"
    (last,) = await store.worker.claim(claim_request("w1", 1))
    await store.worker.complete("w1", [Completion(last.held)])
    assert [status for _, status, *_ in await seen()] == ["completed", "completed", "failed"]


@pytest.mark.parametrize(
    "rungs", [None, 7, ["720p"], {"encode": 3}, {"encode": [3, [None]]}, {"other": [["1"]]}]
)
async def test_rungs_that_make_no_sense_are_no_rungs(store: Store, rungs: object):
    await store.worker.register(WorkerSpec("w1", slots=5))
    (job_id,) = await store.operator.submit([NewJob(FAN)])
    (cut,) = await store.worker.claim(claim_request("w1"))
    await store.worker.complete("w1", [Completion(cut.held, {"segments": 1, "rungs": rungs})])
    await store.orchestrator.advance([job_id])
    assert await store.read.qualities(job_id) == []


async def test_the_last_log_lines_come_oldest_first(store: Store):
    (job_id,) = await store.operator.submit([NewJob(ONE)])
    lines = [LogLine(job_id, None, None, "info", "work", f"line {n}") for n in range(5)]
    await store.worker.add_logs(lines)
    assert [line.message for line in await store.read.last_logs(job_id, limit=2)] == ["line 3", "line 4"]
