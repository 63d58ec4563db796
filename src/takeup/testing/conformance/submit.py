"""Submitting: idempotent by key, one live job a subject, all of a batch or nothing."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from takeup.core.errors import IdempotencyMismatch, InvalidInput, InvalidSpec, SubjectBusy, TakeupError
from takeup.core.plan import NewJob
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World


@case(any_clock=True)
async def one_job_writes_its_rows_and_its_log(world: World) -> None:
    pipeline = world.chain("first", "second")
    async with world.logs("job create >pending", "task create >READY", "task create >NEW"):
        job_id = await world.submit(pipeline, spec={"a": [1, None]}, subject="v1", user_id="u", priority=7)
    job = await world.store.read.job(job_id)
    assert (job.pipeline, job.subject, job.generation, job.user_id) == (pipeline.name, "v1", 1, "u")
    assert (job.priority, job.control, job.status, job.version) == (7, "READY", "pending", 1)
    assert (dict(job.spec), job.error) == ({"a": [1, None]}, None)
    assert (job.started_at, job.finished_at) == (None, None)
    assert timedelta(0) <= job.updated_at - job.created_at < timedelta(seconds=1)
    first, second = await world.store.read.tasks(job_id)
    assert (first.stage, first.status, first.segment, first.phase) == ("first", "READY", None, "processing")
    assert (second.stage, second.status, second.ready_at) == ("second", "NEW", None)
    assert (first.priority, first.control, first.job_control) == (7, "READY", "READY")
    assert (first.attempt, first.max_attempts, first.refunds, first.epoch) == (0, 3, 0, 0)
    assert (first.lease_s, first.stall_s, first.lease_owner) == (LEASE_S, None, None)
    assert first.available_at == job.created_at


@case()
async def many_jobs_are_answered_in_their_order(world: World) -> None:
    pipeline = world.pipeline()
    new = [NewJob(pipeline, {"n": n}) for n in range(20)]
    job_ids = await world.store.operator.submit(new, request_id="r1")
    assert len(set(job_ids)) == 20
    for n, job_id in enumerate(job_ids):
        assert (await world.store.read.job(job_id)).spec["n"] == n
    assert {event.request_id for event in await world.events()} == {"r1"}


@case()
async def an_empty_batch_changes_nothing(world: World) -> None:
    async with world.unchanged():
        assert await world.store.operator.submit([]) == []


@case(any_clock=True)
async def the_same_key_gives_the_same_job(world: World) -> None:
    pipeline = world.pipeline()
    job_id = await world.submit(pipeline, spec={"a": 1, "b": 2}, user_id="u", idempotency_key="k")
    async with world.unchanged():
        again = await world.submit(pipeline, spec={"b": 2, "a": 1}, user_id="u", idempotency_key="k")
    assert again == job_id
    other_user = await world.submit(pipeline, spec={"a": 1, "b": 2}, user_id="v", idempotency_key="k")
    other_key = await world.submit(pipeline, spec={"a": 1, "b": 2}, user_id="u", idempotency_key="k2")
    assert len({job_id, other_user, other_key}) == 3


@case()
async def a_key_with_another_body_is_refused(world: World) -> None:
    pipeline = world.pipeline()
    await world.submit(pipeline, spec={"a": 1}, idempotency_key="k")
    async with world.refuses(IdempotencyMismatch):
        await world.submit(pipeline, spec={"a": 2}, idempotency_key="k")
    async with world.refuses(IdempotencyMismatch):
        await world.submit(world.pipeline(), spec={"a": 1}, idempotency_key="k")
    fine = NewJob(pipeline, {"a": 3})
    async with world.refuses(IdempotencyMismatch):
        await world.store.operator.submit([fine, NewJob(pipeline, {"a": 2}, idempotency_key="k")])


@case()
async def an_exact_request_is_repeated_exactly(world: World) -> None:
    pipeline = world.pipeline()
    new = NewJob(pipeline, {"a": 1}, subject="s", idempotency_key="k", exact=True)
    (job_id,) = await world.store.operator.submit([new])
    await world.store.operator.set_priority([job_id], 9)
    others = (
        replace(new, subject="t"),
        replace(new, priority=9),
        replace(new, control="PAUSED"),
        replace(new, not_before=datetime(2030, 1, 1, tzinfo=UTC)),
    )
    async with world.unchanged():
        assert await world.store.operator.submit([new]) == [job_id]
        assert await world.store.operator.submit([replace(others[1], exact=False)]) == [job_id]
    for other in others:
        async with world.refuses(IdempotencyMismatch):
            await world.store.operator.submit([other])


@case()
async def one_key_twice_in_a_batch_is_one_job(world: World) -> None:
    pipeline = world.pipeline()
    new = NewJob(pipeline, {"a": 1}, idempotency_key="k", subject="s")
    first, second, third = await world.store.operator.submit([new, new, NewJob(pipeline)])
    assert first == second != third
    assert len(await world.store.read.jobs()) == 2
    other = NewJob(pipeline, {"a": 2}, idempotency_key="k3")
    async with world.refuses(IdempotencyMismatch):
        await world.store.operator.submit([other, NewJob(pipeline, {"a": 3}, idempotency_key="k3")])


@case()
async def a_key_is_known_after_the_job_ended_and_was_archived(world: World) -> None:
    pipeline = world.pipeline()
    await world.add_worker()
    job_id = await world.submit(pipeline, idempotency_key="k")
    await world.finish(await world.lease())
    assert await world.submit(pipeline, idempotency_key="k") == job_id
    world.advance(10)
    assert await world.store.recovery.archive(5) == [job_id]
    async with world.unchanged():
        assert await world.submit(pipeline, idempotency_key="k") == job_id
    async with world.refuses(IdempotencyMismatch):
        await world.submit(pipeline, spec={"x": 1}, idempotency_key="k")


@case()
async def an_empty_key_is_a_key_or_refused(world: World) -> None:
    pipeline = world.pipeline()
    try:
        job_id = await world.submit(pipeline, idempotency_key="")
    except InvalidInput:
        return
    assert await world.submit(pipeline, idempotency_key="") == job_id


@case()
async def a_subject_has_one_live_job(world: World) -> None:
    pipeline = world.pipeline()
    await world.submit(pipeline, subject="v1")
    async with world.refuses(SubjectBusy):
        await world.submit(pipeline, subject="v1")
    async with world.refuses(SubjectBusy):
        await world.submit(world.pipeline(), subject="v1", user_id="another")
    async with world.refuses(SubjectBusy):
        await world.store.operator.submit([NewJob(pipeline, subject="v2"), NewJob(pipeline, subject="v1")])
    async with world.refuses(SubjectBusy):
        await world.store.operator.submit([NewJob(pipeline, subject="v3"), NewJob(pipeline, subject="v3")])
    await world.submit(pipeline, subject="v2")
    await world.submit(pipeline)
    await world.submit(pipeline)


@case()
async def a_known_key_comes_before_a_busy_subject(world: World) -> None:
    pipeline = world.pipeline()
    job_id = await world.submit(pipeline, subject="v1", idempotency_key="k")
    async with world.unchanged():
        assert await world.submit(pipeline, subject="v1", idempotency_key="k") == job_id


@case()
async def generations_count_the_jobs_of_a_subject(world: World) -> None:
    pipeline = world.pipeline()
    await world.add_worker()
    generations = []
    for _ in range(3):
        job_id = await world.submit(pipeline, subject="v1")
        generations.append((await world.store.read.job(job_id)).generation)
        lease = await world.lease()
        assert lease.generation == generations[-1]
        await world.finish(lease)
    cancelled = await world.submit(pipeline, subject="v1")
    await world.store.operator.cancel([cancelled])
    world.advance(10)
    assert len(await world.store.recovery.archive(5)) == 4
    job_id = await world.submit(pipeline, subject="v1")
    assert generations == [1, 2, 3]
    assert (await world.store.read.job(job_id)).generation == 5
    assert (await world.store.read.job(await world.submit(pipeline))).generation == 1


@case()
async def the_pipelines_key_names_the_subject(world: World) -> None:
    pipeline = world.pipeline(key=("url", "turn"))
    job_id = await world.submit(pipeline, spec={"url": "u", "turn": 1, "x": 0})
    async with world.refuses(SubjectBusy):
        await world.submit(pipeline, spec={"url": "u", "turn": 1, "x": 1})
    await world.submit(pipeline, spec={"url": "u", "turn": 2})
    async with world.refuses(InvalidInput):
        await world.submit(pipeline, spec={"url": "u"})
    assert (await world.store.read.job(job_id)).subject


@case()
async def a_job_for_later_waits_for_its_time(world: World) -> None:
    assert world.clock is not None
    await world.add_worker()
    later = world.clock.now() + timedelta(seconds=100)
    job_id = await world.submit(not_before=later)
    await world.advance_jobs(job_id)
    assert (await world.status(job_id), await world.claim()) == ("NEW", [])
    world.advance(99.5)
    await world.advance_jobs(job_id)
    assert await world.status(job_id) == "NEW"
    world.advance(0.5)
    async with world.logs("task ready NEW>READY"):
        await world.advance_jobs(job_id)
    assert (await world.lease()).job_id == job_id


@case()
async def a_job_may_start_paused(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(control="PAUSED")
    assert await world.claim() == []
    await world.store.operator.set_control([job_id], "READY")
    assert (await world.lease()).job_id == job_id


@case()
async def a_job_born_as_skip_ends_or_is_refused(world: World) -> None:
    try:
        job_id = await world.submit(control="SKIP")
    except InvalidInput:
        return
    await world.advance_jobs(job_id)
    assert await world.job_status(job_id) == "completed", "a job that is to be skipped waits for ever"


@case()
async def bad_input_is_refused_before_anything_is_written(world: World) -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    naive = datetime(2030, 1, 1)  # noqa: DTZ001 - a moment without zone is the bad input
    bad: list[tuple[type[TakeupError], dict[str, Any]]] = [
        (InvalidInput, {"priority": 11}),
        (InvalidInput, {"priority": -1}),
        (InvalidInput, {"priority": True}),
        (InvalidInput, {"priority": 5.0}),
        (InvalidInput, {"control": "STOP"}),
        (InvalidInput, {"spec": [1]}),
        (InvalidInput, {"subject": "a\x00b"}),
        (InvalidInput, {"subject": "x" * 513}),
        (InvalidInput, {"user_id": "a\nb"}),
        (InvalidInput, {"idempotency_key": "\ud800"}),
        (InvalidInput, {"not_before": naive}),
        (InvalidSpec, {"spec": {"a": {1, 2}}}),
        (InvalidSpec, {"spec": {"a": float("nan")}}),
        (InvalidSpec, {"spec": {"a": "\x00"}}),
        (InvalidSpec, {"spec": {"a": "\udc00"}}),
        (InvalidSpec, {"spec": {"a": "x" * 1_000_001}}),
        (InvalidSpec, {"spec": {"a": deep}}),
    ]
    pipeline = world.pipeline()
    for error, options in bad:
        async with world.refuses(error):
            await world.submit(pipeline, **options)
