"""What `takeup webhooks` does."""

import argparse
from collections.abc import Awaitable, Callable

from takeup.cli.opening import open_store
from takeup.cli.printing import age, line, plain, print_json, table
from takeup.core.webhooks import Webhook
from takeup.engine.endpoints import Endpoints, poster_of
from takeup.store.webhooks import WebhookStore


async def show_list(options: argparse.Namespace) -> int:
    """Print every webhook."""
    async with open_store(options) as (store, _):
        webhooks = await store.webhooks.list()
        now = await store.read.now()
    if options.json:
        print_json([plain(webhook) for webhook in webhooks])
        return 0
    rows = [
        (
            one.id,
            "disabled" if one.disabled else "active",
            one.url,
            ", ".join(one.events),
            one.form,
            one.secret_end and f"…{one.secret_end}",
            one.reason or (one.failing_since_at and f"fails since {age(one.failing_since_at, now)}"),
        )
        for one in webhooks
    ]
    table(("id", "status", "url", "events", "form", "secret", "trouble"), rows)
    return 0


async def add(options: argparse.Namespace) -> int:
    """Add a webhook and print its secret."""
    async with open_store(options) as (store, settings):
        endpoints = Endpoints(store.webhooks, poster_of(settings))
        made, secret = await endpoints.add(options.url, options.event or (), form=options.form)
    _tell_secrets(options, [(made, secret)])
    return 0


async def rotate(options: argparse.Namespace) -> int:
    """Renew secrets and print them."""
    async with open_store(options) as (store, settings):
        endpoints = Endpoints(store.webhooks, poster_of(settings))
        _tell_secrets(options, [await endpoints.rotate(webhook_id) for webhook_id in _ids(options)])
    return 0


async def remove(options: argparse.Namespace) -> int:
    """Forget these webhooks."""
    return await _each(options, lambda store: store.remove, "is removed")


async def enable(options: argparse.Namespace) -> int:
    """Send to these webhooks again."""
    return await _each(options, lambda store: store.enable, "is enabled")


async def disable(options: argparse.Namespace) -> int:
    """Send nothing to these webhooks."""
    return await _each(options, lambda store: store.disable, "is disabled")


async def test(options: argparse.Namespace) -> int:
    """Queue a message to each of these webhooks."""
    return await _each(
        options,
        lambda store: store.send_test,
        "is sent a test; `takeup webhooks deliveries` shows how it went",
    )


async def deliveries(options: argparse.Namespace) -> int:
    """Print what was sent to a webhook."""
    async with open_store(options) as (store, _):
        sent = await store.webhooks.deliveries(options.webhook)
        now = await store.read.now()
    if options.json:
        print_json([plain(one) for one in sent])
        return 0
    rows = [
        (
            one.id,
            one.event,
            one.status,
            one.attempt,
            age(one.created_at, now),
            one.http_status,
            one.error or one.answer,
        )
        for one in sent
    ]
    table(("id", "event", "status", "attempt", "made", "answer", "told"), rows)
    return 0


async def _each(
    options: argparse.Namespace,
    change: Callable[[WebhookStore], Callable[[str], Awaitable[object]]],
    done: str,
) -> int:
    async with open_store(options) as (store, _):
        for webhook_id in _ids(options):
            await change(store.webhooks)(webhook_id)
    if options.json:
        print_json({"changed": _ids(options)})
        return 0
    for webhook_id in _ids(options):
        line(f"{webhook_id} {done}")
    return 0


def _tell_secrets(options: argparse.Namespace, made: list[tuple[Webhook, str]]) -> None:
    if options.json:
        print_json([{"id": webhook.id, "secret": secret} for webhook, secret in made])
        return
    for webhook, secret in made:
        line(f"{webhook.id} {secret}")


def _ids(options: argparse.Namespace) -> list[str]:
    return list(dict.fromkeys(options.webhooks))
