"""What those who follow live are told from, on every database."""

from urllib.parse import urlsplit

import pytest

from takeup.core.live import Settling, Watch
from takeup.core.model import Completion, Progress
from takeup.core.plan import NewJob
from takeup.store.store import Store
from tests.services import PgBouncerServer
from tests.store.scenes import FAN, ONE, Clock, add_worker, claim_request, run_one


@pytest.fixture
def store(every_store: Store) -> Store:
    return every_store


async def test_the_log_is_told_after_a_place_and_of_what_was_named(store: Store, clock: Clock):
    await add_worker(store)
    job_id, lease = await run_one(store, subject="video:v")
    other, _ = await run_one(store)
    await store.worker.complete("w1", [Completion(lease.held)])
    seen = await store.feed.look(Watch(subjects=["video:v", "video:nobody"]), 0)
    assert [row.event for row in seen.rows] == ["create", "enter_processing", "complete"]
    assert {row.id for row in seen.rows} == {job_id}
    assert seen.jobs_of == {"video:v": (job_id,)}
    assert seen.rows[-1].status == "completed"
    assert seen.reach is None
    both = await store.feed.look(Watch(jobs=[job_id, other], workers=True), 0)
    assert [row.seq for row in both.rows] == sorted(row.seq for row in both.rows)
    assert next((row.noun, row.event) for row in both.rows) == ("worker", "register")
    assert len(both.rows) == 6
    later = await store.feed.look(Watch(jobs=[job_id]), seen.rows[1].seq)
    assert [row.seq for row in later.rows] == [seen.rows[2].seq]
    cut = await store.feed.look(Watch(jobs=[job_id, other], workers=True), 0, limit=2)
    assert cut.reach is not None
    assert [row.seq for row in cut.rows] == [row.seq for row in both.rows if row.seq <= cut.reach]
    nothing = await store.feed.look(Watch(jobs=[job_id]), both.frontier.newest)
    assert (nothing.rows, nothing.jobs_of) == ((), None)


async def test_whoever_was_away_for_long_finds_the_workers(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("takeup.store.ops.feed.NEAR_ROWS", 0)
    await add_worker(store)
    await run_one(store)
    await store.operator.drain(["w1"])
    seen = await store.feed.look(Watch(workers=True), 0)
    assert [(row.id, row.event, row.status) for row in seen.rows] == [
        ("w1", "register", "active"),
        ("w1", "drain", "draining"),
    ]


async def test_everything_is_settled_when_nobody_writes(store: Store, clock: Clock):
    assert await store.feed.settled() == 0
    await add_worker(store)
    clock.pass_s(60)
    frontier = (await store.feed.look(Watch(), -1)).frontier
    assert await store.feed.settled() == frontier.newest > 0


async def settles(store: Store) -> bool:
    settling = Settling(0)
    for moment in (0.0, 1.0):
        frontier = (await store.feed.look(Watch(workers=True), settling.low)).frontier
        settling.see(frontier, moment)
    return settling.low == frontier.newest > 0


async def test_two_looks_settle_what_nobody_writes_any_more(store: Store):
    await add_worker(store)
    assert await settles(store)


async def test_behind_a_pooler_too(postgres_url: str, pgbouncer: PgBouncerServer):
    database = urlsplit(postgres_url).path.removeprefix("/")
    store = await Store.open(pgbouncer.dsn(database) + "&pgbouncer=1")
    assert await store.feed.settled() == 0
    await add_worker(store)
    assert await settles(store)
    await store.close()


async def test_jobs_are_seen_with_their_counts(store: Store):
    await add_worker(store)
    (fan,) = await store.operator.submit([NewJob(FAN, subject="video:v")])
    (cut,) = await store.worker.claim(claim_request("w1"))
    rungs = {"encode": [["720p"], ["360p"]]}
    await store.worker.complete("w1", [Completion(cut.held, {"segments": 4, "rungs": rungs})])
    await store.orchestrator.advance([fan])
    leases = await store.worker.claim(claim_request("w1", 3))
    await store.worker.complete("w1", [Completion(lease.held) for lease in leases[:2]])
    await store.worker.renew("w1", [Progress(leases[2].held, 50.0, "frames")])
    (one,) = await store.operator.submit([NewJob(ONE)])
    seen = await store.feed.jobs([fan, one, "job_nobody"], with_rungs=[fan])
    assert seen.keys() == {fan, one}
    job = seen[fan]
    assert (job.status, job.subject, job.is_over) == ("processing", "video:v", False)
    assert [(s.stage, s.done, s.running, s.total) for s in job.progress.stages] == [
        ("cut", 1, 0, 1),
        ("encode", 2, 1, 4),
        ("join", 0, 0, 1),
    ]
    assert job.progress.percent == pytest.approx((await store.read.progress(fan)).percent)
    assert job.phases == {"cut": "planning", "encode": "processing", "join": "uploading_outputs"}
    assert list(job.rungs) == await store.read.qualities(fan)
    assert [rung.rung for rung in job.rungs] == ["720p", "360p"]
    assert (seen[one].rungs, seen[one].progress.percent) == ((), 0.0)


async def test_workers_are_seen_with_their_load(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("takeup.store.ops.feed.WORKERS_PAGE", 2)
    for number in range(5):
        await add_worker(store, f"w{number}", slots=3)
    await run_one(store, "w3")
    await store.operator.disable(["w4"])
    seen = await store.feed.workers()
    assert [(w.id, w.status, w.is_disabled, w.load, w.slots, w.activity) for w in seen.values()] == [
        ("w0", "active", False, 0, 3, "idle"),
        ("w1", "active", False, 0, 3, "idle"),
        ("w2", "active", False, 0, 3, "idle"),
        ("w3", "active", False, 1, 3, "busy"),
        ("w4", "active", True, 0, 3, "idle"),
    ]
    await store.worker.leave(["w0"])
    assert (await store.feed.workers())["w0"].activity == "offline"
