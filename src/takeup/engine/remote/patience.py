"""What every call about a file has in common: the token it is made under, and how long it is tried."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from takeup.core.errors import Conflict, TakeupError
from takeup.core.remote import TOKEN_HEADER
from takeup.engine.holding import Holding
from takeup.engine.loop import Breaker
from takeup.telemetry.logs import logger

_T = TypeVar("_T")

log = logger("carrier")


class Patience:
    """Tries again what may pass."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """By this clock leases are trusted."""
        self._clock = clock

    async def __call__(
        self, holding: Holding, call: Callable[[], Awaitable[_T]], *, and_conflicts: bool = False
    ) -> _T:
        """Try again for as long as the lease is trusted."""
        breaker = Breaker(last_s=5.0)
        while True:
            try:
                return await call()
            except TakeupError as error:
                may_pass = error.retryable or (and_conflicts and type(error) is Conflict)
                if not may_pass or holding.stopping is not None or self._clock() >= holding.trusted_until:
                    raise
                log.warning("a file is not carried yet", **holding.about, error=str(error))
                await asyncio.sleep(breaker.fail())


def token_of(holding: Holding) -> dict[str, str]:
    """The header that shows whose call it is."""
    token = holding.lease.token
    return {TOKEN_HEADER: f"{token.epoch}.{token.nonce}"}


def tell(holding: Holding, note: str) -> None:
    """That bytes move is progress."""
    holding.note, holding.has_news = note, True
