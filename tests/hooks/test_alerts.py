"""Alerts: which rows of the log are some, which of them are told, and that none is missed or told twice."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from takeup.core.alerts import BURST_MAX, Alert, Limits
from takeup.core.budget import ErrorBudget
from takeup.core.model import Failure, Lease, WorkerSpec
from takeup.core.plan import NewJob
from takeup.core.webhooks import News
from takeup.engine.enrolment import enrol
from takeup.store.store import Store
from takeup.testing.clocks import START
from tests.conftest import GetPostgres
from tests.services import database_from_template
from tests.store.scenes import ONE, Clock, add_worker, claim_request, quarantine, run_one, upgrade_schema

S300 = timedelta(seconds=300)


async def told(store: Store, limit_s: float = 300.0) -> list[News]:
    """What the log gives rise to now, read to its end."""
    found: list[News] = []
    while await store.courier.has_news():
        count, news = await store.courier.watch(limit=50, limit_s=limit_s)
        found += news
        if not count:
            break
    return found


async def kinds(store: Store) -> list[str]:
    return [news.event for news in await told(store)]


async def claim(store: Store) -> Lease:
    (lease,) = await store.worker.claim(claim_request("w1"), takes_back=False)
    return lease


async def test_a_worker_that_was_only_made_known_neither_came_nor_went(store: Store, clock: Clock):
    worker_id, _ = await enrol(store, "attic")
    assert await told(store) == []
    clock.pass_s(1)
    await store.worker.register(WorkerSpec(worker_id, "attic", "remote"))
    (up,) = await told(store)
    assert (up.event, up.data["worker_id"]) == ("worker_startup", worker_id)


async def fail(store: Store, subject: str) -> None:
    _, lease = await run_one(store, subject=subject)
    await store.worker.fail("w1", [Failure(lease.held, "token=hunter2 broke", retryable=False)])


async def test_workers_that_come_and_go(store: Store, clock: Clock):
    await add_worker(store)
    (up,) = await told(store)
    assert (up.event, up.data["worker_id"]) == ("worker_startup", "w1")
    await store.worker.leave(["w1"])
    (down,) = await told(store)
    assert (down.event, down.data["reason"]) == ("worker_shutdown", "it said good-bye")
    clock.pass_s(400)
    await add_worker(store)
    clock.pass_s(400)
    await store.recovery.lose_workers(60)
    assert await kinds(store) == ["worker_startup", "worker_shutdown"]


async def test_a_quarantined_worker(store: Store):
    await quarantine(store)
    *_, news = await told(store)
    assert (news.event, news.data["worker_id"]) == ("worker_quarantined", "broken")
    assert news.data["reason"].startswith("it failed 1 tasks within 60 s that other workers finished")
    await store.recovery.quarantine(ErrorBudget(1, 60))
    assert await told(store) == []


async def test_a_lost_lease_and_the_last_of_them(store: Store, clock: Clock):
    await add_worker(store)
    (job_id,) = await store.operator.submit([NewJob(ONE)])
    await told(store)
    seen = []
    for _ in range(3):
        lease = await claim(store)
        clock.pass_s(301)
        await store.recovery.expire()
        seen += await told(store)
    assert lease.attempt == lease.max_attempts == 3
    assert [news.event for news in seen] == [
        "stale_job_recovered",
        "stale_job_recovered",
        "job_max_retries_exceeded",
    ]
    assert {news.data["job_id"] for news in seen} == {job_id}
    assert (seen[0].data["worker_id"], seen[0].data["attempt"]) == ("w1", 1)
    totals = await store.courier.totals()
    assert totals == {
        "stale_job_recovered": 2,
        "job_max_retries_exceeded": 1,
        "job_failed": 1,
        "worker_startup": 1,
    }


async def test_attempts_that_are_spent_are_an_alert_and_a_failure_at_once_is_none(store: Store, clock: Clock):
    await add_worker(store)
    await told(store)
    await fail(store, "film")
    assert await kinds(store) == []
    await store.operator.submit([NewJob(ONE)])
    for _ in range(3):
        lease = await claim(store)
        await store.worker.fail("w1", [Failure(lease.held, f"boom {lease.attempt}")])
        clock.pass_s(301)
        await store.recovery.wake()
    (news,) = await told(store)
    assert (news.event, news.data["reason"]) == ("job_max_retries_exceeded", "boom 3")


async def test_g05_three_failures_of_one_subject_in_a_day_are_a_pattern(store: Store, clock: Clock):
    await add_worker(store)
    await told(store)
    await fail(store, "film")
    clock.pass_s(86_401)
    for subject in ("film", "other", "film", "other"):
        await fail(store, subject)
    assert await kinds(store) == []
    await fail(store, "film")
    (news,) = await told(store)
    assert (news.event, news.data["subject"], news.data["failures"]) == ("job_failed_pattern", "film", 3)
    assert "hunter2" not in str(news)


async def test_x92_a_subject_is_told_once_in_a_while_and_what_was_kept_back_is_counted(
    store: Store, clock: Clock
):
    for _ in range(3):
        await add_worker(store)
        clock.pass_s(1)
    await add_worker(store, "w2")
    assert [(news.data["worker_id"], news.data["suppressed"]) for news in await told(store)] == [
        ("w1", 0),
        ("w2", 0),
    ]
    clock.pass_s(300)
    await add_worker(store)
    assert [(news.data["worker_id"], news.data["suppressed"]) for news in await told(store)] == [("w1", 2)]
    assert (await store.courier.totals())["worker_startup"] == 5
    for _ in range(2):
        await add_worker(store)
    assert len(await told(store, limit_s=0.0)) == 2, "without a limit all are told"


def test_x92_a_type_has_a_cap_and_its_count_goes_into_the_next_message():
    def alert(number: int) -> Alert:
        return Alert("stale_job_recovered", f"job {number}", START, {})

    limits = Limits((), START, limit_s=300)
    answers = [limits.admit(alert(n)) for n in range(BURST_MAX + 5)]
    assert answers.count(None) == 5
    later = Limits(limits.all, START + S300, limit_s=300)
    assert later.admit(alert(99)) == {"suppressed": 0, "suppressed_of_others": 5}
    assert later.admit(alert(0)) == {"suppressed": 0, "suppressed_of_others": 0}
    assert next(one.total for one in later.all if not one.subject) == BURST_MAX + 7


async def test_every_row_is_looked_at_once_whatever_the_cursor_does(store: Store, clock: Clock):
    for number in range(5):
        await add_worker(store, f"w{number}")
    first = await told(store)
    assert len(first) == 5
    assert await told(store) == []
    clock.pass_s(100)
    await add_worker(store, "late")
    assert [news.data["worker_id"] for news in await told(store)] == ["late"]
    clock.pass_s(100)
    await add_worker(store, "later")
    assert [news.data["worker_id"] for news in await told(store)] == ["later"]
    assert not await store.courier.has_news()


async def test_what_was_long_ago_is_history(store: Store, clock: Clock):
    await add_worker(store, "old")
    clock.pass_s(60)
    await add_worker(store, "new")
    assert [news.data["worker_id"] for news in await told(store)] == ["new"]


@pytest.fixture
async def postgres_url(get_postgres: GetPostgres, tmp_path: Path) -> AsyncIterator[str]:
    async with database_from_template(get_postgres("postgres15"), upgrade_schema) as url:
        yield url


async def test_a_number_that_was_drawn_before_and_committed_after_is_not_missed(
    postgres_url: str, clock: Clock
):
    store = await Store.open(postgres_url, clock=clock)
    other = await asyncpg.connect(postgres_url)
    try:
        slow = other.transaction()
        await slow.start()
        await other.execute(
            "INSERT INTO audit (logged_at, noun, event, actor, to_status, worker_id) "
            "VALUES ($1, 'worker', 'register', 'worker', 'active', 'slow')",
            clock.now(),
        )
        await add_worker(store, "quick")
        assert [news.data["worker_id"] for news in await told(store)] == ["quick"]
        clock.pass_s(5)
        await add_worker(store, "another")
        assert [news.data["worker_id"] for news in await told(store)] == ["another"]
        await slow.commit()
        assert [news.data["worker_id"] for news in await told(store)] == ["slow"]
        assert await told(store) == []
    finally:
        await other.close()
        await store.close()
