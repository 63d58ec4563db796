"""Adopting the rows of a control table as jobs, and what the table shows of them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from takeup.core.control import ADOPT_MAX, Adoption, ControlRow, control_job
from takeup.core.errors import InvalidInput, UnknownStage
from takeup.core.pipeline import Pipeline
from takeup.core.plan import NewJob
from takeup.store.ops.control import ControlFilter
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World


def table(world: World) -> Pipeline:
    """Three stages in a chain, keyed by a pair."""
    stages = [world.stage("a"), world.stage("b", needs=("a",)), world.stage("c", needs=("b",))]
    return Pipeline.of("table", stages, key=("url", "iteration"), lease=60.0)


def row(pipeline: Pipeline, url: str = "u", iteration: int = 1, **options: Any) -> NewJob:
    """The job of a pair."""
    return control_job(pipeline, {"url": url, "iteration": iteration}, **options)


async def adopt(world: World, *adoptions: Adoption, reason: str = "done before") -> list[str]:
    """Adopt what is new, all of it; answers with the job ids."""
    ids = [i for i in await world.store.operator.adopt(adoptions, reason=reason) if i is not None]
    assert len(ids) == len(adoptions)
    return ids


async def shown(world: World, url: str = "u") -> ControlRow:
    """The one row of this url."""
    rows = await world.store.read.control_rows("table")
    (found,) = [one for one in rows if one.url == url]
    return found


@case(any_clock=True)
async def an_adopted_job_starts_where_its_work_goes_on(world: World) -> None:
    pipeline = table(world)
    async with world.logs(
        "job create >pending",
        "task create >READY",
        "task create >NEW",
        "task create >NEW",
        "task skip READY>SKIPPED",
        "task ready NEW>READY",
    ):
        (job_id,) = await adopt(world, Adoption(row(pipeline), done=("a",)))
    assert [await world.status(job_id, stage) for stage in "abc"] == ["SKIPPED", "READY", "NEW"]
    skip = next(event for event in await world.events(job_id) if event.event == "skip")
    assert (skip.reason, skip.actor) == ("done before", "operator")
    found = await shown(world)
    assert (found.stage, found.status, found.task_state) == ("b", "READY", "READY")
    await world.add_worker()
    assert (await world.lease()).stage == "b"


@case()
async def a_job_of_which_all_is_done_is_completed(world: World) -> None:
    (job_id,) = await adopt(world, Adoption(row(table(world)), done=("a", "b", "c")))
    assert await world.job_status(job_id) == "completed"
    found = await shown(world)
    assert (found.stage, found.status, found.task_state) == ("c", "COMPLETED", "READY")


@case()
async def a_job_to_skip_ends_at_once(world: World) -> None:
    (job_id,) = await adopt(world, Adoption(row(table(world)), done=("a",), is_skipped=True))
    assert await world.job_status(job_id) == "completed"
    assert (await shown(world)).task_state == "SKIP"
    await world.add_worker()
    assert await world.claim() == []


@case()
async def a_splitter_is_left_out_with_what_it_splits(world: World) -> None:
    fan = NewJob(world.fan(), subject="s")
    (job_id,) = await adopt(world, Adoption(fan, done=("split", "encode", "check")))
    assert await world.store.read.task_counts(job_id) == {("split", "SKIPPED"): 1, ("join", "READY"): 1}
    await world.add_worker()
    await world.finish(await world.lease())
    assert await world.job_status(job_id) == "completed"


@case()
async def a_subject_that_had_a_job_is_left_alone(world: World) -> None:
    pipeline = table(world)
    first, second = await adopt(
        world,
        Adoption(row(pipeline, "live", control="PAUSED")),
        Adoption(row(pipeline, "gone"), done=("a", "b", "c")),
    )
    again = [
        Adoption(row(pipeline, "live")),
        Adoption(row(pipeline, "gone")),
        Adoption(control_job(pipeline, {"url": "live", "iteration": 1, "title": "other"})),
    ]
    async with world.unchanged():
        assert await world.store.operator.adopt(again) == [None, None, None]
    world.advance(10)
    await world.store.recovery.archive(1)
    async with world.unchanged():
        assert await world.store.operator.adopt(again) == [None, None, None]
        assert await world.store.operator.adopt([]) == []
    assert (await world.store.read.job(first)).control == "PAUSED"
    new = await world.store.operator.adopt([Adoption(row(pipeline, url)) for url in ("live", "new", "new")])
    assert [new[0], new[2]] == [None, None], "the first of a batch wins"
    assert new[1] not in (None, first, second)


@case()
async def a_paused_or_later_row_is_adopted_as_such(world: World) -> None:
    assert world.clock is not None
    pipeline, now = table(world), world.clock.now()
    paused = Adoption(row(pipeline, "paused", control="PAUSED"), done=("a",))
    later = Adoption(row(pipeline, "later", not_before=now + timedelta(seconds=30)), done=("a",))
    one, two = await adopt(world, paused, later)
    await world.add_worker()
    assert await world.claim(limit=9) == []
    assert (await shown(world, "paused")).task_state == "PAUSED"
    assert [await world.status(two, stage) for stage in "abc"] == ["SKIPPED", "NEW", "NEW"]
    world.advance(30)
    await world.advance_jobs(one, two)
    assert [lease.job_id for lease in await world.claim(limit=9)] == [two]
    await world.store.operator.set_control([one], "READY")
    assert [lease.stage for lease in await world.claim(limit=9)] == ["b"]


@case()
async def what_cannot_be_adopted_is_refused(world: World) -> None:
    pipeline = table(world)
    async with world.refuses(UnknownStage):
        await world.store.operator.adopt([Adoption(row(pipeline), done=("nonsense",))])
    for unusable in (
        Adoption(NewJob(world.pipeline())),
        Adoption(NewJob(world.fan(), subject="s"), ("split",)),
    ):
        async with world.refuses(InvalidInput):
            await world.store.operator.adopt([unusable])
    async with world.refuses(InvalidInput):
        await world.store.operator.adopt([Adoption(row(pipeline))] * (ADOPT_MAX + 1))


@case()
async def the_table_shows_each_state(world: World) -> None:
    await world.add_worker()
    (job_id,) = await adopt(world, Adoption(row(table(world))))
    first = await shown(world)
    assert (first.stage, first.status, first.task_state, first.is_claimed) == ("a", "READY", "READY", False)
    assert (first.worker_id, first.lease_until, first.job_id) == (None, None, job_id)
    world.advance(5)
    lease = await world.lease()
    held = await shown(world)
    assert (held.status, held.is_claimed, held.worker_id) == ("IN_PROGRESS", True, "w")
    assert (held.lease_until, held.updated_at) == (lease.expires_at, first.updated_at + timedelta(seconds=5))
    world.advance(5)
    await world.fail(lease, "boom")
    broken = await shown(world)
    assert (broken.status, broken.is_claimed, broken.error) == ("ERROR", False, "boom")
    assert broken.updated_at == first.updated_at + timedelta(seconds=10)
    world.advance(10)
    await world.store.recovery.wake()
    await world.finish(await world.lease())
    await world.advance_jobs(job_id)
    assert replace(await shown(world), updated_at=first.updated_at) == replace(first, stage="b")
    await world.store.operator.set_task_control([(await world.task(job_id, "b")).id], "PAUSED")
    assert (await shown(world)).task_state == "PAUSED"
    await world.store.operator.set_control([job_id], "SKIP")
    last = await shown(world)
    assert (last.stage, last.status, last.task_state) == ("c", "COMPLETED", "SKIP")


@case()
async def the_table_shows_the_newest_job_and_only_pairs(world: World) -> None:
    pipeline = table(world)
    (job_id,) = await adopt(world, Adoption(row(pipeline)))
    await world.store.operator.cancel([job_id])
    assert (await shown(world)).status == "ERROR"
    again = await world.submit(pipeline, spec={"url": "u", "iteration": 1})
    for spec in (
        {"url": 5, "iteration": 1},
        {"url": "u", "iteration": "1"},
        {"url": "u", "iteration": 1.5},
        {},
    ):
        await world.submit(pipeline, spec=spec, subject=f"s {spec}")
    assert [one.job_id for one in await world.store.read.control_rows("table")] == [again]
    assert (await shown(world)).generation == 2
    found = await world.store.read.control_row('table:["u",1]')
    assert found == await shown(world)
    assert await world.store.read.control_row("nonsense") is None


@case()
async def the_table_is_read_in_pages_and_filtered(world: World) -> None:
    pipeline = table(world)
    plain = [Adoption(row(pipeline, f"u{i}")) for i in range(5)]
    ids = await adopt(world, *plain, Adoption(row(pipeline, "p", control="PAUSED"), done=("a",)))
    first = await world.store.read.control_rows("table", limit=4)
    rest = await world.store.read.control_rows("table", after=first[-1].job_id, limit=4)
    assert [one.job_id for one in (*first, *rest)] == sorted(ids)
    for where in (ControlFilter(stage="b"), ControlFilter(task_state="PAUSED")):
        (found,) = await world.store.read.control_rows("table", where)
        assert found.url == "p"
    assert await world.store.read.control_rows("table", ControlFilter(status="ERROR")) == []
    assert await world.store.read.control_rows("elsewhere") == []
    async with world.refuses(InvalidInput):
        await world.store.read.control_rows("table", limit=0)


@case()
async def the_worklist_holds_what_can_be_claimed_now(world: World) -> None:
    assert world.clock is not None
    await world.add_worker()
    pipeline = table(world)
    later = row(pipeline, "later", not_before=world.clock.now() + timedelta(seconds=30))
    await adopt(
        world,
        Adoption(row(pipeline, "one")),
        Adoption(row(pipeline, "two"), done=("a",)),
        Adoption(replace(row(pipeline, "urgent"), priority=9)),
        Adoption(row(pipeline, "paused", control="PAUSED")),
        Adoption(row(pipeline, "skipped"), is_skipped=True),
        Adoption(row(pipeline, "done"), done=("a", "b", "c")),
        Adoption(later),
    )
    work = await world.store.read.worklist("table")
    assert [(one.url, one.stage) for one in work] == [("urgent", "a"), ("one", "a"), ("two", "b")]
    assert [one.url for one in await world.store.read.worklist("table", stage="b")] == ["two"]
    assert [one.url for one in await world.store.read.worklist("table", limit=1)] == ["urgent"]
    assert await world.store.read.worklist("elsewhere") == []
    (own,) = await world.store.read.worklist_of('table:["one",1]')
    lease = await world.store.worker.claim_task(world.request(), own.task_id)
    assert lease is not None
    assert [one.url for one in await world.store.read.worklist("table")] == ["urgent", "two"]
    assert await world.store.read.worklist_of('table:["one",1]') == []
    world.advance(60)
    assert [one.url for one in await world.store.read.worklist("table")] == ["urgent", "one", "two"]
    assert await world.store.read.worklist_of('table:["one",1]') == [own]
