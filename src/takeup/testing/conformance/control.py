"""Pause, resume and skip, of jobs and of single tasks, in every state."""

from takeup.core.errors import InvalidInput
from takeup.core.model import Lease
from takeup.core.pipeline import Stage
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World

STAGES = ("done", "running", "ready", "error", "new")


async def mixed(world: World) -> tuple[str, dict[str, Lease]]:
    """A job with a task in every live state and one that is done."""
    await world.add_worker()
    stages: list[Stage | str] = [*STAGES[:4], world.stage("new", needs=("ready",))]
    job_id = await world.submit(world.pipeline(*stages))
    leases = {lease.stage: lease for lease in await world.claim(limit=9)}
    await world.finish(leases["done"])
    await world.release(leases["ready"])
    await world.fail(leases["error"], after_s=0.0)
    return job_id, leases


async def statuses(world: World, job_id: str) -> list[str]:
    """The state of each stage, in the order of STAGES."""
    return [await world.status(job_id, stage) for stage in STAGES]


@case(any_clock=True)
async def pausing_a_job_gates_claims_only(world: World) -> None:
    job_id, leases = await mixed(world)
    before = await statuses(world, job_id)
    async with world.logs("job pause processing>processing"):
        assert await world.store.operator.set_control([job_id], "PAUSED", reason="lunch") == [job_id]
    job = await world.store.read.job(job_id)
    assert (job.control, job.status) == ("PAUSED", "processing")
    assert (await world.events(job_id))[-1].reason == "lunch"
    assert await statuses(world, job_id) == before == ["DONE", "RUNNING", "READY", "ERROR", "NEW"]
    live = [task for task in await world.store.read.tasks(job_id) if task.stage != "done"]
    assert {(task.job_control, task.control) for task in live} == {("PAUSED", "READY")}
    async with world.unchanged():
        assert await world.store.operator.set_control([job_id], "PAUSED") == []
        assert await world.claim(limit=9) == []
    assert (await world.renew(leases["running"])).accepted
    await world.finish(leases["running"])
    await world.store.recovery.wake()
    assert await world.claim(limit=9) == []
    async with world.logs("job resume processing>processing"):
        assert await world.store.operator.set_control([job_id], "READY") == [job_id]
    assert {lease.stage for lease in await world.claim(limit=9)} == {"ready", "error"}


@case()
async def skipping_a_job_ends_it(world: World) -> None:
    job_id, leases = await mixed(world)
    async with world.logs(
        "job skip processing>processing",
        "task revoke RUNNING>READY",
        "task skip READY>SKIPPED",
        "task skip READY>SKIPPED",
        "task skip ERROR>SKIPPED",
        "task skip NEW>SKIPPED",
        "job complete processing>completed",
    ):
        assert await world.store.operator.set_control([job_id], "SKIP") == [job_id]
    assert await statuses(world, job_id) == ["DONE", "SKIPPED", "SKIPPED", "SKIPPED", "SKIPPED"]
    async with world.unchanged():
        answer = await world.complete(leases["running"])
    assert (answer.accepted, answer.order, answer.status) == (False, "cancel", "SKIPPED")


@case()
async def skipping_a_job_that_is_split_skips_its_segments(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.fan())
    await world.finish(await world.lease(), {"segments": 2})
    await world.store.operator.set_control([job_id], "SKIP")
    assert await world.job_status(job_id) == "completed"
    counts = await world.store.read.task_counts(job_id)
    assert counts == {
        ("split", "DONE"): 1,
        ("encode", "SKIPPED"): 2,
        ("check", "SKIPPED"): 2,
        ("join", "SKIPPED"): 1,
    }
    unsplit = await world.submit(world.fan())
    await world.store.operator.set_control([unsplit], "SKIP")
    assert await world.job_status(unsplit) == "completed"


