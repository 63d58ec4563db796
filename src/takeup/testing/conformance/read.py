"""Reads: lists in keyset pages, details, counts, the attempts and the log."""

from takeup.core.errors import InvalidInput, NotFound
from takeup.core.model import Artifact, ListedJob
from takeup.core.plan import NewJob
from takeup.store.ops.read import JobFilter
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World


@case()
async def jobs_come_in_pages_newest_first(world: World) -> None:
    pipeline = world.pipeline()
    jobs: list[str] = []
    for _ in range(3):
        jobs += sorted(await world.store.operator.submit([NewJob(pipeline), NewJob(pipeline)]))
        world.advance(1)
    expected = jobs[::-1]
    seen: list[ListedJob] = []
    while page := await world.store.read.jobs(before=seen[-1] if seen else None, limit=4):
        seen += page
    assert [job.id for job in seen] == expected
    assert [job.id for job in await world.store.read.jobs()] == expected


@case()
async def jobs_are_filtered(world: World) -> None:
    left, right = world.pipeline(name="left"), world.pipeline(name="right")
    one = await world.submit(left, subject="s", user_id="u")
    two = await world.submit(left, user_id="v")
    three = await world.submit(right, user_id="u")
    await world.store.operator.cancel([two])
    found = {
        "pipeline": await world.store.read.jobs(JobFilter(pipeline="left")),
        "status": await world.store.read.jobs(JobFilter(status="pending")),
        "subject": await world.store.read.jobs(JobFilter(subject="s")),
        "user": await world.store.read.jobs(JobFilter(user_id="u", pipeline="right")),
        "none": await world.store.read.jobs(JobFilter(user_id="u", pipeline="right", status="failed")),
    }
    assert {name: {job.id for job in jobs} for name, jobs in found.items()} == {
        "pipeline": {one, two},
        "status": {one, three},
        "subject": {one},
        "user": {three},
        "none": set(),
    }


@case()
async def tasks_come_in_pages(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.fan())
    await world.finish(await world.lease(), {"segments": 5})
    await world.advance_jobs(job_id)
    everything = await world.store.read.tasks(job_id)
    assert len(everything) == 12
    pages, after = [], 0
    while page := await world.store.read.tasks(job_id, after=after, limit=5):
        pages.append(page)
        after = page[-1].id
    assert [len(page) for page in pages] == [5, 5, 2]
    assert [task for page in pages for task in page] == everything
    assert everything[0] == await world.store.read.task(everything[0].id)
    assert await world.store.read.tasks("job_nobody") == []


@case()
async def workers_come_in_pages_with_their_load(world: World) -> None:
    for name in ("c", "a", "b"):
        await world.add_worker(name)
    await world.submit()
    await world.lease("b")
    first = await world.store.read.workers(limit=2)
    rest = await world.store.read.workers(after=first[-1].id, limit=2)
    assert [(worker.id, worker.load) for worker in [*first, *rest]] == [("a", 0), ("b", 1), ("c", 0)]


@case()
async def the_log_comes_in_pages(world: World) -> None:
    jobs = [await world.submit(world.chain("a", "b")) for _ in range(3)]
    everything = await world.store.read.events()
    assert len(everything) == 9
    assert [event.seq for event in everything] == sorted({event.seq for event in everything})
    page = await world.store.read.events(after=everything[3].seq, limit=2)
    assert page == everything[4:6]
    mine = await world.store.read.events(job_id=jobs[1])
    assert mine == [event for event in everything if event.job_id == jobs[1]]
    assert await world.store.read.events(job_id=jobs[1], after=mine[0].seq, limit=1) == mine[1:2]


@case()
async def attempts_are_the_claims_and_their_ends(world: World) -> None:
    await world.add_worker("a")
    await world.add_worker("b")
    job_id = await world.submit(world.pipeline(world.stage("work", attempts=5)))
    await world.release(await world.lease("a"))
    await world.fail(await world.lease("b"), "bad luck", after_s=0.0)
    await world.store.recovery.wake()
    await world.lease("a")
    world.advance(LEASE_S)
    await world.store.recovery.expire()
    await world.lease("b")
    attempts = await world.store.read.attempts(job_id)
    assert [(a.epoch, a.attempt, a.owner, a.outcome) for a in attempts] == [
        (1, 1, "a", "release"),
        (2, 1, "b", "fail"),
        (3, 2, "a", "expire"),
        (4, 3, "b", None),
    ]
    assert attempts[1].error == "bad luck"
    assert [a.ended_at is None for a in attempts] == [False, False, False, True]
    assert {(a.stage, a.segment) for a in attempts} == {("work", None)}
    assert await world.store.read.attempts(job_id, limit=2) == attempts[:2]


@case()
async def counts_by_stage_and_by_queue(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.chain("a", "b"))
    await world.submit()
    await world.lease()
    assert await world.store.read.queue_counts() == {"NEW": 1, "READY": 1, "RUNNING": 1}
    assert await world.store.read.task_counts(job_id) == {("a", "RUNNING"): 1, ("b", "NEW"): 1}
    await world.store.operator.cancel([job_id])
    assert await world.store.read.queue_counts() == {"READY": 1}
    assert await world.store.read.task_counts("job_nobody") == {}


@case()
async def artifacts_are_listed_by_job(world: World) -> None:
    await world.add_worker()
    files = tuple(Artifact(f"f{n}", f"k/{n}", "0" * 64, n) for n in range(4))
    one, two = await world.submit(), await world.submit()
    for lease in await world.claim(limit=2):
        await world.complete(lease, {}, files if lease.job_id == one else files[:1])
    assert await world.store.read.artifacts(one) == list(files)
    assert await world.store.read.artifacts(one, limit=2) == list(files[:2])
    assert await world.store.read.artifacts(two) == [files[0]]


@case(any_clock=True)
async def what_is_not_there_is_not_found(world: World) -> None:
    for read in (
        world.store.read.job("job_nobody"),
        world.store.read.task(10**9),
        world.store.read.worker("nobody"),
    ):
        try:
            await read
        except NotFound as error:
            assert str(error)  # noqa: PT017 - the case also runs without pytest
        else:
            raise AssertionError("a row that is not there was found")


@case()
async def a_page_has_bounds(world: World) -> None:
    for limit in (0, -1, 1001):
        for read in (
            world.store.read.jobs(limit=limit),
            world.store.read.tasks("j", limit=limit),
            world.store.read.attempts("j", limit=limit),
            world.store.read.artifacts("j", limit=limit),
            world.store.read.workers(limit=limit),
            world.store.read.events(limit=limit),
        ):
            try:
                await read
            except InvalidInput:
                continue
            raise AssertionError(f"a page of {limit} was read")


@case()
async def the_stores_time_is_the_clocks(world: World) -> None:
    assert world.clock is not None
    assert await world.store.read.now() == world.clock.now()
    world.advance(0.000001)
    assert await world.store.read.now() == world.clock.now()
