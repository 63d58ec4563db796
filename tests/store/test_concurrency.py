"""Ten at once, as real processes: everything exactly once, no error to a caller, no wait for a frozen one."""

import asyncio
from collections import Counter

import asyncpg
import pytest

from takeup.core.model import Completion
from takeup.core.pipeline import Pipeline, Stage
from takeup.core.plan import NewJob
from takeup.store.store import Store
from tests.store import crowd as members
from tests.store.crowd import SIZE, Crowd
from tests.store.scenes import FAN, ONE, add_worker, claim_request, dump, fail_then_finish, faults_of, run_one

TASKS = 300
SEGMENTS = 1000
ROUNDS = 20


@pytest.mark.parametrize("limit", [1, 7])
def test_ten_claimers_take_every_task_once(url, crowd: Crowd, limit):
    async def prepare() -> None:
        store = await Store.open(url)
        await store.operator.submit([NewJob(ONE, {"n": n}) for n in range(TASKS)])
        await store.close()

    asyncio.run(prepare())
    done = crowd.run(members.claim_and_complete, url, limit)
    assert sorted(task for each in done for task in each) == list(range(1, TASKS + 1))
    rows = asyncio.run(dump(url))
    assert Counter(row["status"] for row in rows["tasks"]) == {"DONE": TASKS}
    assert Counter(row["status"] for row in rows["jobs"]) == {"completed": TASKS}
    events = Counter((row["noun"], row["event"]) for row in rows["audit"] if row["noun"] == "task")
    assert events == {("task", "create"): TASKS, ("task", "claim"): TASKS, ("task", "complete"): TASKS}
    assert faults_of(rows) == []


def test_ten_judges_quarantine_no_more_than_one_would(url, crowd: Crowd):
    """Two of three workers fail what the third finishes; only one of them may go."""

    async def prepare() -> None:
        store = await Store.open(url)
        for name in ("a", "b", "well"):
            await add_worker(store, name, slots=1)
        for bad in ("a", "b"):
            await fail_then_finish(store, bad, "well")
        await store.close()

    asyncio.run(prepare())
    judged = crowd.run(members.judge, url)
    assert [name for one in judged for name in one.quarantined] == ["a"]
    assert {name for one in judged for name in one.spared} <= {"b"}
    rows = asyncio.run(dump(url))
    assert [row["id"] for row in rows["workers"] if row["quarantined_at"] is not None] == ["a"]
    assert [row["event"] for row in rows["audit"]].count("quarantine") == 1


def test_ten_orchestrators_split_and_join_once(url, crowd: Crowd):
    async def prepare() -> str:
        store = await Store.open(url)
        await add_worker(store)
        (job_id,) = await store.operator.submit([NewJob(FAN)])
        (lease,) = await store.worker.claim(claim_request("w1"))
        await store.worker.complete("w1", [Completion(lease.held, {"segments": SEGMENTS})])
        await store.close()
        return job_id

    async def finish_segments() -> None:
        store = await Store.open(url)
        await add_worker(store, slots=SEGMENTS)
        while leases := await store.worker.claim(claim_request("w1", SEGMENTS)):
            await store.worker.complete("w1", [Completion(lease.held) for lease in leases])
        await store.close()

    job_id = asyncio.run(prepare())
    passes = crowd.run(members.advance, url, job_id)
    assert sum(each.expanded for each in passes) == SEGMENTS
    passes += crowd.run(members.advance, url, job_id)
    assert sum(each.ready for each in passes) == SEGMENTS
    asyncio.run(finish_segments())
    joins = crowd.run(members.advance, url, job_id)
    assert sum(each.ready for each in joins) == 1
    rows = asyncio.run(dump(url))
    assert Counter(row["stage"] for row in rows["tasks"]) == {"cut": 1, "encode": SEGMENTS, "join": 1}
    readied = Counter(row["task_id"] for row in rows["audit"] if row["event"] == "ready")
    assert set(readied.values()) == {1}
    assert len(readied) == SEGMENTS + 1
    assert faults_of(rows) == []


