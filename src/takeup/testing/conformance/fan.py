"""Fan-out by segment and fan-in: every segment once, the join ready exactly once."""

from takeup.core.model import Completion
from takeup.store.ops.orchestrate import Advance
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World


async def split(world: World, segments: object) -> str:
    """A job whose splitter is done."""
    job_id = await world.submit(world.fan())
    await world.finish(await world.lease(), {"segments": segments})
    return job_id


async def work_off(world: World, stage: str, batch: int = 1000) -> int:
    """Claim and complete every ready task of this stage."""
    count = 0
    while leases := await world.claim(limit=batch):
        assert {lease.stage for lease in leases} == {stage}
        answers = await world.store.worker.complete("w", [Completion(lease.held) for lease in leases])
        assert all(answer.accepted for answer in answers)
        count += len(leases)
    return count


@case()
async def segments_become_tasks_once(world: World) -> None:
    await world.add_worker(slots=100)
    job_id = await split(world, [{"from": 0}, {"from": 10}, {"from": 20}])
    assert await world.job_status(job_id) == "planning", "a job with unexpanded stages is not done"
    async with world.logs(*["task create >NEW"] * 6, *["task ready NEW>READY"] * 3):
        assert await world.store.orchestrator.advance([job_id]) == Advance(expanded=6, ready=3)
    async with world.unchanged():
        assert await world.store.orchestrator.advance([job_id]) == Advance()
    tasks = [t for t in await world.store.read.tasks(job_id) if t.stage == "encode"]
    assert [(t.segment, dict(t.parameters)) for t in tasks] == [(n, {"from": 10 * n}) for n in range(3)]
    leases = await world.claim(limit=9)
    assert [(lease.segment, lease.parameters) for lease in leases] == [
        (n, {"from": 10 * n}) for n in range(3)
    ]


@case()
async def a_segment_goes_on_without_waiting_for_the_others(world: World) -> None:
    await world.add_worker(slots=100)
    job_id = await split(world, 3)
    await world.advance_jobs(job_id)
    leases = await world.claim(limit=3)
    await world.finish(leases[1])
    assert await world.store.orchestrator.advance([job_id]) == Advance(ready=1)
    lease = await world.lease()
    assert (lease.stage, lease.segment) == ("check", 1)
    await world.finish(lease)
    assert await world.store.orchestrator.advance([job_id]) == Advance()
    assert await world.status(job_id, "join") == "NEW"


@case()
async def the_join_waits_for_every_segment(world: World) -> None:
    await world.add_worker(slots=100)
    job_id = await split(world, 4)
    await world.advance_jobs(job_id)
    encodes = await world.claim(limit=4)
    for lease in encodes:
        await world.finish(lease)
    await world.advance_jobs(job_id)
    checks = await world.claim(limit=4)
    assert [lease.stage for lease in checks] == ["check"] * 4
    for lease in checks[:3]:
        await world.finish(lease)
    assert await world.store.orchestrator.advance([job_id]) == Advance()
    await world.finish(checks[3])
    async with world.logs("task ready NEW>READY"):
        assert await world.store.orchestrator.advance([job_id]) == Advance(ready=1)
    join = await world.lease()
    assert join.stage == "join"
    assert await world.job_status(job_id) == "uploading_outputs"
    await world.finish(join)
    assert await world.job_status(job_id) == "completed"
    assert await world.store.read.task_counts(job_id) == {
        ("split", "DONE"): 1,
        ("encode", "DONE"): 4,
        ("check", "DONE"): 4,
        ("join", "DONE"): 1,
    }


@case(any_clock=True)
async def no_segments_at_all_lead_to_the_join(world: World) -> None:
    await world.add_worker()
    no_segments: list[object] = [0, []]
    for segments in no_segments:
        job_id = await split(world, segments)
        assert await world.store.orchestrator.advance([job_id]) == Advance(ready=1)
        join = await world.lease()
        assert join.stage == "join"
        await world.finish(join)
        assert await world.job_status(job_id) == "completed"


@case()
async def a_skipped_splitter_has_no_segments(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.fan())
    await world.store.operator.set_task_control([(await world.task(job_id, "split")).id], "SKIP")
    assert await world.job_status(job_id) == "pending"
    assert await world.store.orchestrator.advance([job_id]) == Advance(ready=1)
    assert (await world.lease()).stage == "join"


@case()
async def a_failed_segment_abandons_the_rest(world: World) -> None:
    await world.add_worker(slots=100)
    job_id = await split(world, 5)
    await world.advance_jobs(job_id)
    one, two = await world.claim(limit=2)
    await world.fail(one, "bad frame", retryable=False)
    assert await world.store.orchestrator.advance([job_id]) == Advance(abandoned=9)
    async with world.logs("task complete RUNNING>DONE", "job fail processing>failed"):
        await world.finish(two)
    assert (await world.store.read.job(job_id)).error == "encode: bad frame"


@case()
async def segments_inherit_control_and_priority(world: World) -> None:
    await world.add_worker(slots=100)
    job_id = await split(world, 2)
    await world.store.operator.set_priority([job_id], 9)
    await world.store.operator.set_control([job_id], "PAUSED")
    await world.advance_jobs(job_id)
    tasks = [t for t in await world.store.read.tasks(job_id) if t.segment is not None]
    assert {(t.priority, t.job_control) for t in tasks} == {(9, "PAUSED")}
    assert await world.claim() == []


@case()
async def a_splitter_retried_by_another_splits_once(world: World) -> None:
    await world.add_worker("a", 100)
    await world.add_worker("w", 100)
    job_id = await world.submit(world.fan())
    late = await world.lease("a")
    world.advance(60)
    await world.store.recovery.expire()
    await world.finish(await world.lease(), {"segments": 2})
    await world.advance_jobs(job_id)
    async with world.unchanged():
        assert not (await world.complete(late, {"segments": 7})).accepted
        assert await world.store.orchestrator.advance([job_id]) == Advance()
    assert (await world.store.read.task_counts(job_id))["encode", "READY"] == 2


async def run_wide(world: World, segments: int) -> None:
    """A job with this many segments, to its end."""
    await world.add_worker(slots=1000)
    stages = [
        world.stage("split"),
        world.stage("encode", needs=("split",), each="segment"),
        world.stage("join", needs=("encode",)),
    ]
    job_id = await world.submit(world.pipeline(*stages))
    await world.finish(await world.lease(), {"segments": segments})
    advanced = await world.store.orchestrator.advance([job_id])
    assert advanced == Advance(expanded=segments, ready=segments)
    assert await world.store.read.queue_counts() == {"READY": segments, "NEW": 1}
    assert await work_off(world, "encode") == segments
    assert await world.store.orchestrator.advance([job_id]) == Advance(ready=1)
    assert await work_off(world, "join") == 1
    assert await world.job_status(job_id) == "completed"


@case()
async def a_thousand_segments(world: World) -> None:
    await run_wide(world, 1000)


@case(large=True)
async def ten_thousand_segments(world: World) -> None:
    await run_wide(world, 10_000)
