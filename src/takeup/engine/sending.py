"""The sender: what is due goes to each endpoint, signed; none waits for another."""

import random
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

from takeup.core.errors import TakeupError
from takeup.core.policy import RetryPolicy
from takeup.core.webhooks import Outcome, Outgoing
from takeup.engine.clock import boot_clock
from takeup.engine.endpoints import Declared
from takeup.engine.flights import Flights
from takeup.net.calling import Unreachable
from takeup.net.post import Poster, Reply
from takeup.net.signatures import headers_of
from takeup.store.webhooks import CourierStore, WebhookStore
from takeup.telemetry.logs import logger
from takeup.telemetry.redact import presentable

FLIGHTS_MAX = 32
"""How many calls are under way at once."""
EACH_MAX = 4
"""How many of them to one endpoint."""
LEASE_SPARE_S = 50.0
PATIENCE = RetryPolicy(max_attempts=18, initial_s=5.0, multiplier=4.0, cap_s=6 * 3600.0, jitter=0.2)
"""Seconds at first, six hours at last, for about three days."""
RETRY_AFTER_S_MAX = 86_400.0
ANSWER_BYTES = 1024
FORGET_EVERY_S = 3600.0
FORGET_MAX = 1000
GONE, TOO_MANY, UNAVAILABLE = 410, 429, 503

log = logger("webhooks")


class Sender:
    """Takes due deliveries as long as there is room, and sends each in a task of its own."""

    name = "webhooks"

    def __init__(
        self,
        store: CourierStore,
        poster: Poster,
        *,
        period_s: float = 1.0,
        limit_s: float = 300.0,
        declared: tuple[WebhookStore, Declared] | None = None,
        luck: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`declared` is the endpoint of the settings; `clock` is what receivers compare with theirs."""
        self.period_s = period_s
        self._flights = Flights(FLIGHTS_MAX)
        self.ear = self._flights.ear
        self._store = store
        self._poster = poster
        self._limit_s = limit_s
        self._declared = declared
        self._luck = luck
        self._clock = clock
        self._forgot_at: float | None = None

    async def run_once(self) -> bool:
        """Start what is due; what lands makes room for more."""
        self.ear.take()
        if self._declared is not None:
            store, (url, form, secret, events) = self._declared
            await store.declare(url, events, form=form, secret=secret)
            self._declared = None
        await self._forget()
        room = self._flights.room
        if room <= 0:
            return False
        lease_s = self._poster.timeout_s + LEASE_SPARE_S
        for one in await self._store.take(limit=room, each=EACH_MAX, lease_s=lease_s):
            self._flights.begin(self._fly(one))
        return False

    async def settle(self) -> None:
        """Let what is under way end; nothing new is started."""
        await self._flights.land(self._poster.timeout_s + LEASE_SPARE_S)

    async def _forget(self) -> None:
        now = boot_clock()
        if self._forgot_at is not None and now - self._forgot_at < FORGET_EVERY_S:
            return
        if await self._store.forget(limit=FORGET_MAX) < FORGET_MAX:
            self._forgot_at = now

    async def _fly(self, one: Outgoing) -> None:
        """Send one and note how it went; whatever goes wrong, its lease ends and it is sent again."""
        try:
            outcome = await self._send(one)
            told = {"webhook": one.webhook_id, "message": one.event_id, "attempt": one.attempt}
            if outcome.error is None:
                log.info("sent", status=outcome.http_status, **told)
            else:
                log.warning("not taken", error=outcome.error, again_in_s=round(outcome.delay_s), **told)
            reason = await self._store.end(one, outcome, limit_s=self._limit_s)
            if reason is not None:
                log.error("webhook disabled", webhook=one.webhook_id, reason=reason)
        except Exception as error:  # noqa: BLE001 - a call that fails must not end the loop
            log.warning("not noted", webhook=one.webhook_id, error=type(error).__name__)

    async def _send(self, one: Outgoing) -> Outcome:
        body = one.body.encode()
        is_signed = one.form == "standard"
        secrets = one.secrets if is_signed else ()
        headers = headers_of(secrets, one.event_id, int(self._clock()), body)
        try:
            reply = await self._poster.post(one.url, headers, body)
        except (Unreachable, TakeupError) as error:
            return self._failed(one, str(error), pause_s=0.0)
        if reply.is_success:
            return Outcome("SENT", http_status=reply.status, answer=answer_of(reply))
        return self._refused(one, reply)

    def _refused(self, one: Outgoing, reply: Reply) -> Outcome:
        if reply.status == GONE:
            return Outcome("FAILED", reply.status, answer_of(reply), "it answered 410 Gone", is_gone=True)
        wait_s: float | None = None
        if reply.status in (TOO_MANY, UNAVAILABLE):
            wait_s = retry_after_s(reply.headers.get("retry-after", ""), self._clock()) or 0.0
        error = f"it answered {reply.status}"
        if 300 <= reply.status < 400:  # noqa: PLR2004 - the statuses that send elsewhere
            error += ", and redirects are not followed"
        return self._failed(one, error, reply=reply, pause_s=wait_s)

    def _failed(
        self, one: Outgoing, error: str, *, reply: Reply | None = None, pause_s: float | None = None
    ) -> Outcome:
        is_last = not PATIENCE.allows(one.attempt)
        return Outcome(
            "FAILED" if is_last else "WAITING",
            reply.status if reply else None,
            answer_of(reply) if reply else None,
            presentable(error),
            delay_s=max(PATIENCE.delay_s(one.attempt, self._luck()), pause_s or 0.0),
            pause_s=pause_s,
        )


def answer_of(reply: Reply) -> str:
    """The first kilobyte of an answer, as text for people."""
    data = presentable(reply.text).encode()[:ANSWER_BYTES]
    return data.decode("utf-8", "ignore")


def retry_after_s(text: str, now: float) -> float | None:
    """How long an endpoint asked to be left alone, within a day; None if it did not say."""
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), RETRY_AFTER_S_MAX)
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(moment - now, 0.0), RETRY_AFTER_S_MAX)
