"""How a loop runs: its period with jitter, its back-off after errors, its breaker; and how it stops."""

import asyncio
import random
from collections.abc import Callable
from typing import Protocol

from takeup.core.errors import TakeupError
from takeup.dispatch.bell import Ear
from takeup.telemetry.logs import logger

JITTER = 0.2
ROUNDS_MAX = 100
"""How often a loop that says there is more goes on before others get a turn."""

log = logger("loop")


class Loop(Protocol):
    """Something that is done again and again; one round must leave everything in order."""

    name: str
    period_s: float

    async def run_once(self) -> bool:
        """One round; True if there is more to do right away."""
        ...


class Breaker:
    """Counts failures in a row: first longer and longer pauses, then one try now and then."""

    def __init__(
        self, *, first_s: float = 0.1, last_s: float = 10.0, luck: Callable[[], float] = random.random
    ) -> None:
        """Pauses grow from `first_s` to `last_s`."""
        self.failures = 0
        self._first_s = first_s
        self._last_s = last_s
        self._luck = luck

    @property
    def is_open(self) -> bool:
        """Whether so much failed that the other side is considered gone."""
        return self.failures >= 5  # noqa: PLR2004 - five in a row

    def succeed(self) -> None:
        """All is well again."""
        self.failures = 0

    def fail(self) -> float:
        """Another failure; how long to pause now."""
        self.failures += 1
        pause_s = min(self._first_s * 2.0 ** min(self.failures - 1, 20), self._last_s)
        return pause_s * (1.0 - JITTER * self._luck())


async def keep_running(
    loop: Loop, stop: asyncio.Event, ear: Ear | None = None, luck: Callable[[], float] = random.random
) -> None:
    """Run a loop until told to stop; whatever goes wrong in a round is logged, and the loop goes on."""
    breaker = Breaker(luck=luck)
    while not stop.is_set():
        try:
            for _ in range(ROUNDS_MAX):
                if not await loop.run_once() or stop.is_set():
                    break
            breaker.succeed()
            pause_s = loop.period_s * (1.0 - JITTER * luck())
        except TakeupError as error:
            pause_s = breaker.fail()
            note = log.warning if error.retryable and not breaker.is_open else log.error
            note("round failed", loop=loop.name, error=str(error), failures=breaker.failures, pause_s=pause_s)
        except Exception as error:
            pause_s = breaker.fail()
            log.exception("round failed", loop=loop.name, error=str(error), failures=breaker.failures)
        await pause(stop, ear if breaker.failures == 0 else None, pause_s)


async def pause(stop: asyncio.Event, ear: Ear | None, pause_s: float) -> None:
    """Wait for the time, for a ring, or for the end, whatever comes first."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def end(*_: object) -> None:
        if not over.done():
            over.set_result(None)

    stopping = asyncio.ensure_future(stop.wait())
    stopping.add_done_callback(end)
    timer = loop.call_later(pause_s, end)
    if ear is not None:
        ear.wake(end)
    try:
        await over
    finally:
        timer.cancel()
        stopping.cancel()
        if ear is not None:
            ear.wake(None)
