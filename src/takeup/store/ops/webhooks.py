"""Endpoints of webhooks, as people manage them; their secrets are written here and never read."""

import json
from collections.abc import Sequence

from takeup.core.errors import Conflict, InvalidInput, NotFound
from takeup.core.ids import canonical_json
from takeup.core.webhooks import (
    FROM_SETTINGS,
    TEST,
    Delivery,
    News,
    Webhook,
    body_of,
    check_events,
    check_form,
)
from takeup.store.op import Op, Row, query

WEBHOOKS_MAX = 100
PAGE_MAX = 200
REASON_CHARS_MAX = 500
OVERLAP_S = 86_400.0
"""How long the secret before a new one signs, too."""
LATEST = 2**63 - 1


def add(webhook_id: str, *, url: str, events: Sequence[str], form: str, secret: str | None) -> Op[Webhook]:
    """Keep a new endpoint."""
    wanted, form = check_events(events), check_form(form)
    rows = yield query("count_webhooks")
    if rows[0]["webhook_count"] >= WEBHOOKS_MAX:
        raise InvalidInput(
            f"there are {WEBHOOKS_MAX} webhooks already", advice="Remove one that is not used."
        )
    yield query("add_webhook", id=webhook_id, url=url, events=_text(wanted), form=form, secret=secret)
    return (yield from one(webhook_id))


def declare(*, url: str, events: Sequence[str], form: str, secret: str | None) -> Op[None]:
    """Let the endpoint of the settings be as they say; without a URL there is none."""
    if not url:
        yield from _drop(FROM_SETTINGS)
        return
    yield query(
        "declare_webhook",
        id=FROM_SETTINGS,
        url=url,
        events=_text(check_events(events)),
        form=check_form(form),
        secret=secret,
    )


def page(after: str, limit_count: int) -> Op[list[Webhook]]:
    """A page of endpoints, by their ids."""
    rows = yield query("webhooks_after", after=after, limit_count=min(max(limit_count, 1), PAGE_MAX))
    return [webhook_of(row) for row in rows]


def one(webhook_id: str) -> Op[Webhook]:
    """One endpoint."""
    rows = yield query("webhook_by_id", id=webhook_id)
    if not rows:
        raise NotFound(
            f"no webhook has the id {webhook_id!r}", advice="`takeup webhooks list` shows those there are."
        )
    return webhook_of(rows[0])


def remove(webhook_id: str) -> Op[None]:
    """Forget an endpoint and all that was to be sent to it."""
    yield from _mine(webhook_id)
    yield from _drop(webhook_id)


def rotate(webhook_id: str, secret: str) -> Op[Webhook]:
    """Sign with a new secret, and for a while with the one before it, too."""
    yield from _mine(webhook_id)
    yield query("rotate_webhook", id=webhook_id, secret=secret, overlap_s=OVERLAP_S)
    return (yield from one(webhook_id))


def enable(webhook_id: str) -> Op[Webhook]:
    """Send to an endpoint again, what has waited first."""
    yield from one(webhook_id)
    yield query("enable_webhook", id=webhook_id)
    return (yield from one(webhook_id))


def disable(webhook_id: str, reason: str | None) -> Op[Webhook]:
    """Send nothing to an endpoint; what is for it waits for a while."""
    yield from one(webhook_id)
    told = (reason or "disabled by an operator")[:REASON_CHARS_MAX]
    yield query("disable_webhook", id=webhook_id, reason=told)
    return (yield from one(webhook_id))


def send_test(webhook_id: str, news_id: str) -> Op[Delivery]:
    """Queue a message to one endpoint that says nothing but that it works."""
    webhook = yield from one(webhook_id)
    if webhook.disabled:
        raise Conflict(f"webhook {webhook_id} is disabled: {webhook.reason}", advice="Enable it first.")
    clock = yield query("clock")
    news = News(news_id, TEST, clock[0]["now_at"], {"webhook_id": webhook_id})
    yield query("add_deliveries", g=[(webhook_id, news.id, news.event, body_of(webhook.form, news))])
    rows = yield query("deliveries_of_webhook", id=webhook_id, before=LATEST, limit_count=1)
    return delivery_of(rows[0])


def deliveries(webhook_id: str, before: int | None, limit_count: int) -> Op[list[Delivery]]:
    """A page of what was sent to an endpoint, latest first."""
    yield from one(webhook_id)
    rows = yield query(
        "deliveries_of_webhook",
        id=webhook_id,
        before=LATEST if before is None else before,
        limit_count=min(max(limit_count, 1), PAGE_MAX),
    )
    return [delivery_of(row) for row in rows]


def webhook_of(row: Row) -> Webhook:
    return Webhook(**{**row, "events": tuple(json.loads(row["events"])), "disabled": bool(row["disabled"])})


def delivery_of(row: Row) -> Delivery:
    return Delivery(**row)


def _mine(webhook_id: str) -> Op[None]:
    yield from one(webhook_id)
    if webhook_id == FROM_SETTINGS:
        raise Conflict(
            "this webhook comes from the settings",
            advice="Change alert_webhook_url or alert_webhook_secret, and start again.",
        )


def _drop(webhook_id: str) -> Op[None]:
    yield query("drop_webhook_deliveries", id=webhook_id)
    yield query("drop_webhook", id=webhook_id)


def _text(events: Sequence[str]) -> str:
    return canonical_json(list(events), what="list of events")
