"""Claiming: the most urgent tasks that this worker may do, each under a new token."""

from dataclasses import replace
from datetime import timedelta

from takeup.core.errors import InvalidInput
from takeup.core.plan import NewJob
from takeup.store.dialect import MICROSECOND
from takeup.store.ops.claim import ClaimRequest
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World


@case(any_clock=True)
async def a_claim_starts_a_lease(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(
        world.pipeline(world.stage("work", phase="planning")), subject="s", priority=3
    )
    request = world.request()
    async with world.logs("task claim READY>RUNNING", "job enter_planning pending>planning"):
        (lease,) = await world.store.worker.claim(request)
    task, job = await world.task(job_id), await world.store.read.job(job_id)
    assert (lease.task_id, lease.job_id, lease.pipeline) == (task.id, job_id, job.pipeline)
    assert (lease.stage, lease.segment, lease.generation) == ("work", None, 1)
    assert (lease.attempt, lease.max_attempts, lease.priority, lease.lease_s) == (1, 3, 3, LEASE_S)
    assert (lease.token.epoch, len(lease.token.nonce)) == (1, 32)
    assert (task.status, task.attempt, task.epoch) == ("RUNNING", 1, 1)
    assert (task.lease_owner, task.lease_slot, task.lease_expires_at) == ("w", 1, lease.expires_at)
    assert task.claimed_at is not None
    starts = (lease.expires_at - timedelta(seconds=LEASE_S), task.started_at, task.progress_at)
    for moment in starts:
        assert moment is not None
        assert abs(moment - task.claimed_at) < (timedelta(seconds=1) if world.clock is None else MICROSECOND)
    assert (job.status, job.version) == ("planning", 2)
    assert job.started_at is not None
    event = next(event for event in await world.events(job_id) if event.event == "claim")
    assert (event.worker_id, event.epoch, event.attempt) == ("w", 1, 1)
    assert (event.request_id, event.lease_expires_at) == (request.request_id, lease.expires_at)
    assert event.nonce_hash not in (None, lease.token.nonce)


@case()
async def urgent_first_then_oldest(world: World) -> None:
    await world.add_worker(slots=100)
    pipeline = world.pipeline()
    order = [0, 10, 5, 10, 0, 5]
    jobs = await world.store.operator.submit([NewJob(pipeline, {"n": p}, priority=p) for p in order])
    got = [(await world.lease()).job_id for _ in order]
    assert got == [jobs[1], jobs[3], jobs[2], jobs[5], jobs[0], jobs[4]]


@case()
async def due_time_comes_before_age(world: World) -> None:
    assert world.clock is not None
    await world.add_worker(slots=100)
    pipeline, now = world.pipeline(), world.clock.now()
    late = await world.submit(pipeline, not_before=now + timedelta(seconds=20))
    soon = await world.submit(pipeline, not_before=now + timedelta(seconds=10))
    world.advance(30)
    newest = await world.submit(pipeline)
    await world.advance_jobs(late, soon, newest)
    assert [(await world.lease()).job_id for _ in range(3)] == [soon, late, newest]


@case()
async def a_claim_of_many_takes_up_to_its_limit(world: World) -> None:
    await world.add_worker(slots=100)
    pipeline = world.pipeline()
    await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(30)])
    first = await world.claim(limit=20)
    assert len(first) == 20
    assert [lease.task_id for lease in first] == sorted(lease.task_id for lease in first)
    assert len({lease.token.nonce for lease in first}) == 20
    second = await world.claim(limit=20)
    assert len(second) == 10
    assert not {lease.task_id for lease in first} & {lease.task_id for lease in second}
    async with world.unchanged():
        assert await world.claim(limit=20) == []


@case()
async def a_worker_holds_no_more_than_its_slots(world: World) -> None:
    await world.add_worker(slots=3)
    pipeline = world.pipeline()
    await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(9)])
    leases = await world.claim(limit=9)
    assert len(leases) == 3
    async with world.unchanged():
        assert await world.claim(limit=9) == []
    await world.finish(leases[1])
    (lease,) = await world.claim(limit=9)
    assert (await world.store.read.task(lease.task_id)).lease_slot == 2
    assert (await world.store.read.worker("w")).load == 3


@case()
async def fewer_slots_after_registering_again_are_kept(world: World) -> None:
    await world.add_worker(slots=3)
    pipeline = world.pipeline()
    await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(9)])
    leases = await world.claim(limit=3)
    await world.finish(leases[0])
    await world.add_worker(slots=2)
    assert len(await world.claim(limit=9)) == 2, "what the older process held is free again"
    assert (await world.store.read.worker("w")).load == 2


@case()
async def the_same_request_gives_the_same_leases(world: World) -> None:
    await world.add_worker()
    pipeline = world.pipeline()
    await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(5)])
    request = world.request(limit=3)
    leases = await world.store.worker.claim(request)
    world.advance(1)
    async with world.unchanged():
        assert await world.store.worker.claim(request) == leases
        forged = replace(request, secret="f" * 32)
        assert await world.store.worker.claim(forged) == [], "a forged secret must not see the leases"
    world.owners.update((lease.held, "w") for lease in leases)
    await world.finish(leases[0])
    async with world.unchanged():
        assert await world.store.worker.claim(request) == leases[1:]


@case()
async def a_request_that_found_nothing_may_find_work_later(world: World) -> None:
    await world.add_worker()
    request = world.request()
    async with world.unchanged():
        assert await world.store.worker.claim(request) == []
    await world.submit()
    assert len(await world.store.worker.claim(request)) == 1