def test_ten_recovery_loops_expire_each_lease_once(url, crowd: Crowd, clock):
    async def prepare() -> None:
        store = await Store.open(url, clock=clock)
        await add_worker(store, slots=TASKS)
        await store.operator.submit([NewJob(ONE) for _ in range(TASKS)])
        assert len(await store.worker.claim(claim_request("w1", TASKS))) == TASKS
        await store.close()

    asyncio.run(prepare())
    assert crowd.run(members.expire, url, clock) == [[]] * SIZE
    clock.pass_s(61)
    found = crowd.run(members.expire, url, clock)
    assert sorted(task for each in found for task in each) == list(range(1, TASKS + 1))
    rows = asyncio.run(dump(url))
    assert Counter(row["event"] for row in rows["audit"])["expire"] == TASKS
    assert faults_of(rows) == []


def test_ten_submits_of_one_key_make_one_job(url, crowd: Crowd):
    for key in ("first", "second", "third"):
        answers = crowd.run(members.submit, url, key)
        assert len(set(answers)) == 1
        asyncio.run(end_all(url))
    rows = asyncio.run(dump(url))
    assert len(rows["jobs"]) == 3
    assert len(rows["tasks"]) == 3
    assert sorted(row["generation"] for row in rows["jobs"]) == [1, 2, 3]
    assert faults_of(rows) == []


async def end_all(url: str) -> None:
    store = await Store.open(url)
    await store.operator.cancel(await store.orchestrator.live_jobs())
    await store.close()


def test_cancel_and_complete_at_once_accept_exactly_one(url, crowd: Crowd):
    async def prepare() -> list[tuple[str, Completion]]:
        store = await Store.open(url)
        await add_worker(store)
        rounds = []
        for n in range(ROUNDS):
            job_id, lease = await run_one(store)
            rounds.append((job_id, Completion(lease.held, {"n": n})))
        await store.close()
        return rounds

    rounds = asyncio.run(prepare())
    answers = crowd.run(members.cancel_or_complete, url, rounds)
    rows = asyncio.run(dump(url))
    status = {row["id"]: row["status"] for row in rows["jobs"]}
    for n, (job_id, _) in enumerate(rounds):
        cancels = [each[n] for i, each in enumerate(answers) if i % 2 and each[n]]
        completes = {each[n].accepted for i, each in enumerate(answers) if not i % 2}
        assert completes == {status[job_id] == "completed"}, "all repeats get the same answer"
        assert len(cancels) == (status[job_id] == "cancelled"), "one cancel found the job live"
    ends = Counter(row["task_id"] for row in rows["audit"] if row["from_status"] == "RUNNING")
    assert set(ends.values()) == {1}
    assert faults_of(rows) == []


@pytest.mark.parametrize("limit", [1, 3])
async def test_one_request_sent_at_once_from_all_sides_gets_one_set_of_leases(url, limit):
    stores = [await Store.open(url) for _ in range(SIZE)]
    await add_worker(stores[0])
    await stores[0].operator.submit([NewJob(ONE) for _ in range(30)])
    for _ in range(5):
        request = claim_request("w1", limit)
        answers = await asyncio.gather(*(store.worker.claim(request) for store in stores))
        assert len({lease.task_id for leases in answers for lease in leases}) == limit
        assert all(leases == answers[0] for leases in answers), "every copy is answered alike"
        assert await stores[0].worker.claim(request) == answers[0]
    rows = await dump(url)
    assert Counter(row["status"] for row in rows["tasks"]) == {"RUNNING": 5 * limit, "READY": 30 - 5 * limit}
    assert faults_of(rows) == []
    for store in stores:
        await store.close()


