"""Keeps the leases in hand alive and hears the orders that come back."""

import asyncio
import secrets
from collections.abc import Callable

from takeup.core.errors import TakeupError
from takeup.core.model import Answer
from takeup.engine.holding import Hand, Holding
from takeup.engine.loop import Breaker
from takeup.engine.source import Source
from takeup.telemetry.logs import logger

BATCH_MAX = 500
TICK_S = 0.25

log = logger("keeper")


class Keeper:
    """Renews each lease at a third of its length, or earlier to tell of progress."""

    def __init__(
        self,
        source: Source,
        worker_id: str,
        hand: Hand,
        *,
        clock: Callable[[], float],
        obey: Callable[[Holding, Answer], None],
        glance_every_s: float,
        news_every_s: float,
    ) -> None:
        """`obey` is called with every answer that is more than `continue`."""
        self._source = source
        self._worker_id = worker_id
        self._hand = hand
        self._clock = clock
        self._obey = obey
        self._glance_every_s = glance_every_s
        self._news_every_s = news_every_s
        self._glance_at = 0.0
        self._breaker = Breaker(last_s=2.0)
        self.status = "active"
        """The worker's own status, as last seen."""

    async def run(self) -> None:
        """Keep leases for ever."""
        while True:
            try:
                await self.run_once()
                self._breaker.succeed()
            except TakeupError as error:
                log.warning("leases not renewed", error=str(error), failures=self._breaker.failures + 1)
                await asyncio.sleep(self._breaker.fail())
            await asyncio.sleep(TICK_S)

    async def run_once(self) -> None:
        """Renew what is due; now and then look whether anything was taken away."""
        now = self._clock()
        if now >= self._glance_at:
            self._glance_at = now + self._glance_every_s
            try:
                await self._glance()
            except TakeupError as error:  # renewing is more urgent, and is tried whatever this says
                log.warning("no orders seen", error=str(error))
        due = self._due(now)
        for start in range(0, len(due), BATCH_MAX):
            await self._renew(due[start : start + BATCH_MAX])

    def _due(self, now: float) -> list[Holding]:
        """Whatever must be renewed; what else has news goes with it, for one write costs as much as many."""
        alive = [holding for holding in self._hand if holding.stopping != "lost"]
        if not any(self._is_due(holding, now) for holding in alive):
            return []
        return [holding for holding in alive if holding.renew_at <= now or self._has_news(holding)]

    def _is_due(self, holding: Holding, now: float) -> bool:
        """A third of its length is over, or there is progress that people have waited for long enough."""
        is_late = now >= holding.asked_at + self._news_every_s
        return holding.renew_at <= now or (is_late and self._has_news(holding))

    def _has_news(self, holding: Holding) -> bool:
        return holding.has_news and holding.renew_at < float("inf")

    async def _renew(self, due: list[Holding]) -> None:
        asked_at = self._clock()
        reports = [holding.renewal() for holding in due]
        try:
            answers = await self._source.renew(self._worker_id, reports, request_id=secrets.token_hex(8))
        except TakeupError:
            for holding, report in zip(due, reports, strict=True):
                holding.has_news |= report.percent is not None or report.note is not None
            raise
        for holding, answer in zip(due, answers, strict=True):
            if answer.accepted:
                holding.asked_at = max(holding.asked_at, asked_at)
                holding.renew_at = asked_at + holding.renew_every_s
            else:
                holding.renew_at = float("inf")
            self._obey(holding, answer)

    async def _glance(self) -> None:
        held = list(self._hand)
        seen = await self._source.glance(self._worker_id, [holding.lease.held for holding in held])
        self.status = seen.status
        for holding in held:
            if holding.lease.task_id not in seen.held and not holding.has_ended:
                holding.renew_at = min(holding.renew_at, 0.0)  # the renewal's answer says why
