"""Endpoints of webhooks as people manage them: judged before they are kept, their secrets told once."""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from takeup.config import InvalidSetting, Settings
from takeup.core.errors import InvalidInput
from takeup.core.ids import RandomBytes
from takeup.core.webhooks import ALERTS, Webhook, check_form
from takeup.net.calling import Caller
from takeup.net.fetch import Fetcher
from takeup.net.guard import Guard, networks
from takeup.net.post import Poster
from takeup.net.signatures import key_of, new_secret
from takeup.store.webhooks import WebhookStore


class Declared(NamedTuple):
    """The endpoint of the settings, which takes every alert."""

    url: str
    form: str
    secret: str | None
    events: Sequence[str] = ALERTS


class Endpoints:
    """Adds endpoints and renews their secrets; everything else is the store's."""

    def __init__(
        self, store: WebhookStore, poster: Poster, random: RandomBytes = secrets.token_bytes
    ) -> None:
        """`random` makes the secrets."""
        self._store = store
        self._poster = poster
        self._random = random

    async def add(
        self, url: str, events: Sequence[str] = (), *, form: str = "standard"
    ) -> tuple[Webhook, str]:
        """A new endpoint, if its URL may be called from here, and its secret, which is shown this once."""
        await self._poster.check(url)
        secret = new_secret(self._random)
        return await self._store.add(url, events, form=form, secret=secret), secret

    async def rotate(self, webhook_id: str) -> tuple[Webhook, str]:
        """An endpoint with a new secret, which is shown this once; the old one signs too for a day."""
        secret = new_secret(self._random)
        return await self._store.rotate(webhook_id, secret), secret


def poster_of(settings: Settings) -> Poster:
    """What calls endpoints, within what the settings allow."""
    return Poster(guard_of(settings), timeout_s=settings.alert_webhook_timeout)


def guard_of(settings: Settings) -> Guard:
    """What these settings allow to be called."""
    return guard_named("webhook", settings.webhook_allowed_networks, settings.webhook_http)


def guard_named(name: str, allowed_networks: str, http: str) -> Guard:
    """What the settings that begin with this name allow to be called."""
    try:
        allowed = networks(allowed_networks)
    except InvalidInput as error:
        raise InvalidSetting(f"{name}_allowed_networks: {error}") from error
    return Guard(allowed, allows_http=http == "allowed", settings=name)


def fetcher_of(settings: Settings) -> Fetcher:
    """What fetches files, within what the settings allow."""
    guard = guard_named("pull", settings.pull_allowed_networks, settings.pull_http)
    return Fetcher(Caller(guard), timeout_s=settings.pull_timeout)


def declared_by(settings: Settings) -> Declared:
    """The endpoint of the settings, its parts judged as far as that needs nobody else."""
    guard = guard_of(settings)
    try:
        if settings.alert_webhook_url:
            guard.target(settings.alert_webhook_url)
    except InvalidInput as error:
        raise InvalidSetting(f"alert_webhook_url: {error}", advice=error.help) from error
    try:
        if settings.alert_webhook_secret:
            key_of(settings.alert_webhook_secret)
    except InvalidInput as error:
        raise InvalidSetting(f"alert_webhook_secret: {error}", advice=error.help) from error
    form = check_form(settings.alert_webhook_format)
    return Declared(settings.alert_webhook_url, form, settings.alert_webhook_secret or None)
