"""What is to be sent: queued once for each endpoint, in shares, retried, given up, forgotten."""

import json
from collections.abc import Sequence

import pytest

from takeup.core.errors import Conflict, InvalidInput, NotFound
from takeup.core.model import Message
from takeup.core.plan import NewJob
from takeup.core.webhooks import ALERTS, FROM_SETTINGS, Outcome, Outgoing
from takeup.store.ops import deliveries, webhooks
from takeup.store.store import Store
from tests.store.scenes import ONE, Clock

SECRET = "whsec_" + "c2VjcmV0" * 5
RETRY = Outcome("WAITING", error="no", delay_s=10.0)
SENT = Outcome("SENT", http_status=200, answer="ok")


async def add(store: Store, *events: str, form: str = "standard") -> str:
    return (await store.webhooks.add("https://a.example/", events, form=form, secret=SECRET)).id


async def ended(store: Store, **options: object) -> Message:
    """The message that a job is over."""
    (job_id,) = await store.operator.submit([NewJob(ONE, **options)])
    await store.operator.cancel([job_id])
    return (await store.recovery.take_messages())[-1]


async def take(store: Store, *, limit: int = 10, each: int = 4) -> list[Outgoing]:
    return await store.courier.take(limit=limit, each=each, lease_s=60)


async def test_a_message_is_queued_once_for_each_that_wants_it(store: Store):
    every, jobs, alerts = await add(store), await add(store, "job.cancelled"), await add(store, *ALERTS)
    message = await ended(store, subject="film")
    assert [await store.courier.fan_out(message) for _ in range(2)] == [2, 2]
    taken = await take(store)
    assert {one.webhook_id for one in taken} == {every, jobs}
    assert len({one.event_id for one in taken}) == 1
    assert len(taken) == 2
    body = json.loads(taken[0].body)
    assert (body["type"], body["timestamp"]) == ("job.cancelled", message.created_at.isoformat())
    told = body["data"]
    assert (told["job_id"], told["pipeline"], told["subject"]) == (message.subject, "one", "film")
    assert taken[0].secrets == (SECRET,)
    assert SECRET not in repr(taken[0])
    assert await store.webhooks.deliveries(alerts) == []
    assert await take(store) == [], "they are under way"


async def test_no_endpoint_gets_more_than_its_share_and_none_waits_for_another(store: Store):
    slow, quick = await add(store), await add(store, "job.cancelled")
    await store.webhooks.disable(quick)
    for _ in range(5):
        await store.courier.fan_out(await ended(store))
    await store.webhooks.enable(quick)
    await store.courier.fan_out(await ended(store))
    taken = await take(store, each=3)
    assert sorted(one.webhook_id for one in taken) == sorted([slow] * 3 + [quick])
    assert taken[0].webhook_id == slow
    await store.courier.end(taken[0], SENT)
    assert [one.webhook_id for one in await take(store, each=3)] == [slow]


async def test_what_failed_is_due_again_and_a_dead_sender_loses_nothing(store: Store, clock: Clock):
    webhook_id = await add(store)
    await store.courier.fan_out(await ended(store))
    (first,) = await take(store)
    await store.courier.end(first, RETRY)
    clock.pass_s(9)
    assert await take(store) == []
    clock.pass_s(2)
    (second,) = await take(store)
    assert second.attempt == 2
    clock.pass_s(61)
    (third,) = await take(store)
    assert (third.attempt, third.event_id) == (3, first.event_id)
    await store.courier.end(second, SENT)
    (shown,) = await store.webhooks.deliveries(webhook_id)
    assert shown.status == "SENDING", "the sender that was too slow changes nothing"
    await store.courier.end(third, SENT)
    (shown,) = await store.webhooks.deliveries(webhook_id)
    assert (shown.status, shown.http_status, shown.answer, shown.error) == ("SENT", 200, "ok", None)
    assert (await store.webhooks.one(webhook_id)).failures == 0


async def test_s122_an_endpoint_that_wants_to_rest_rests(store: Store, clock: Clock):
    webhook_id = await add(store)
    for _ in range(2):
        await store.courier.fan_out(await ended(store))
    (one,) = await take(store, limit=1)
    await store.courier.end(one, Outcome("WAITING", 503, "later", "it answered 503", 100.0, pause_s=100.0))
    clock.pass_s(99)
    assert await take(store) == []
    clock.pass_s(2)
    assert len(await take(store)) == 2
    assert (await store.webhooks.one(webhook_id)).failures == 1


