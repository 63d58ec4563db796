"""Messages to endpoints: fanned out once each, taken under a lease, ended, and forgotten after a while."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from takeup.core.alerts import Alert
from takeup.core.model import Message
from takeup.core.policy import RetryPolicy
from takeup.core.webhooks import News, Outcome, Outgoing, body_of, clipped, news_id, wants
from takeup.store.op import Op, Row, query
from takeup.store.ops import alerts
from takeup.store.ops.alerts import raise_alerts
from takeup.telemetry.redact import presentable

WAITING_MAX = 10_000
"""How many messages wait for one endpoint at most; what comes beyond is dropped, and counted."""
HOPELESS_S = 3 * 86_400.0
"""An endpoint that took nothing for so long is disabled."""
KEPT_S = 7 * 86_400.0
REST = RetryPolicy(initial_s=2.0, multiplier=2.0, cap_s=300.0)
"""How long an endpoint is left alone after so many failures in a row."""


def is_wanted(event: str) -> Op[bool]:
    """Whether any endpoint is told of such an event."""
    webhooks = yield query("active_webhooks")
    return any(wants(json.loads(row["events"]), event) for row in webhooks)


def fan_out(message: Message) -> Op[int]:
    """One delivery of a message about a job for each endpoint that wants it; repeated, nothing is added."""
    webhooks = yield query("active_webhooks")
    jobs = yield query("job_by_id", job_id=message.subject)
    data = {**message.body, **(_of_job(jobs[0]) if jobs else {})}
    told = news_id(message.topic, message.subject, message.id)
    return (yield from add([News(told, message.topic, message.created_at, data)], webhooks))


def add(news: Sequence[News], webhooks: Sequence[Row]) -> Op[int]:
    """Queue news for those of the endpoints that want it and have room; how many deliveries that makes."""
    wanted = [(row, one) for one in news for row in webhooks if wants(json.loads(row["events"]), one.event)]
    if not wanted:
        return 0
    ids = sorted({row["id"] for row, _ in wanted})
    counts = yield query("waiting_deliveries", g=[(webhook_id,) for webhook_id in ids])
    waiting = {row["webhook_id"]: row["waiting_count"] for row in counts}
    queued, dropped = [], set()
    for row, one in wanted:
        waiting[row["id"]] = waiting.get(row["id"], 0) + 1
        if waiting[row["id"]] > WAITING_MAX:
            dropped.add(row["id"])
        else:
            queued.append((row["id"], one.id, one.event, body_of(row["form"], one)))
    if dropped:
        yield query("note_dropped", g=[(webhook_id,) for webhook_id in sorted(dropped)])
    if queued:
        yield query("add_deliveries", g=queued)
    return len(queued)


def watch(limit_count: int, limit_s: float) -> Op[tuple[int, list[News]]]:
    """Queue the alerts that the log gives rise to; how many of its rows were looked at, and what was told."""
    count, news = yield from alerts.read(limit_count, limit_s)
    if news:
        yield from add(news, (yield query("active_webhooks")))
    return count, news


def take(limit_count: int, each_count: int, lease_s: float) -> Op[list[Outgoing]]:
    """Take what is due, of each endpoint only so much that it never has more than its share of calls."""
    webhooks = yield query("callable_webhooks")
    if webhooks:
        yield query("free_deliveries")
    rooms = [(row["id"], each_count - row["sending_count"]) for row in webhooks]
    rooms = [(webhook_id, room) for webhook_id, room in rooms if room > 0]
    if not rooms:
        return []
    due = yield query("due_deliveries", g=rooms, limit_count=limit_count)
    if not due:
        return []
    taken = yield query("take_deliveries", g=[(row["id"],) for row in due], lease_s=lease_s)
    called = sorted({row["webhook_id"] for row in taken})
    found = yield query("webhooks_to_call", g=[(webhook_id,) for webhook_id in called])
    by_id = {row["id"]: row for row in found}
    return [
        _outgoing(row, by_id[row["webhook_id"]])
        for row in sorted(taken, key=lambda row: int(row["id"]))
        if row["webhook_id"] in by_id
    ]


def end(delivery_id: int, attempt: int, outcome: Outcome, limit_s: float) -> Op[str | None]:
    """Note how an attempt ended; the reason, if it was the end of its endpoint, too."""
    rows = yield query(
        "end_delivery",
        g=[
            (
                delivery_id,
                attempt,
                outcome.to_status,
                outcome.http_status,
                outcome.answer,
                outcome.error,
                outcome.delay_s,
            )
        ],
    )
    if not rows:
        return None
    webhook_id = rows[0]["webhook_id"]
    if outcome.to_status == "SENT":
        yield query("webhook_went_well", id=webhook_id)
        return None
    reason = yield from _judge(webhook_id, outcome)
    if reason is not None:
        yield from _disable(webhook_id, reason, delivery_id, limit_s)
    return reason


def forget(older_than_s: float, limit_count: int) -> Op[int]:
    """Remove what is older than this, sent or not."""
    old = yield query("old_deliveries", older_than_s=older_than_s, limit_count=limit_count)
    if old:
        yield query("drop_deliveries", g=[(row["id"],) for row in old])
    return len(old)


def _judge(webhook_id: str, outcome: Outcome) -> Op[str | None]:
    """Count a failure of an endpoint; the reason, if it shall not be called any more."""
    rows = yield query("webhook_went_wrong", id=webhook_id)
    if not rows:
        return None
    if outcome.is_gone:
        return "it answered 410 Gone"
    if (yield query("webhook_is_hopeless", id=webhook_id, patience_s=HOPELESS_S)):
        return f"it took nothing for {HOPELESS_S / 86_400:g} days"
    if outcome.pause_s is not None:
        pause_s = max(outcome.pause_s, REST.delay_s(rows[0]["failures"]))
        yield query("rest_webhook", id=webhook_id, pause_s=pause_s)
    return None


def _disable(webhook_id: str, reason: str, delivery_id: int, limit_s: float) -> Op[None]:
    if not (yield query("disable_webhook", id=webhook_id, reason=reason)):
        return
    clock = yield query("clock")
    data = {"webhook_id": webhook_id, "reason": reason}
    alert = Alert("webhook_disabled", webhook_id, clock[0]["now_at"], data)
    news = yield from raise_alerts([(alert, f"delivery {delivery_id}")], limit_s)
    yield from add(news, (yield query("active_webhooks")))


def _of_job(row: Row) -> Mapping[str, Any]:
    error = row["error"]
    return {
        "pipeline": row["pipeline"],
        "subject": row["subject"],
        "generation": row["generation"],
        "finished_at": row["finished_at"].isoformat() if row["finished_at"] else None,
        "error": None if error is None else clipped(presentable(error)),
    }


def _outgoing(row: Row, webhook: Row) -> Outgoing:
    secrets = (webhook["secret"], webhook["former_secret"])
    return Outgoing(
        id=row["id"],
        webhook_id=row["webhook_id"],
        event_id=row["event_id"],
        attempt=row["attempt"],
        form=webhook["form"],
        body=row["body"],
        url=webhook["url"],
        secrets=tuple(secret for secret in secrets if secret),
    )
