"""Completing: results and artifacts of the holder, and the job closed in the same step."""

from takeup.core.errors import InvalidInput, TakeupError
from takeup.core.model import Artifact, Completion
from takeup.core.plan import NewJob
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import LEASE_S, World

FILES = (Artifact("b", "k/b", "b" * 64, 2), Artifact("a", "k/a", "a" * 64, 0))


@case(any_clock=True)
async def a_completion_ends_task_and_job(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(subject="s")
    lease = await world.lease()
    async with world.logs("task complete RUNNING>DONE", "job complete processing>completed"):
        answer = await world.complete(lease, {"out": [1, "ü"]}, FILES)
    assert (answer.task_id, answer.accepted, answer.status) == (lease.task_id, True, "DONE")
    assert (answer.order, answer.reason) == ("continue", None)
    task, job = await world.task(job_id), await world.store.read.job(job_id)
    assert (task.status, task.result, task.error) == ("DONE", {"out": [1, "ü"]}, None)
    assert (task.progress_percent, task.attempt, task.epoch) == (100.0, 1, 1)
    assert (task.lease_owner, task.lease_slot, task.lease_expires_at, task.claimed_at) == (None,) * 4
    assert task.finished_at is not None
    assert (job.status, job.error, job.version) == ("completed", None, 3)
    assert job.finished_at is not None
    assert await world.store.read.artifacts(job_id) == sorted(FILES, key=lambda file: file.name)
    (message,) = await world.store.recovery.take_messages()
    assert (message.topic, message.subject) == ("job.completed", job_id)
    assert message.body == {"job_id": job_id, "status": "completed"}


@case()
async def a_job_stays_open_until_its_last_task(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.pipeline("a", "b", "c"))
    leases = await world.claim(limit=3)
    async with world.logs("task complete RUNNING>DONE", "task complete RUNNING>DONE"):
        await world.store.worker.complete("w", [Completion(lease.held) for lease in leases[:2]])
    assert await world.job_status(job_id) == "processing"
    async with world.logs("task complete RUNNING>DONE", "job complete processing>completed"):
        await world.finish(leases[2])


@case()
async def the_last_tasks_of_a_job_may_end_in_one_batch(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.pipeline("a", "b"))
    other = await world.submit(world.pipeline("a"))
    leases = await world.claim(limit=3)
    reports = [Completion(lease.held, {"n": lease.task_id}) for lease in leases]
    answers = await world.store.worker.complete("w", reports, request_id="done")
    assert [answer.accepted for answer in answers] == [True] * 3
    assert [await world.job_status(i) for i in (job_id, other)] == ["completed"] * 2
    ends = [e for e in await world.events() if e.event == "complete"]
    assert [event.request_id for event in ends] == ["done"] * 5


@case()
async def the_last_task_closes_a_job_that_failed(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.pipeline("a", "b"))
    one, two = await world.claim(limit=2)
    await world.fail(one, "broken", retryable=False)
    assert await world.job_status(job_id) == "processing"
    async with world.logs("task complete RUNNING>DONE", "job fail processing>failed"):
        await world.finish(two)
    assert (await world.store.read.job(job_id)).error == "a: broken"


@case()
async def a_lease_that_is_over_completes_nothing(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    world.advance(LEASE_S)
    async with world.unchanged():
        answer = await world.complete(lease, {}, FILES)
    assert (answer.accepted, answer.order, answer.status) == (False, "lost", "RUNNING")


@case()
async def a_lease_that_was_renewed_completes(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    world.advance(LEASE_S - 1)
    await world.renew(lease)
    world.advance(LEASE_S - 1)
    await world.finish(lease)


@case()
async def a_splitter_must_list_its_segments(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit(world.fan())
    lease = await world.lease()
    bad: tuple[dict[str, object], ...] = (
        {},
        {"segments": -1},
        {"segments": "3"},
        {"segments": [1]},
        {"segments": True},
        {"segments": None},
    )
    async with world.unchanged():
        for result in bad:
            answer = await world.complete(lease, result, FILES)
            assert (answer.accepted, answer.status, answer.order) == (False, "RUNNING", "continue"), result
            assert answer.reason is not None
            assert "segments" in answer.reason
    answer = await world.complete(lease, {"segments": 2}, FILES)
    assert answer.accepted
    assert len(await world.store.read.artifacts(job_id)) == 2


@case()
async def artifacts_of_a_refused_completion_are_not_kept(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    await world.store.operator.disable(["w"])
    async with world.unchanged():
        assert not (await world.complete(lease, {}, FILES)).accepted
    await world.store.operator.enable(["w"])
    await world.store.operator.cancel([job_id])
    async with world.unchanged():
        assert not (await world.complete(lease, {}, FILES)).accepted


@case()
async def one_name_for_two_artifacts_is_refused(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    async with world.refuses(InvalidInput):
        await world.complete(lease, {}, (FILES[0], FILES[0]))
    assert (await world.complete(lease, {}, FILES)).accepted


@case()
async def a_result_that_is_not_json_is_refused(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    for result in ({"a": {1}}, {"a": float("inf")}, {"a": "\x00"}, {"a": "x" * 1_000_001}):
        async with world.unchanged():
            try:
                await world.complete(lease, result)
            except InvalidInput as error:
                assert "result" in str(error)  # noqa: PT017 - the case also runs without pytest
            else:
                raise AssertionError("a result that is not JSON was taken")
    await world.finish(lease)


@case()
async def a_job_without_started_tasks_can_close(world: World) -> None:
    job_id = await world.submit(world.chain("a", "b"))
    tasks = await world.store.read.tasks(job_id)
    await world.store.operator.set_task_control([task.id for task in tasks], "SKIP")
    job = await world.store.read.job(job_id)
    assert (job.status, job.started_at) == ("completed", None)


@case()
async def a_finished_moment_is_never_before_the_start(world: World) -> None:
    await world.add_worker()
    job_id = await world.submit()
    lease = await world.lease()
    assert world.clock is not None
    world.clock.set_back(3600)
    await world.finish(lease)
    task, job = await world.task(job_id), await world.store.read.job(job_id)
    assert task.finished_at == task.started_at
    assert job.finished_at == job.started_at


@case()
async def many_with_a_stale_one_among_them(world: World) -> None:
    await world.add_worker()
    pipeline = world.pipeline()
    jobs = await world.store.operator.submit([NewJob(pipeline, {"n": n}) for n in range(3)])
    leases = await world.claim(limit=3)
    await world.store.operator.cancel([jobs[1]])
    answers = await world.store.worker.complete("w", [Completion(lease.held) for lease in leases])
    assert [(a.accepted, a.order) for a in answers] == [
        (True, "continue"),
        (False, "cancel"),
        (True, "continue"),
    ]
    assert [await world.job_status(i) for i in jobs] == ["completed", "cancelled", "completed"]
    async with world.unchanged():
        assert await world.store.worker.complete("w", []) == []


@case()
async def unknown_tasks_are_refused_with_an_answer(world: World) -> None:
    await world.add_worker()
    await world.submit()
    lease = await world.lease()
    ghost = Completion(type(lease.held)(10**9, lease.token))
    async with world.unchanged():
        try:
            (answer,) = await world.store.worker.complete("w", [ghost])
        except TakeupError as error:
            raise AssertionError("a report on an unknown task must be answered") from error
    assert (answer.accepted, answer.status, answer.order) == (False, None, "lost")
