"""Webhooks, as those who manage them see them; a secret is in the answer that makes it and in no other."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from takeup.api.access import Admin
from takeup.api.jobs import CHANGE, LOOK, ChangeBody, Changed, app_of
from takeup.api.pages import LIMIT_DEFAULT, Body, Limit, Page, page_of
from takeup.api.strict import StrictRoute, words_in_path
from takeup.core.webhooks import EVERY, Delivery, Form, Webhook
from takeup.net.guard import URL_CHARS_MAX

EVENTS_MAX = 50
BEFORE_MAX = 2**63 - 1
words_in_path("webhook_change", ("enable", "disable"))

router = APIRouter(prefix="/api/webhooks", tags=["webhooks"], route_class=StrictRoute)
WebhookId = Annotated[str, Path(pattern=r"^[a-z0-9_]{1,64}$")]


class WebhookBody(Body):
    """An endpoint that wants to be told."""

    url: str = Field(min_length=1, max_length=URL_CHARS_MAX)
    events: list[Annotated[str, Field(max_length=80)]] = Field(
        default_factory=lambda: [EVERY], min_length=1, max_length=EVENTS_MAX
    )
    form: Form = "standard"


class NewSecret(BaseModel):
    """A webhook with a secret that was just made; it is shown this once."""

    id: str
    secret: str


@router.get("", responses=LOOK)
async def list_webhooks(
    request: Request,
    _caller: Admin,
    after: Annotated[str, Query(max_length=64)] = "",
    limit: Limit = LIMIT_DEFAULT,
) -> Page[Webhook]:
    """Webhooks in the order of their ids, with the last four characters of their secrets."""
    return page_of(await app_of(request).store.webhooks.list(after=after, limit=limit), limit, "id")


@router.post("", status_code=HTTPStatus.CREATED, responses=CHANGE)
async def add_webhook(request: Request, _caller: Admin, body: WebhookBody) -> NewSecret:
    """An endpoint that is told; its address is looked up and judged first."""
    made, secret = await app_of(request).endpoints().add(body.url, body.events, form=body.form)
    return NewSecret(id=made.id, secret=secret)


@router.get("/{webhook_id}", responses=LOOK)
async def webhook(request: Request, _caller: Admin, webhook_id: WebhookId) -> Webhook:
    """One webhook and how it does."""
    return await app_of(request).store.webhooks.one(webhook_id)


@router.delete("/{webhook_id}", responses=CHANGE)
async def remove_webhook(request: Request, _caller: Admin, webhook_id: WebhookId) -> Changed:
    """Forget a webhook and all that was to be sent to it."""
    await app_of(request).store.webhooks.remove(webhook_id)
    return Changed(id=webhook_id, changed=True)


@router.post("/{webhook_id}/rotate", responses=CHANGE)
async def rotate_secret(request: Request, _caller: Admin, webhook_id: WebhookId) -> NewSecret:
    """A new secret; messages carry signatures by the old one, too, for a day."""
    made, secret = await app_of(request).endpoints().rotate(webhook_id)
    return NewSecret(id=made.id, secret=secret)


@router.post("/{webhook_id}/test", status_code=HTTPStatus.ACCEPTED, responses=CHANGE)
async def send_test(request: Request, _caller: Admin, webhook_id: WebhookId) -> Delivery:
    """Send a message that says nothing but that it works; its delivery shows how that went."""
    return await app_of(request).store.webhooks.send_test(webhook_id)


@router.post("/{webhook_id}/{change:webhook_change}", responses=CHANGE)
async def change_webhook(
    request: Request,
    _caller: Admin,
    webhook_id: WebhookId,
    change: Literal["enable", "disable"],
    body: ChangeBody,
) -> Webhook:
    """Send to a webhook again, or nothing for now."""
    store = app_of(request).store.webhooks
    if change == "enable":
        return await store.enable(webhook_id)
    return await store.disable(webhook_id, reason=body.reason)


@router.get("/{webhook_id}/deliveries", responses=LOOK)
async def deliveries(
    request: Request,
    _caller: Admin,
    webhook_id: WebhookId,
    before: Annotated[int | None, Query(ge=1, le=BEFORE_MAX)] = None,
    limit: Limit = LIMIT_DEFAULT,
) -> Page[Delivery]:
    """What was sent to a webhook and what it answered, latest first."""
    rows = await app_of(request).store.webhooks.deliveries(webhook_id, before=before, limit=limit)
    return page_of(rows, limit, "id")
