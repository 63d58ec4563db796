"""Tells the source how tasks ended: many at once, again until answered, only while the lease is trusted."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from takeup.core.errors import InvalidInput, TakeupError
from takeup.core.model import Answer, Completion, Failure
from takeup.core.points import point
from takeup.engine.holding import Holding
from takeup.engine.loop import Breaker
from takeup.engine.source import Source
from takeup.telemetry.logs import logger

BATCH_MAX = 500
SPLIT_AFTER = 3

log = logger("reporter")


@dataclass(frozen=True, slots=True)
class Release:
    """A task that is handed back unfinished."""

    reason: str


Report = Completion | Failure | Release


@dataclass(eq=False)
class Ending:
    """A task that ended, its report, and the key under which its outputs become visible."""

    holding: Holding
    report: Report
    key: str | None = None


class Reporter:
    """Sends reports one batch after the other; while one is on its way the next gathers."""

    def __init__(
        self,
        source: Source,
        worker_id: str,
        *,
        clock: Callable[[], float],
        settle: Callable[[Sequence[tuple[Ending, Answer | None]]], None],
    ) -> None:
        """`settle` hears of each report once: with its answer, or with None if trust ran out before."""
        self._source = source
        self._worker_id = worker_id
        self._clock = clock
        self._settle = settle
        self._waiting: list[Ending] = []
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()
        self._busy = 0

    async def wait_idle(self) -> None:
        """Wait until every report was answered."""
        while self._waiting or self._busy:
            self._quiet.clear()
            await self._quiet.wait()

    def add(self, ending: Ending) -> None:
        """Report this soon."""
        self._waiting.append(ending)
        self._wake.set()

    def drop(self, holding: Holding) -> None:
        """No report is needed: the token is void."""
        self._waiting = [ending for ending in self._waiting if ending.holding is not holding]
        self._settle([(Ending(holding, Release("")), None)])

    async def run(self) -> None:
        """Send reports for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self.run_once()

    async def run_once(self) -> None:
        """Send one batch of each kind that waits."""
        batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
        self._busy += len(batch)
        try:
            for kind in (Completion, Failure, Release):
                endings = [ending for ending in batch if isinstance(ending.report, kind)]
                if endings:
                    await self._send(endings)
        finally:
            self._busy -= len(batch)
            self._quiet.set()

    async def _send(self, endings: list[Ending]) -> None:
        """Send until answered; whose trust runs out meanwhile is left out, and so never written late."""
        request_id, breaker = secrets.token_hex(8), Breaker(last_s=2.0)
        while True:
            now = self._clock()
            late = [ending for ending in endings if ending.holding.trusted_until <= now]
            endings = [ending for ending in endings if ending.holding.trusted_until > now]
            if late:
                self._settle([(ending, None) for ending in late])
            if not endings:
                return
            try:
                answers = await self._call(endings, request_id)
            except InvalidInput as error:
                if len(endings) == 1:
                    self._refuse(endings[0], error)
                    return
                for ending in endings:  # one report that cannot be taken must not hold up the others
                    await self._send([ending])
                return
            except TakeupError as error:
                if len(endings) > 1 and breaker.failures >= SPLIT_AFTER:
                    middle = len(endings) // 2  # it may be too much for one statement
                    await self._send(endings[:middle])
                    await self._send(endings[middle:])
                    return
                log.warning("report not answered", count=len(endings), error=str(error))
                await asyncio.sleep(breaker.fail())
                continue
            point("worker.after report")
            self._settle(list(zip(endings, answers, strict=True)))
            return

    async def _call(self, endings: list[Ending], request_id: str) -> list[Answer]:
        first = endings[0].report
        if isinstance(first, Completion):
            completions = [e.report for e in endings if isinstance(e.report, Completion)]
            return await self._source.complete(self._worker_id, completions, request_id=request_id)
        if isinstance(first, Failure):
            failures = [e.report for e in endings if isinstance(e.report, Failure)]
            return await self._source.fail(self._worker_id, failures, request_id=request_id)
        held = [ending.holding.lease.held for ending in endings]
        return await self._source.release(self._worker_id, held, reason=first.reason, request_id=request_id)

    def _refuse(self, ending: Ending, error: TakeupError) -> None:
        """A report that the source cannot take: the attempt failed, unless that was what it said already."""
        log.error("report refused", error=str(error))
        if isinstance(ending.report, Completion):
            text = f"its result cannot be stored: {error}"
            failure = Failure(ending.holding.lease.held, text, error.retryable)
            self.add(Ending(ending.holding, failure))
        else:
            self._settle([(ending, None)])