async def test_s122_an_endpoint_that_takes_nothing_for_three_days_is_disabled_with_an_alert(
    store: Store, clock: Clock
):
    dead, watching = await add(store, "job.cancelled"), await add(store, "webhook_disabled")
    await store.courier.fan_out(await ended(store))
    for passed_s in (0, 86_400, 2 * 86_400 - 60):
        clock.pass_s(passed_s)
        (one,) = await take(store)
        assert await store.courier.end(one, RETRY) is None
    clock.pass_s(120)
    (one,) = await take(store)
    reason = await store.courier.end(one, RETRY)
    assert reason == "it took nothing for 3 days"
    shown = await store.webhooks.one(dead)
    assert (shown.disabled, shown.reason) == (True, reason)
    (alert,) = await take(store)
    assert alert.webhook_id == watching
    body = json.loads(alert.body)
    assert (body["type"], body["data"]["webhook_id"]) == ("webhook_disabled", dead)
    assert (await store.webhooks.enable(dead)).failing_since_at is None
    clock.pass_s(20)
    assert [one.webhook_id for one in await take(store)] == [dead], "what waited is sent after all"


async def test_s122_gone_is_gone_and_a_success_in_between_begins_anew(store: Store, clock: Clock):
    webhook_id = await add(store)
    for outcome in (RETRY, SENT, RETRY):
        await store.courier.fan_out(await ended(store))
        (one,) = await take(store, limit=1)
        assert await store.courier.end(one, outcome) is None
        clock.pass_s(2 * 86_400)
    (one,) = await take(store, limit=1)
    gone = Outcome("FAILED", 410, "", "it answered 410 Gone", is_gone=True)
    assert await store.courier.end(one, gone) == "it answered 410 Gone"
    assert (await store.webhooks.one(webhook_id)).disabled
    with pytest.raises(Conflict, match="410 Gone"):
        await store.webhooks.send_test(webhook_id)


async def test_a_queue_is_bounded_and_says_what_it_dropped(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(deliveries, "WAITING_MAX", 2)
    webhook_id = await add(store)
    for _ in range(4):
        await store.courier.fan_out(await ended(store))
    shown = await store.webhooks.one(webhook_id)
    assert (shown.dropped, len(await store.webhooks.deliveries(webhook_id))) == (2, 2)


async def test_old_deliveries_are_forgotten(store: Store, clock: Clock):
    webhook_id = await add(store)
    await store.courier.fan_out(await ended(store))
    clock.pass_s(3 * 86_400)
    await store.courier.fan_out(await ended(store))
    clock.pass_s(5 * 86_400)
    assert await store.courier.forget() == 1
    assert len(await store.webhooks.deliveries(webhook_id)) == 1


async def test_s120_s124_secrets_are_renewed_and_only_their_end_is_told(store: Store, clock: Clock):
    webhook_id = await add(store)
    new = "whsec_" + "bmV3ZXI0" * 5
    assert (await store.webhooks.one(webhook_id)).secret_end == SECRET[-4:]
    rotated = await store.webhooks.rotate(webhook_id, new)
    assert rotated.secret_end == new[-4:]
    assert secrets_of(await sent_test(store, webhook_id)) == (new, SECRET)
    clock.pass_s(86_401)
    assert secrets_of(await sent_test(store, webhook_id)) == (new,)
    for shown in (repr(await store.webhooks.list()), repr(await store.webhooks.deliveries(webhook_id))):
        assert new not in shown
        assert SECRET not in shown


async def sent_test(store: Store, webhook_id: str) -> list[Outgoing]:
    queued = await store.webhooks.send_test(webhook_id)
    taken = await take(store)
    assert queued.event_id in [one.event_id for one in taken]
    for one in taken:
        await store.courier.end(one, SENT)
    return taken


def secrets_of(taken: Sequence[Outgoing]) -> tuple[str, ...]:
    return taken[-1].secrets


async def test_the_endpoint_of_the_settings_follows_them(store: Store):
    def declare(url: str):
        return store.webhooks.declare(url, ALERTS, form="slack", secret=None)

    await declare("https://a.example/")
    await store.webhooks.disable(FROM_SETTINGS)
    await declare("https://b.example/")
    (shown,) = await store.webhooks.list()
    assert (shown.id, shown.url, shown.form, shown.disabled) == (
        FROM_SETTINGS,
        "https://b.example/",
        "slack",
        False,
    )
    assert (shown.events, shown.secret_end) == (ALERTS, None)
    with pytest.raises(Conflict, match="settings"):
        await store.webhooks.remove(FROM_SETTINGS)
    await declare("")
    assert await store.webhooks.list() == []


async def test_what_cannot_be_is_refused_and_what_is_gone_is_gone(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(InvalidInput, match=r"'job\.begun' is no event"):
        await add(store, "job.begun")
    with pytest.raises(InvalidInput, match="no form"):
        await add(store, form="post")
    monkeypatch.setattr(webhooks, "WEBHOOKS_MAX", 1)
    webhook_id = await add(store)
    with pytest.raises(InvalidInput, match="1 webhooks already"):
        await add(store)
    await store.webhooks.send_test(webhook_id)
    await store.webhooks.remove(webhook_id)
    assert await take(store) == []
    for call in (store.webhooks.one, store.webhooks.remove, store.webhooks.enable, store.webhooks.deliveries):
        with pytest.raises(NotFound):
            await call(webhook_id)