@case()
async def a_late_doubled_request_claims_nothing(world: World) -> None:
    await world.add_worker()
    await world.add_worker("x")
    pipeline = world.pipeline()
    await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(5)])
    request = world.request(limit=2)
    leases = await world.store.worker.claim(request)
    world.owners.update((lease.held, "w") for lease in leases)
    await world.finish(leases[0])
    await world.release(leases[1])
    async with world.unchanged():
        assert await world.store.worker.claim(request) == []
        stolen = replace(request, worker_id="x")
        assert await world.store.worker.claim(stolen) == [], "a request id is one worker's"


@case()
async def paused_work_is_not_claimed(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    task = await world.task(job_id)
    await world.store.operator.set_control([job_id], "PAUSED")
    assert await world.claim() == []
    await world.store.operator.set_control([job_id], "READY")
    await world.store.operator.set_task_control([task.id], "PAUSED")
    assert await world.claim() == []
    await world.store.operator.set_task_control([task.id], "READY")
    assert (await world.lease()).task_id == task.id


@case()
async def capabilities_must_fit(world: World) -> None:
    await world.add_worker("plain")
    await world.add_worker("gpu", capabilities=("gpu",))
    await world.add_worker("both", capabilities=("gpu", "av1", "more"))
    await world.submit(world.pipeline(world.stage("work", requires=("gpu", "av1"))))
    assert await world.claim("plain") == []
    assert await world.claim("gpu") == []
    assert len(await world.claim("both")) == 1


@case()
async def a_worker_serves_the_stages_it_names(world: World) -> None:
    left = world.pipeline("one", "two", name="left")
    right = world.pipeline("one", "two", name="right")
    await world.submit(left)
    await world.add_worker("none", stages=("other/*", "left/three"))
    await world.add_worker("exact", stages=("left/two", "right/two"))
    await world.add_worker("whole", stages=("right/*",))
    await world.submit(right)
    assert await world.claim("none", 9) == []
    exact = {(lease.pipeline, lease.stage) for lease in await world.claim("exact", 9)}
    assert exact == {("left", "two"), ("right", "two")}
    assert [(lease.pipeline, lease.stage) for lease in await world.claim("whole", 9)] == [("right", "one")]
    await world.add_worker("all")
    assert [(lease.pipeline, lease.stage) for lease in await world.claim("all", 9)] == [("left", "one")]


@case()
async def a_worker_that_registers_again_serves_its_new_lanes(world: World) -> None:
    await world.add_worker("w", stages=("left/*",))
    await world.submit(world.pipeline(name="left"))
    await world.submit(world.pipeline(name="right"))
    await world.add_worker("w", stages=("right/*",))
    assert [lease.pipeline for lease in await world.claim(limit=9)] == ["right"]


@case()
async def who_may_not_claim_gets_nothing(world: World) -> None:
    await world.submit()
    for name in ("draining", "disabled", "offline"):
        await world.add_worker(name)
    await world.store.operator.drain(["draining"])
    await world.store.operator.disable(["disabled"])
    await world.store.worker.leave(["offline"])
    async with world.unchanged():
        for name in ("draining", "disabled", "offline", "unknown"):
            assert await world.claim(name) == [], name
    await world.store.operator.enable(["disabled"])
    assert len(await world.claim("disabled")) == 1


@case()
async def a_claim_takes_back_a_few_overdue_leases(world: World) -> None:
    await world.add_worker("a")
    await world.add_worker("b")
    await world.submit()
    first = await world.lease("a")
    world.advance(LEASE_S - 1)
    assert await world.claim("b") == []
    world.advance(1)
    async with world.logs("task expire RUNNING>READY", "task claim READY>RUNNING"):
        second = await world.lease("b")
    assert (second.task_id, second.token.epoch, second.attempt) == (first.task_id, 2, 2)


@case()
async def the_furthest_phase_of_one_claim_is_entered_once(world: World) -> None:
    await world.add_worker()
    stages = [world.stage("a", phase="planning"), world.stage("b", phase="uploading_outputs")]
    job_id = await world.submit(world.pipeline(*stages))
    async with world.logs(
        "task claim READY>RUNNING",
        "task claim READY>RUNNING",
        "job enter_uploading_outputs pending>uploading_outputs",
    ):
        leases = await world.claim(limit=2)
    assert len(leases) == 2
    assert (await world.store.read.job(job_id)).version == 2


@case()
async def a_phase_never_goes_back(world: World) -> None:
    await world.add_worker(slots=1)
    stages = [
        world.stage("a", phase="uploading_outputs"),
        world.stage("b", phase="planning"),
        world.stage("c", phase="uploading_outputs"),
    ]
    job_id = await world.submit(world.pipeline(*stages))
    statuses = []
    for _ in range(3):
        lease = await world.lease()
        statuses.append(await world.job_status(job_id))
        await world.finish(lease)
    assert statuses == ["uploading_outputs"] * 3
    assert await world.job_status(job_id) == "completed"


@case()
async def requests_without_bounds_are_refused(world: World) -> None:
    await world.add_worker()
    await world.submit()
    for limit, defer_s in ((0, 1.0), (-1, 1.0), (1001, 1.0), (1, float("nan")), (1, -1.0), (1, 1e300)):
        async with world.refuses(InvalidInput):
            await world.claim("w", limit, defer_s=defer_s)
    async with world.refuses(InvalidInput):
        await world.store.worker.claim(ClaimRequest("w", "r", "short"))