async def test_requests_of_one_worker_at_once_stay_within_its_slots(url):
    stores = [await Store.open(url) for _ in range(SIZE)]
    await stores[0].operator.submit([NewJob(ONE) for _ in range(60)])
    for n in range(5):
        worker_id = f"small{n}"
        await add_worker(stores[0], worker_id, slots=4)
        answers = await asyncio.gather(
            *(store.worker.claim(claim_request(worker_id, 3)) for store in stores[:4])
        )
        assert sum(len(leases) for leases in answers) == 4
        assert (await stores[0].read.worker(worker_id)).load == 4
    assert faults_of(await dump(url)) == []
    for store in stores:
        await store.close()


async def test_a_frozen_claimer_holds_up_nobody(postgres_url, clock):
    store = await Store.open(postgres_url, clock=clock)
    await add_worker(store)
    await store.operator.submit([NewJob(ONE) for _ in range(6)])
    leases = await store.worker.claim(claim_request("w1", 3))
    clock.pass_s(61)
    frozen = await asyncpg.connect(postgres_url)
    await frozen.execute("BEGIN")
    hidden = await frozen.fetch(
        "SELECT id, status FROM tasks WHERE id IN ($1, (SELECT MAX(id) FROM tasks)) FOR UPDATE",
        leases[0].task_id,
    )
    assert sorted(row["status"] for row in hidden) == ["READY", "RUNNING"]
    async with asyncio.timeout(1):  # no lock timeout and no retry was waited for
        assert await store.recovery.expire() == [lease.task_id for lease in leases[1:]]
        free = await store.worker.claim(claim_request("w1", 10))
        assert len(free) == 4
        assert {lease.task_id for lease in free}.isdisjoint(row["id"] for row in hidden)
    await frozen.execute("ROLLBACK")
    await frozen.close()
    assert await store.recovery.expire() == [leases[0].task_id]
    assert len(await store.worker.claim(claim_request("w1", 10))) == 2
    assert faults_of(await dump(postgres_url)) == []
    await store.close()


async def test_a_claim_does_not_wait_for_a_job_that_it_need_not_move(postgres_url):
    """A task of an earlier phase than its job's is a retry or a late branch; its job stays as it is."""
    late = Pipeline.of("late", [Stage("first", phase="uploading_outputs"), Stage("second", phase="planning")])
    store = await Store.open(postgres_url)
    await add_worker(store)
    (job_id,) = await store.operator.submit([NewJob(late)])
    first, second = await store.worker.claim(claim_request("w1", 2))
    assert (await store.read.job(job_id)).status == "uploading_outputs"
    await store.worker.release("w1", [second.held])
    frozen = await asyncpg.connect(postgres_url)
    await frozen.execute("BEGIN")
    await frozen.execute("SELECT 1 FROM jobs FOR NO KEY UPDATE")
    async with asyncio.timeout(1):  # no lock timeout and no retry was waited for
        (again,) = await store.worker.claim(claim_request("w1"))
        assert again.task_id == second.task_id != first.task_id
        await store.worker.release("w1", [again.held])
        (again,) = await store.worker.claim(claim_request("w1", 5))
    await frozen.execute("ROLLBACK")
    await frozen.close()
    assert again.task_id == second.task_id
    assert faults_of(await dump(postgres_url)) == []
    await store.close()


async def test_a_claim_of_one_takes_the_free_slot_between_others(url):
    store = await Store.open(url)
    await add_worker(store, slots=3)
    await store.operator.submit([NewJob(ONE) for _ in range(5)])
    leases = await store.worker.claim(claim_request("w1", 3))
    await store.worker.complete("w1", [Completion(leases[1].held)])
    (lease,) = await store.worker.claim(claim_request("w1"))
    assert await store.worker.claim(claim_request("w1")) == []
    rows = await dump(url)
    slots = {row["id"]: row["lease_slot"] for row in rows["tasks"] if row["status"] == "RUNNING"}
    assert slots == {leases[0].task_id: 1, lease.task_id: 2, leases[2].task_id: 3}
    await store.close()
