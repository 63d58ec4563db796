"""The alerts loop: reads what is new in the log and queues what somebody should know of."""

from takeup.store.webhooks import CourierStore
from takeup.telemetry.logs import logger

PAGE = 500

log = logger("alerts")


class Alerting:
    """Any number of copies may run: who moves the cursor has told, in the same transaction."""

    name = "alerts"

    def __init__(self, store: CourierStore, *, period_s: float = 5.0, limit_s: float = 300.0) -> None:
        """One subject is told of at most once in `limit_s`."""
        self.period_s = period_s
        self._limit_s = limit_s
        self._store = store

    async def run_once(self) -> bool:
        """One page of the log."""
        if not await self._store.has_news():
            return False
        count, told = await self._store.watch(limit=PAGE, limit_s=self._limit_s)
        for news in told:
            log.warning("alert", type=news.event, **dict(news.data))
        return count == PAGE
