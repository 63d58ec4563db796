"""Running finished jobs again: a new generation, planned from the rows of the old one."""

from takeup.core.errors import IllegalMove, NotFound, SubjectBusy
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World


@case(any_clock=True)
async def a_failed_job_is_run_again_as_a_new_generation(world: World) -> None:
    await world.add_worker()
    old = await world.submit(world.fan(), subject="s", spec={"n": 1}, idempotency_key="k", user_id="u")
    await world.store.operator.set_priority([old], 8)
    await world.fail(await world.lease(), retryable=False)
    await world.advance_jobs(old)
    assert await world.job_status(old) == "failed"
    async with world.logs("job create >pending", "task create >READY", "task create >NEW"):
        (new,) = await world.store.operator.retry([old])
    before, after = await world.store.read.job(old), await world.store.read.job(new)
    assert (before.status, before.generation, after.status, after.generation) == ("failed", 1, "pending", 2)
    assert (after.spec, after.subject, after.user_id, after.priority) == ({"n": 1}, "s", "u", 8)
    assert (after.idempotency_key, after.control) == (None, "READY")
    await world.finish(await world.lease(), {"segments": 2})
    await world.advance_jobs(new)
    for _ in range(2):
        for lease in await world.claim(limit=9):
            await world.finish(lease)
        await world.advance_jobs(new)
    await world.finish(await world.lease())
    assert await world.job_status(new) == "completed"
    (third,) = await world.store.operator.retry([new])
    assert (await world.store.read.job(third)).generation == 3


@case()
async def a_job_that_was_paused_or_delayed_is_run_again_at_once(world: World) -> None:
    await world.add_worker()
    old = await world.submit(control="PAUSED")
    await world.store.operator.cancel([old])
    (new,) = await world.store.operator.retry([old])
    assert (await world.store.read.job(new)).generation == 1
    assert (await world.lease()).job_id == new


@case()
async def what_cannot_be_run_again_is_refused(world: World) -> None:
    await world.add_worker()
    live = await world.submit(subject="s")
    async with world.refuses(IllegalMove):
        await world.store.operator.retry([live])
    async with world.refuses(NotFound):
        await world.store.operator.retry(["job_nobody"])
    await world.store.operator.cancel([live])
    other = await world.submit(subject="s")
    async with world.refuses(SubjectBusy):
        await world.store.operator.retry([live])
    await world.store.operator.cancel([other])
    async with world.refuses(SubjectBusy):
        await world.store.operator.retry([live, other])
    async with world.unchanged():
        assert await world.store.operator.retry([]) == []
