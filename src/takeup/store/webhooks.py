"""The facades of webhooks: that of people who manage endpoints, and that of the loops which send."""

import secrets
from collections.abc import Sequence

from takeup.core.alerts import LIMIT_S
from takeup.core.ids import RandomBytes, new_id
from takeup.core.model import Message
from takeup.core.webhooks import Delivery, News, Outcome, Outgoing, Webhook
from takeup.store.drivers import Driver
from takeup.store.ops import alerts, deliveries, webhooks


class WebhookStore:
    """Endpoints, without their secrets: those go in and never come out."""

    def __init__(self, driver: Driver, random: RandomBytes = secrets.token_bytes) -> None:
        """`random` makes the ids."""
        self._driver = driver
        self._random = random

    async def add(self, url: str, events: Sequence[str], *, form: str, secret: str | None) -> Webhook:
        """A new endpoint; its URL was judged by who calls this."""
        webhook_id = new_id("wh", self._random)
        return await self._driver.run(
            webhooks.add, webhook_id, url=url, events=events, form=form, secret=secret
        )

    async def declare(self, url: str, events: Sequence[str], *, form: str, secret: str | None) -> None:
        """The endpoint that the settings name; none without a URL."""
        await self._driver.run(webhooks.declare, url=url, events=events, form=form, secret=secret)

    async def list(self, *, after: str = "", limit: int = webhooks.PAGE_MAX) -> list[Webhook]:
        """A page of endpoints."""
        return await self._driver.read(webhooks.page, after, limit)

    async def one(self, webhook_id: str) -> Webhook:
        """One endpoint."""
        return await self._driver.read(webhooks.one, webhook_id)

    async def remove(self, webhook_id: str) -> None:
        """Forget an endpoint and all that was to be sent to it."""
        await self._driver.run(webhooks.remove, webhook_id)

    async def rotate(self, webhook_id: str, secret: str) -> Webhook:
        """Sign with a new secret, for a day with the one before it, too."""
        return await self._driver.run(webhooks.rotate, webhook_id, secret)

    async def enable(self, webhook_id: str) -> Webhook:
        """Send to an endpoint again."""
        return await self._driver.run(webhooks.enable, webhook_id)

    async def disable(self, webhook_id: str, *, reason: str | None = None) -> Webhook:
        """Send nothing to an endpoint."""
        return await self._driver.run(webhooks.disable, webhook_id, reason)

    async def send_test(self, webhook_id: str) -> Delivery:
        """Queue a message that only shows whether an endpoint works."""
        return await self._driver.run(webhooks.send_test, webhook_id, new_id("test", self._random))

    async def deliveries(
        self, webhook_id: str, *, before: int | None = None, limit: int = webhooks.PAGE_MAX
    ) -> Sequence[Delivery]:
        """A page of what was sent to an endpoint, latest first."""
        return await self._driver.read(webhooks.deliveries, webhook_id, before, limit)


class CourierStore:
    """What the loops that tell the outside may do: queue, take, note how it went."""

    def __init__(self, driver: Driver) -> None:
        """Work through this driver."""
        self._driver = driver

    async def fan_out(self, message: Message) -> int:
        """Queue a message for every endpoint that wants it; how many do."""
        if not await self._driver.read(deliveries.is_wanted, message.topic):
            return 0
        return await self._driver.run(deliveries.fan_out, message)

    async def take(self, *, limit: int, each: int, lease_s: float) -> list[Outgoing]:
        """Take due deliveries, so that no endpoint has more than `each` of them under way."""
        return await self._driver.run(deliveries.take, limit, each, lease_s)

    async def end(self, outgoing: Outgoing, outcome: Outcome, *, limit_s: float = LIMIT_S) -> str | None:
        """Note how an attempt ended; the reason, if its endpoint was disabled for it."""
        return await self._driver.run(deliveries.end, outgoing.id, outgoing.attempt, outcome, limit_s)

    async def forget(self, older_than_s: float = deliveries.KEPT_S, *, limit: int = 1000) -> int:
        """Remove deliveries that are older than this."""
        return await self._driver.run(deliveries.forget, older_than_s, limit)

    async def has_news(self) -> bool:
        """Whether the log has rows that may be alerts."""
        return await self._driver.read(alerts.has_news)

    async def watch(self, *, limit: int = 500, limit_s: float = LIMIT_S) -> tuple[int, Sequence[News]]:
        """Queue the alerts of the log's next rows; how many rows there were, and what was told."""
        return await self._driver.run(deliveries.watch, limit, limit_s)

    async def totals(self) -> dict[str, int]:
        """How often each type of alert came up, told or not, and as `job_failed` how many jobs failed."""
        return await self._driver.read(alerts.totals)
