"""Renewing: the holder extends its lease, notes progress and receives its orders."""

from datetime import timedelta

from takeup.core.errors import InvalidInput
from takeup.core.model import Progress
from takeup.core.plan import NewJob
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World


@case()
async def a_renewal_extends_the_lease(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    world.advance(LEASE_S - 1)
    async with world.logs("task renew RUNNING>RUNNING"):
        answer = await world.renew(lease, 12.5, "half of it")
    assert world.clock is not None
    expected = world.clock.now() + timedelta(seconds=LEASE_S)
    assert (answer.accepted, answer.status, answer.order) == (True, "RUNNING", "continue")
    task = await world.task(job_id)
    assert answer.expires_at == task.lease_expires_at == expected
    assert (task.progress_percent, task.progress_note) == (12.5, "half of it")
    assert task.progress_at == world.clock.now()
    assert (task.epoch, task.attempt, task.status) == (1, 1, "RUNNING")
    assert (await world.store.read.job(job_id)).version == 2


@case(any_clock=True)
async def progress_is_kept_within_bounds(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    for percent, kept in ((-5.0, 0.0), (250.0, 100.0), (float("inf"), 100.0), (40, 40.0), (None, 40.0)):
        assert (await world.renew(lease, percent)).accepted
        assert (await world.task(job_id)).progress_percent == kept
    await world.renew(lease, None, "a note")
    await world.renew(lease, 41.0)
    task = await world.task(job_id)
    assert (task.progress_percent, task.progress_note) == (41.0, "a note")


@case()
async def a_percentage_that_is_no_number_is_refused(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    async with world.refuses(InvalidInput):
        await world.renew(lease, float("nan"))


@case()
async def a_note_is_stored_as_far_as_it_can_be(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    assert (await world.renew(lease, None, "x" * 10_000 + "end\x00\ud800")).accepted
    note = (await world.task(job_id)).progress_note
    assert note is not None
    assert (len(note) <= 2000, "end" in note, "\x00" in note) == (True, True, False)


@case()
async def a_lease_never_gets_shorter(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    assert world.clock is not None
    world.clock.set_back(30)
    answer = await world.renew(lease)
    assert (answer.accepted, answer.expires_at) == (True, lease.expires_at)


@case()
async def a_lease_that_is_over_is_lost(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    world.advance(LEASE_S)
    async with world.unchanged():
        answer = await world.renew(lease, 50.0)
    assert (answer.accepted, answer.order, answer.status) == (False, "lost", "RUNNING")


@case()
async def without_progress_the_stage_stalls(world: World) -> None:
    await world.add_worker()
    await world.submit(world.pipeline(world.stage("work", stall_s=90.0)))
    lease = await world.lease()
    for _ in range(2):
        world.advance(44)
        assert (await world.renew(lease)).accepted, "a renewal without progress is fine within the limit"
    world.advance(2)
    async with world.unchanged():
        answer = await world.renew(lease)
    assert (answer.accepted, answer.order) == (False, "stalled")
    answer = await world.renew(lease, None, "moving again")
    assert (answer.accepted, answer.order) == (True, "continue")
    world.advance(50)
    assert (await world.renew(lease)).accepted


@case()
async def the_answer_carries_the_order_to_drain(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    await world.store.operator.drain(["w"])
    answer = await world.renew(lease)
    assert (answer.accepted, answer.order) == (True, "drain")
    await world.finish(lease)


@case()
async def the_answer_carries_the_order_to_cancel(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    await world.store.operator.cancel([job_id], reason="not wanted")
    async with world.unchanged():
        answer = await world.renew(lease)
    assert (answer.accepted, answer.order, answer.status) == (False, "cancel", "CANCELLED")
    assert answer.reason == "not wanted"
    other = await world.submit()
    lease = await world.lease()
    await world.store.operator.set_task_control([(await world.task(other)).id], "SKIP")
    assert (await world.renew(lease)).order == "cancel"


@case()
async def a_disabled_worker_can_renew_and_finish_nothing(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    await world.store.operator.disable(["w"])
    async with world.unchanged():
        for report in (world.renew, world.complete, world.fail, world.release):
            answer = await report(lease)
            assert (answer.accepted, answer.order) == (False, "lost"), report
    await world.store.operator.enable(["w"])
    await world.finish(lease)


@case()
async def many_are_answered_in_their_order(world: World) -> None:
    await world.add_worker()
    pipeline = world.pipeline()
    await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(4)])
    leases = await world.claim(limit=4)
    await world.finish(leases[2])
    reports = [Progress(lease.held, 10.0) for lease in reversed(leases)]
    answers = await world.store.worker.renew("w", reports, request_id="again")
    assert [answer.task_id for answer in answers] == [report.held.task_id for report in reports]
    assert [answer.accepted for answer in answers] == [True, False, True, True]
    renewed = [event for event in await world.events() if event.event == "renew"]
    assert [event.request_id for event in renewed] == ["again"] * 3
    async with world.unchanged():
        assert await world.store.worker.renew("w", []) == []
