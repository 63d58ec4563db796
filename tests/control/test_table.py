"""A control table in use, on every database."""

import asyncio

import pytest

from takeup.core.control import control_subject
from takeup.core.errors import IllegalMove, InvalidInput, NotFound, UnknownStage, WorkerRefused
from takeup.core.pipeline import Pipeline, Stage
from takeup.pipelines.control import ControlTable, SyncReport, Ticket
from takeup.store.op import Op, Row, Script
from takeup.store.ops.claim import ClaimRequest
from takeup.store.ops.control import ControlFilter
from tests.control.conftest import DATABASES, PIPELINE, OpenTable

SEED_COLUMNS = {
    "url", "iteration", "stage", "status", "task_state", "is_claimed", "worker_id", "lease_until",
    "updated_at",
}  # fmt: skip

every_database = pytest.mark.parametrize("kind", DATABASES)


def rows(*urls: str) -> list[dict[str, object]]:
    return [{"url": url, "iteration": 1, "title": f"about {url}"} for url in urls]


def script(sql: str) -> Op[list[Row]]:
    return (yield Script(sql))


@every_database
async def test_sync_inserts_and_never_updates(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        table = scene.table
        assert await table.sync(rows("a", "b", "a")) == SyncReport(2, 1)
        assert await table.sync([]) == SyncReport(0, 0)
        await table.pause("a", 1, reason="look at it")
        await table.skip("b", 1)
        changed = [{**row, "title": "changed"} for row in rows("a", "b", "c")]
        assert await table.sync(changed, task_state="READY") == SyncReport(1, 2)
        assert (await table.row("a", 1)).task_state == "PAUSED"
        assert ((await table.row("b", 1)).task_state, (await table.row("b", 1)).generation) == ("SKIP", 1)
        job = await table.store.read.job((await table.row("a", 1)).job_id)
        assert job.spec == {"url": "a", "iteration": 1, "title": "about a"}


@every_database
async def test_sync_takes_the_toggle_of_new_rows(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        await scene.table.sync(rows("p"), task_state="PAUSED")
        await scene.table.sync(rows("s"), task_state="SKIP")
        assert await scene.table.worklist() == []
        states = {row.url: (row.task_state, row.status) for row in await scene.table.rows()}
        assert states == {"p": ("PAUSED", "READY"), "s": ("SKIP", "COMPLETED")}
        with pytest.raises(InvalidInput, match="task_state"):
            await scene.table.sync([], task_state="STOP")


@every_database
async def test_sync_in_batches(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        many = [{"url": f"u{i}", "iteration": i % 3} for i in range(2500)]
        assert await scene.table.sync(iter(many)) == SyncReport(2500, 0)
        assert await scene.table.sync(iter(many)) == SyncReport(0, 2500)
        assert len(await scene.table.worklist(limit=1000)) == 1000


@every_database
async def test_the_view_has_the_columns_and_values_of_the_seed(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        table = scene.table
        await table.sync(rows("a", "b"))
        await table.enlist("w")
        claimed = await table.claim("w", "a", 1)
        where = "SELECT * FROM pipeline_control WHERE url = '{}' AND iteration = 1"
        (held,) = await table.store.driver.read(script, where.format("a"))
        assert set(dict(held)) >= SEED_COLUMNS
        assert (held["stage"], held["status"], held["task_state"]) == ("fetch", "IN_PROGRESS", "READY")
        assert (bool(held["is_claimed"]), held["worker_id"]) == (True, "w")
        assert (await table.row("a", 1)).lease_until == claimed.lease.expires_at
        assert (claimed.lease.expires_at - scene.clock.now()).total_seconds() == 900
        (free,) = await table.store.driver.read(script, where.format("b"))
        assert (free["status"], bool(free["is_claimed"]), free["worker_id"]) == ("READY", False, None)
        assert free["lease_until"] is None


@every_database
async def test_a_row_goes_through_its_stages(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        table = scene.table
        await table.sync(rows("a"))
        await table.enlist("w")
        for stage in PIPELINE.stages:
            assert [one.stage for one in await table.worklist()] == [stage]
            claimed = await table.claim_next("w", stage)
            assert (claimed.url, claimed.iteration, claimed.lease.stage) == ("a", 1, stage)
            assert await table.worklist() == []
            assert (await table.release(claimed)).accepted
        row = await table.row("a", 1)
        assert (row.stage, row.status, row.task_state) == ("score", "COMPLETED", "READY")
        assert await table.worklist() == []
        assert await table.claim("w", "a", 1) is None, "what is COMPLETED is never done again"
        assert await table.rows(ControlFilter(stage="score", status="COMPLETED")) == [row]


@every_database
async def test_an_error_is_tried_again_as_the_policy_says(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        table = scene.table
        await table.sync(rows("a"))
        await table.enlist("w")
        for attempt in (1, 2, 3):
            claimed = await table.claim_next("w")
            assert claimed.lease.attempt == attempt
            assert (await table.release(claimed, "ERROR", error=f"boom {attempt}")).accepted
            row = await table.row("a", 1)
            assert (row.status, row.is_claimed, row.error) == ("ERROR", False, f"boom {attempt}")
            assert await table.claim_next("w") is None
            scene.clock.advance(300)
            await table.watchdog()
        assert (await table.store.read.job(row.job_id)).status == "failed"
        with pytest.raises(InvalidInput, match="COMPLETED or ERROR"):
            await table.release(claimed, "DONE")


@every_database
async def test_two_claimers_and_one_row(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        await scene.table.sync(rows("a"))
        tables = [ControlTable(scene.table.store, PIPELINE) for _ in range(4)]
        for number, table in enumerate(tables):
            await table.enlist(f"w{number}")
        won = await asyncio.gather(*(table.claim(f"w{n}", "a", 1) for n, table in enumerate(tables)))
        assert sum(claimed is not None for claimed in won) == 1


@every_database
async def test_copies_of_one_request_get_one_lease(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        table = scene.table
        await table.sync(rows("a"))
        await table.enlist("w", slots=4)
        (work,) = await table.worklist()
        request = ClaimRequest("w", "the same", "s" * 32)
        leases = await asyncio.gather(
            *(table.store.worker.claim_task(request, work.task_id) for _ in range(6))
        )
        assert leases[0] is not None
        assert {lease.held for lease in leases} == {leases[0].held}


@every_database
async def test_many_claimers_share_many_rows(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        table = scene.table
        await table.sync(rows(*(f"u{i}" for i in range(12))))

        async def drain(worker_id: str) -> list[str]:
            await table.enlist(worker_id)
            done = []
            while claimed := await table.claim_next(worker_id, "fetch"):
                done.append(claimed.url)
                assert (await table.release(claimed)).accepted
            return done

        done = await asyncio.gather(*(drain(f"w{n}") for n in range(3)))
        assert sorted(url for urls in done for url in urls) == sorted(f"u{i}" for i in range(12))


@every_database
async def test_a_stale_token_changes_nothing(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        table = scene.table
        await table.sync(rows("a"))
        await table.enlist("slow")
        await table.enlist("fast")
        first = await table.claim("slow", "a", 1)
        assert await table.claim("fast", "a", 1) is None
        scene.clock.advance(900)
        assert [one.url for one in await table.worklist()] == ["a"], "claimable without a watchdog"
        second = await table.claim("fast", "a", 1)
        for status in ("COMPLETED", "ERROR"):
            answer = await table.release(first, status)
            assert (answer.accepted, answer.order) == (False, "lost")
        assert not (await table.renew(first)).accepted
        row = await table.row("a", 1)
        assert (row.status, row.worker_id) == ("IN_PROGRESS", "fast")
        forged = second.ticket._replace(worker_id="slow")
        assert not (await table.release(forged)).accepted, "only the holder releases"
        assert (await table.release(Ticket.parse(str(second.ticket)))).accepted


@every_database
async def test_a_renewed_lease_outlives_its_length(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        await scene.table.sync(rows("a"))
        await scene.table.enlist("w")
        claimed = await scene.table.claim_next("w")
        for _ in range(4):
            scene.clock.advance(300)
            assert (await scene.table.renew(claimed)).accepted
        assert (await scene.table.watchdog()).expired == 0
        assert (await scene.table.release(claimed)).accepted


@every_database
async def test_the_watchdog_frees_what_nobody_holds_any_more(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        table = scene.table
        await table.sync(rows("a"))
        await table.enlist("w")
        await table.claim_next("w")
        assert (await table.watchdog()).expired == 0
        scene.clock.advance(901)
        assert (await table.watchdog()).expired == 1
        row = await table.row("a", 1)
        assert (row.status, row.is_claimed, row.worker_id, row.lease_until) == ("READY", False, None, None)
        assert await table.claim_next("w") is not None


@every_database
async def test_toggles_of_rows_that_run(kind: str, open_table: OpenTable):
    async with open_table(kind) as scene:
        table = scene.table
        await table.sync(rows("p", "s"))
        await table.enlist("w", slots=2)
        paused, skipped = await table.claim("w", "p", 1), await table.claim("w", "s", 1)
        assert (await table.pause("p", 1)).status == "IN_PROGRESS"
        assert (await table.release(paused)).accepted, "a pause gates new claims only"
        assert await table.worklist() == []
        assert (await table.skip("s", 1)).task_state == "SKIP"
        answer = await table.release(skipped)
        assert (answer.accepted, answer.order) == (False, "cancel")
        assert (await table.resume("p", 1)).task_state == "READY"
        assert [one.stage for one in await table.worklist()] == ["align"]
        with pytest.raises(IllegalMove):
            await table.resume("s", 1)
        with pytest.raises(NotFound, match="no row"):
            await table.pause("unknown", 1)


async def test_to_enlist_again_keeps_what_a_claimer_holds(open_table: OpenTable):
    async with open_table("sqlite") as scene:
        table = scene.table
        await table.sync(rows("a"))
        await table.enlist("w", slots=2)
        claimed = await table.claim_next("w")
        await table.enlist("w", slots=2)
        await table.store.recovery.lose_workers(0)
        await table.enlist("w", slots=2)
        assert (await table.release(claimed)).accepted
        await table.store.operator.disable(["w"])
        with pytest.raises(WorkerRefused):
            await table.enlist("w", slots=2)


async def test_hostile_and_long_urls(open_table: OpenTable):
    urls = ["x" * 5000, "ü" * 400, "' OR 1=1 --", 'quote"\\', "https://x.example/?a=b&c=d#e", "🎬"]
    for kind in DATABASES:
        async with open_table(kind) as scene:
            assert await scene.table.sync(rows(*urls)) == SyncReport(len(urls), 0)
            assert await scene.table.sync(rows(*urls)) == SyncReport(0, len(urls))
            assert {row.url for row in await scene.table.rows()} == set(urls)
            for url in urls:
                assert (await scene.table.pause(url, 1)).url == url
    subjects = {control_subject(PIPELINE, url, 1) for url in urls}
    assert len(subjects) == len(urls)
    assert max(map(len, subjects)) <= 512


NO_PAIRS = [
    {},
    {"url": "a"},
    {"url": "", "iteration": 1},
    {"url": 5, "iteration": 1},
    {"url": "a", "iteration": "1"},
    {"url": "a", "iteration": True},
    {"url": "a", "iteration": 10**18},
]


@pytest.mark.parametrize("row", NO_PAIRS)
async def test_rows_without_a_pair_are_refused(row: dict[str, object], open_table: OpenTable):
    async with open_table("sqlite") as scene:
        with pytest.raises(InvalidInput):
            await scene.table.sync([row])
        assert await scene.table.rows() == []


async def test_only_a_pipeline_of_pairs_has_a_control_table(open_table: OpenTable):
    async with open_table("sqlite") as scene:
        with pytest.raises(InvalidInput, match="declare it with key"):
            ControlTable(scene.table.store, Pipeline.of("other", [Stage("work")]))
        with pytest.raises(UnknownStage):
            await scene.table.worklist("nonsense")
        for text in ("", "1.2", "a.b.c.d"):
            with pytest.raises(InvalidInput, match="ticket"):
                Ticket.parse(text)