@case()
async def single_tasks_are_paused_and_resumed_in_every_live_state(world: World) -> None:
    job_id, leases = await mixed(world)
    before = await statuses(world, job_id)
    tasks = [await world.task(job_id, stage) for stage in STAGES[1:]]
    ids = [task.id for task in tasks]
    assert await world.store.operator.set_task_control(ids, "PAUSED") == sorted(ids)
    assert {(await world.store.read.task(i)).control for i in ids} == {"PAUSED"}
    assert await statuses(world, job_id) == before
    assert await world.claim(limit=9) == []
    assert (await world.release(leases["running"])).accepted
    await world.store.recovery.wake()
    assert await world.claim(limit=9) == [], "what is released or woken stays paused"
    await world.store.operator.set_task_control([*ids, ids[0]], "READY")
    assert {lease.stage for lease in await world.claim(limit=9)} == {"running", "ready", "error"}


@case()
async def a_pause_and_a_resume_of_a_task_are_logged(world: World) -> None:
    job_id = await world.submit()
    task = await world.task(job_id)
    async with world.logs("task pause READY>READY"):
        await world.store.operator.set_task_control([task.id], "PAUSED", reason="look at it")
    assert (await world.events(job_id))[-1].reason == "look at it"
    async with world.logs("task resume READY>READY"):
        await world.store.operator.set_task_control([task.id], "READY")


@case()
async def single_tasks_are_skipped_in_every_live_state(world: World) -> None:
    job_id, leases = await mixed(world)
    tasks = {stage: await world.task(job_id, stage) for stage in STAGES}
    async with world.logs("task revoke RUNNING>READY", "task skip READY>SKIPPED"):
        await world.store.operator.set_task_control([tasks["running"].id], "SKIP", reason="slow")
    async with world.unchanged():
        answer = await world.fail(leases["running"])
    assert (answer.accepted, answer.order) == (False, "cancel")
    skipped = await world.task(job_id, "running")
    assert (skipped.status, skipped.control, skipped.attempt, skipped.epoch) == ("SKIPPED", "SKIP", 1, 1)
    async with world.logs("task skip NEW>SKIPPED", "task skip READY>SKIPPED"):
        await world.store.operator.set_task_control([tasks["new"].id, tasks["ready"].id], "SKIP")
    assert await world.job_status(job_id) == "processing"
    async with world.logs("task skip ERROR>SKIPPED", "job complete processing>completed"):
        await world.store.operator.set_task_control([tasks["error"].id], "SKIP")


@case()
async def controls_have_three_words(world: World) -> None:
    job_id = await world.submit()
    task = await world.task(job_id)
    for word in ("STOP", "ready", ""):
        async with world.refuses(InvalidInput):
            await world.store.operator.set_control([job_id], word)  # type: ignore[arg-type]
        async with world.refuses(InvalidInput):
            await world.store.operator.set_task_control([task.id], word)  # type: ignore[arg-type]
    async with world.unchanged():
        assert await world.store.operator.set_control([], "PAUSED") == []
        assert await world.store.operator.set_task_control([], "PAUSED") == []


@case()
async def a_paused_job_can_be_cancelled_and_skipped(world: World) -> None:
    one, two = await world.submit(), await world.submit()
    await world.store.operator.set_control([one, two], "PAUSED")
    await world.store.operator.cancel([one])
    await world.store.operator.set_control([two], "SKIP")
    assert [await world.job_status(i) for i in (one, two)] == ["cancelled", "completed"]


@case()
async def reasons_are_stored_as_far_as_they_can_be(world: World) -> None:
    one, two = await world.submit(), await world.submit()
    reason = "x" * 5000 + "\x00cause"
    await world.store.operator.set_control([one], "PAUSED", reason=reason)
    await world.store.operator.cancel([two], reason=reason)
    events = [event for event in await world.events() if event.reason]
    assert len(events) == 2
    for event in events:
        assert event.reason is not None
        assert (len(event.reason) <= 2000, "cause" in event.reason) == (True, True)
