"""From the end of a job to a receiver on a real socket: signed, in its own time, and nothing given away."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from takeup.app import App, open_app, run_loops
from takeup.config import InvalidSetting, Settings, load
from takeup.core.model import Failure
from takeup.core.plan import NewJob
from takeup.core.webhooks import Outgoing
from takeup.engine.endpoints import declared_by, guard_of
from takeup.engine.loop import Loop
from takeup.engine.sending import PATIENCE, Sender, retry_after_s
from takeup.net.signatures import SIGNATURE, verify
from takeup.telemetry.redact import redact
from tests.hooks.receiver import Receiver, receiving, says, says_nothing
from tests.store.scenes import ONE, add_worker, run_one

HERE = {"webhook_allowed_networks": "127.0.0.0/8", "webhook_http": "allowed", "alert_webhook_timeout": 1.0}
CANARY = "whsec_Q0FOQVJZQ0FOQVJZQ0FOQVJZQ0FOQVJZQ0FOQVJZ"


def settings_in(folder: Path, **more: Any) -> Settings:
    return load({}, {"data_dir": folder / "data", **HERE, **more}, folder)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with open_app(settings_in(tmp_path)) as opened:
        yield opened


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as opened:
        yield opened


def sender_of(app: App) -> Sender:
    (sender,) = (loop for loop in app.webhook_loops() if isinstance(loop, Sender))
    return sender


async def round_of(*loops: Loop) -> None:
    for loop in loops:
        await loop.run_once()
        if isinstance(loop, Sender):
            await loop.settle()


async def add(app: App, receiver: Receiver, *events: str, form: str = "standard") -> tuple[str, str]:
    webhook, secret = await app.endpoints().add(f"http://127.0.0.1:{receiver.port}/x", events, form=form)
    return webhook.id, secret


async def end_a_job(app: App, subject: str = "film") -> str:
    (job_id,) = await app.submit([NewJob(ONE, subject=subject)])
    await app.store.operator.cancel([job_id])
    return job_id


async def test_a_job_that_ends_is_told_and_signed(app: App, receiver: Receiver):
    webhook_id, secret = await add(app, receiver, "job.cancelled")
    job_id = await end_a_job(app)
    await round_of(app.outbox(), sender_of(app))
    (got,) = receiver.received
    assert verify(secret, got.headers, got.body).startswith("msg_")
    told = json.loads(got.body)
    assert (told["type"], told["data"]["job_id"], told["data"]["status"]) == (
        "job.cancelled",
        job_id,
        "cancelled",
    )
    (shown,) = await app.store.webhooks.deliveries(webhook_id)
    assert (shown.status, shown.http_status, shown.answer, shown.attempt) == ("SENT", 200, "thanks", 1)
    await round_of(app.outbox(), sender_of(app))
    assert len(receiver.received) == 1


async def test_the_loops_by_themselves_tell_and_end_what_is_under_way(tmp_path: Path, receiver: Receiver):
    settings = settings_in(
        tmp_path,
        alert_webhook_url=f"http://127.0.0.1:{receiver.port}/",
        outbox_interval=0.05,
        alert_interval=0.05,
    )
    async with open_app(settings) as app:
        await add(app, receiver, "job.cancelled")
        stop = asyncio.Event()
        running = asyncio.create_task(run_loops([app.outbox(), *app.webhook_loops()], stop))
        await add_worker(app.store)
        await end_a_job(app)
        async with asyncio.timeout(10):
            while len(receiver.received) < 2:
                await asyncio.sleep(0.02)
        stop.set()
        await running
        for webhook in await app.store.webhooks.list():
            (sent,) = await app.store.webhooks.deliveries(webhook.id)
            assert (sent.status, sent.attempt) == ("SENT", 1)
    told = {json.loads(one.body)["type"] for one in receiver.received}
    assert told == {"job.cancelled", "worker_startup"}


async def test_s120_after_a_rotation_both_secrets_are_good(app: App, receiver: Receiver):
    webhook_id, old = await add(app, receiver)
    _, new = await app.endpoints().rotate(webhook_id)
    await app.store.webhooks.send_test(webhook_id)
    await round_of(sender_of(app))
    (got,) = receiver.received
    assert verify(old, got.headers, got.body) == verify(new, got.headers, got.body)


async def test_s123_a_dead_endpoint_delays_nobody(app: App, receiver: Receiver):
    async with receiving(says_nothing) as dead:
        dead_id, _ = await add(app, dead)
        await add(app, receiver)
        for number in range(10):
            await end_a_job(app, f"film {number}")
        await app.outbox().run_once()
        sender = sender_of(app)
        async with asyncio.timeout(0.9):  # less than one call of the dead one takes
            while len(receiver.received) < 10:
                await sender.run_once()
                await asyncio.sleep(0.01)
        assert len(dead.received) == 4, "no more of them at once"
        await sender.settle()
    (shown,) = [one for one in await app.store.webhooks.list() if one.id == dead_id]
    assert shown.failures == 4
    assert shown.resumes_at is not None
    assert {one.error for one in await app.store.webhooks.deliveries(dead_id)} == {
        None,
        "no answer within 1 s",
    }


@pytest.mark.parametrize(
    ("status", "headers", "says_error", "length_s"),
    [
        (500, {}, "it answered 500", 0),
        (302, {"location": "http://127.0.0.1/"}, "it answered 302, and redirects are not followed", 0),
        (429, {"retry-after": "1000"}, "it answered 429", 1000),
        (503, {"retry-after": "1000"}, "it answered 503", 1000),
    ],
)
async def test_a_refusal_is_retried_later(
    app: App, receiver: Receiver, status: int, headers: dict[str, str], says_error: str, length_s: float
):
    receiver.answer = says(status, "<script>alert(1)</script>" + "x" * 2000, **headers)
    webhook_id, _ = await add(app, receiver)
    await app.store.webhooks.send_test(webhook_id)
    await round_of(sender_of(app))
    (shown,) = await app.store.webhooks.deliveries(webhook_id)
    assert (shown.status, shown.http_status, shown.error) == ("WAITING", status, says_error)
    assert shown.answer is not None
    assert len(shown.answer) == 1024, "s125"
    wait_s = (shown.available_at - shown.created_at).total_seconds()
    assert length_s <= wait_s < length_s + 10
    assert ((await app.store.webhooks.one(webhook_id)).resumes_at is not None) == bool(length_s)


async def test_s122_gone_disables_and_is_told_to_others(app: App, receiver: Receiver):
    async with receiving(says(410)) as gone:
        gone_id, _ = await add(app, gone, "job.cancelled")
        await add(app, receiver, "webhook_disabled")
        await end_a_job(app)
        await round_of(app.outbox(), sender_of(app), sender_of(app))
    shown = await app.store.webhooks.one(gone_id)
    assert (shown.disabled, shown.reason) == (True, "it answered 410 Gone")
    assert json.loads(receiver.received[0].body)["data"]["webhook_id"] == gone_id


def test_the_schedule_of_one_delivery_lasts_about_three_days():
    total = sum(PATIENCE.delay_s(attempt) for attempt in range(1, PATIENCE.max_attempts))
    assert 2.5 * 86_400 < total < 3.5 * 86_400


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("120", 120.0),
        ("99999999999999", 86_400.0),
        ("Wed, 18 Mar 2030 00:01:00 GMT", 60.0),
        ("Wed, 18 Mar 2020 00:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_what_retry_after_means(text: str, wait_s: float | None):
    assert retry_after_s(text, 1_900_022_400.0) == wait_s


async def test_b208_the_alerts_of_the_settings_go_to_slack_and_discord(tmp_path: Path, receiver: Receiver):
    for form, field in (("slack", "text"), ("discord", "content")):
        url = f"http://127.0.0.1:{receiver.port}/{form}"
        settings = settings_in(tmp_path / form, alert_webhook_url=url, alert_webhook_format=form)
        async with open_app(settings) as app:
            await round_of(sender_of(app))
            await add_worker(app.store)
            for _ in range(3):
                _, lease = await run_one(app.store, subject="<!channel> & @everyone")
                await app.store.worker.fail("w1", [Failure(lease.held, "boom", retryable=False)])
            await round_of(*app.webhook_loops())
        got = [one for one in receiver.received if one.line == f"POST /{form} HTTP/1.1"]
        texts = [json.loads(one.body)[field] for one in got]
        (text,) = [text for text in texts if "job failed pattern" in text]
        assert [SIGNATURE in one.headers for one in got] == [False, False]
        assert any("worker startup" in text for text in texts)
        if form == "slack":
            assert "&lt;!channel&gt; &amp;" in text
        else:
            assert json.loads(got[0].body)["allowed_mentions"] == {"parse": []}


async def test_s132_a_secret_is_in_no_log_no_text_and_no_row_but_its_own(tmp_path: Path, receiver: Receiver):
    url = f"http://127.0.0.1:{receiver.port}/CANARYPATH"
    settings = settings_in(tmp_path, alert_webhook_url=url, alert_webhook_secret=CANARY)
    assert CANARY not in repr(settings)
    receiver.answer = says(500, f"you sent {CANARY}")
    with capture_logs() as lines:
        async with open_app(settings) as app:
            sender = sender_of(app)
            await round_of(sender)
            await app.store.webhooks.send_test("wh_settings")
            await round_of(sender)
            shown = repr(await app.store.webhooks.list()) + repr(
                await app.store.webhooks.deliveries("wh_settings")
            )
    assert len(receiver.received) == 1
    assert receiver.received[0].headers[SIGNATURE].startswith("v1,")
    assert "not taken" in str(lines)
    assert CANARY not in str(lines)
    assert "CANARYPATH" not in str(lines)
    assert CANARY not in shown
    with sqlite3.connect(tmp_path / "data" / "takeup.db") as connection:
        dumped = [line for line in connection.iterdump() if CANARY in line]
    connection.close()
    assert len(dumped) == 1
    assert dumped[0].startswith('INSERT INTO "webhooks"')
    assert CANARY not in repr(Outgoing(1, "w", "m", 1, "standard", "{}", url, (CANARY,)))
    assert redact(f"the secret {CANARY}.") == "the secret whsec_[hidden]."


@pytest.mark.parametrize(
    ("more", "says_what"),
    [
        ({"alert_webhook_url": "https://127.0.0.2:22/"}, "alert_webhook_url: port 22"),
        ({"alert_webhook_url": "http://10.0.0.1/"}, "alert_webhook_url: the address 10.0.0.1 is not"),
        ({"alert_webhook_secret": "hunter2"}, "alert_webhook_secret: a signing secret must be"),
        ({"webhook_allowed_networks": "lan"}, "webhook_allowed_networks: 'lan' is no network"),
    ],
)
def test_settings_that_cannot_be_used_stop_the_start(tmp_path: Path, more: dict[str, str], says_what: str):
    with pytest.raises(InvalidSetting) as caught:
        declared_by(settings_in(tmp_path, **more))
    assert str(caught.value).startswith(says_what)
    assert "hunter2" not in str(caught.value)
    for name in ("alert_webhook_format", "webhook_http"):
        with pytest.raises(InvalidSetting, match=f"{name} must be"):
            settings_in(tmp_path, **{name: "smoke"})
    assert guard_of(settings_in(tmp_path, webhook_allowed_networks=""))
