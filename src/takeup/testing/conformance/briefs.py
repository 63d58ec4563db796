"""What a worker reads about its tasks: specs, inputs, what it still holds, what became of its attempts."""

from takeup.core.ids import nonce_hash
from takeup.core.model import Artifact, Brief, Held, Lease, MadeInput
from takeup.testing.conformance.register import case
from takeup.testing.conformance.world import World


def folder_of(lease: Lease) -> tuple[int, int, str]:
    """The name of an attempt's folder, in parts."""
    return lease.task_id, lease.token.epoch, nonce_hash(lease.token.nonce)


def file_of(name: str) -> Artifact:
    """An output file."""
    return Artifact(name, f"pipe/{name}", "a" * 64, 3)


@case()
async def a_brief_holds_spec_and_subject(world: World) -> None:
    first = await world.submit(spec={"n": 1, "deep": {"list": [1, None, "ü"]}}, subject="s")
    second = await world.submit()
    found = await world.store.worker.briefs([first, second, "job_unknown"])
    assert found == {first: Brief({"n": 1, "deep": {"list": [1, None, "ü"]}}, "s"), second: Brief({}, None)}


@case()
async def inputs_are_what_the_needed_stages_made(world: World) -> None:
    """A segment sees its own, a join all of them in order, and a splitter's result is whole."""
    await world.add_worker(slots=9)
    job_id = await world.submit(world.fan())
    split = await world.lease()
    await world.complete(split, {"segments": 3}, (file_of("plan"),))
    await world.advance_jobs(job_id)
    encodes = await world.claim(limit=9)
    page = await world.store.worker.inputs(encodes[1], "split")
    assert page.made == (MadeInput(None, {"segments": 3}, {"plan": "pipe/plan"}, split.task_id, 1),)
    for lease in reversed(encodes):
        await world.complete(lease, {"n": lease.segment}, (file_of(f"part{lease.segment}"),))
    await world.advance_jobs(job_id)
    checks = await world.claim(limit=9)
    page = await world.store.worker.inputs(checks[2], "encode")
    assert page.made == (MadeInput(2, {"n": 2}, {"part2": "pipe/part2"}, encodes[2].task_id, 1),)
    for lease in checks:
        await world.finish(lease, {"n": lease.segment})
    await world.advance_jobs(job_id)
    join = await world.lease()
    page = await world.store.worker.inputs(join, "check")
    assert [made.result for made in page.made] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert (await world.store.worker.inputs(join, "check", after=1)).made == page.made[2:]
    assert page.after is None


@case()
async def a_stage_sees_what_it_made_in_a_run_that_failed(world: World) -> None:
    """Of the last such run with the same spec, for the same segment; never of one that was completed."""
    await world.add_worker(slots=9)
    fan = world.fan()
    failed = await world.submit(fan, subject="s", spec={"n": 1})
    await world.finish(await world.lease(), {"segments": 2})
    await world.advance_jobs(failed)
    first, second = await world.claim(limit=9)
    await world.complete(first, {"by": 1}, (file_of("part"),))
    await world.fail(second, retryable=False)
    await world.advance_jobs(failed)
    assert (await world.store.read.job(failed)).status == "failed"
    other = await world.submit(fan, subject="s", spec={"n": 2})
    lease = await world.lease()
    assert (await world.store.worker.inputs(lease, "split")).made == ()
    assert await world.store.read.failed_before(other) == [failed]
    await world.store.operator.cancel([other])
    await world.release(lease)
    (again,) = await world.store.operator.retry([failed])
    split = await world.lease()
    (former,) = (await world.store.worker.inputs(split, "split")).made
    assert (former.segment, former.result) == (None, {"segments": 2})
    await world.finish(split, {"segments": 2})
    await world.advance_jobs(again)
    leases = await world.claim(limit=9)
    found = [(await world.store.worker.inputs(lease, "encode")).made for lease in leases]
    assert found == [(MadeInput(0, {"by": 1}, {"part": "pipe/part"}, first.task_id, 1),), ()]
    assert await world.store.read.failed_before(again) == [failed]
    assert await world.store.read.failed_before(failed) == []


@case()
async def a_glance_shows_what_is_still_held(world: World) -> None:
    await world.add_worker("w", slots=3)
    for _ in range(3):
        await world.submit()
    leases = await world.claim(limit=3)
    held = [lease.held for lease in leases]
    async with world.unchanged():
        seen = await world.store.worker.glance("w", held)
        assert (seen.status, seen.held) == ("active", frozenset(lease.task_id for lease in leases))
        forged = Held(held[0].task_id, held[0].token._replace(nonce="f" * 32))
        assert (await world.store.worker.glance("w", [forged])).held == frozenset()
        assert (await world.store.worker.glance("other", held)).held == frozenset()
        assert (await world.store.worker.glance("w", [])).status == "active"
        assert (await world.store.worker.glance("nobody", [])).status == "unknown"
    await world.store.operator.cancel([leases[0].job_id])
    await world.release(leases[1])
    await world.store.operator.drain(["w"])
    seen = await world.store.worker.glance("w", held)
    assert (seen.status, seen.held) == ("draining", frozenset({leases[2].task_id}))


@case()
async def a_glance_shows_no_lease_that_is_over(world: World) -> None:
    await world.add_worker("w", slots=3)
    for _ in range(2):
        await world.submit()
    cut = await world.lease("w")
    await world.add_worker("w", slots=3)
    late = await world.lease("w")
    seen = await world.store.worker.glance("w", [cut.held, late.held])
    assert seen.held == frozenset({late.task_id}), "a newer process of the worker registered"
    world.advance(60)
    assert (await world.store.worker.glance("w", [late.held])).held == frozenset()


@case()
async def the_fate_of_an_attempt_tells_what_to_do_with_its_files(world: World) -> None:
    await world.add_worker("w")
    await world.submit()
    first = await world.lease()
    assert [fate.fate for fate in await world.store.worker.fates([folder_of(first)])] == ["held"]
    await world.release(first)
    assert [fate.fate for fate in await world.store.worker.fates([folder_of(first)])] == ["open"]
    second = await world.lease()
    fates = await world.store.worker.fates([folder_of(first), folder_of(second), (999, 1, "0" * 32)])
    assert {fate.folder: fate.fate for fate in fates} == {
        folder_of(first): "open",
        folder_of(second): "held",
        (999, 1, "0" * 32): "gone",
    }
    await world.complete(second, {}, (file_of("b"), file_of("a")))
    fates = await world.store.worker.fates([folder_of(first), folder_of(second)])
    assert {fate.folder: fate[1:] for fate in fates} == {
        folder_of(first): ("over", None, None),
        folder_of(second): ("won", "pipe/a", "a"),
    }


@case()
async def a_claim_told_not_to_takes_nothing_back(world: World) -> None:
    await world.add_worker("w")
    await world.add_worker("other")
    await world.submit()
    lease = await world.lease()
    world.advance(lease.lease_s + 1)
    async with world.unchanged():
        assert await world.store.worker.claim(world.request("other"), takes_back=False) == []
    assert len(await world.claim("other")) == 1
