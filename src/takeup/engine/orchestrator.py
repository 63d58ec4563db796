"""The orchestrator: looks at the rows of live jobs and does what can be done now; hints only speed it up."""

import asyncio
from collections.abc import Callable

from takeup.core.errors import TakeupError
from takeup.dispatch.bell import EVERYTHING, Bell
from takeup.engine.clock import boot_clock
from takeup.store.store import OrchestratorStore
from takeup.telemetry.logs import logger

SWEEP_JOBS = 200
"""How many jobs one round of the sweep looks at."""
PAUSE_S_MIN, PAUSE_S_MAX = 0.005, 0.16
"""While looks find nothing to do, as in the middle of a large fan-out, they keep such a distance."""

log = logger("orchestrator")


class Orchestrator:
    """Advances the jobs that were named by a hint at once, and all others in turn."""

    name = "orchestrator"

    def __init__(
        self,
        store: OrchestratorStore,
        bell: Bell,
        *,
        period_s: float = 1.0,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        """`period_s` is how often the sweep over all live jobs begins, however many hints there are."""
        self.period_s = period_s
        self.ear = bell.listen("jobs")
        self._store = store
        self._bell = bell
        self._after = ""
        self._sweep_at = 0.0
        self._clock = clock
        self._pause_s = 0.0
        self._looked_at = clock()

    async def run_once(self) -> bool:
        """One look: at the named jobs, or at the next window of all live ones."""
        await asyncio.sleep(max(self._looked_at + self._pause_s - self._clock(), 0.0))
        try:
            return await self._look()
        finally:
            self._looked_at = self._clock()

    async def _look(self) -> bool:
        named = self.ear.take()
        if named and EVERYTHING not in named and self._clock() < self._sweep_at:
            return await self._advance(sorted(named))
        if not self._after:
            self._sweep_at = self._clock() + self.period_s
        jobs = await self._store.live_jobs(after=self._after, limit=SWEEP_JOBS)
        self._after = jobs[-1] if len(jobs) == SWEEP_JOBS else ""
        has_more = await self._advance(jobs)
        return has_more or bool(self._after)

    async def _advance(self, jobs: list[str]) -> bool:
        if not jobs:
            return False
        try:
            done = await self._store.advance(jobs)
        except TakeupError as error:
            if error.retryable or len(jobs) == 1:
                raise
            return await self._one_by_one(jobs)
        if done.ready:
            self._bell.ring("work")
        is_useful = done.ready or done.expanded or done.closed or done.abandoned
        self._pause_s = 0.0 if is_useful else min(max(2 * self._pause_s, PAUSE_S_MIN), PAUSE_S_MAX)
        if done.expanded or done.closed or done.abandoned:
            log.info("advanced", ready=done.ready, expanded=done.expanded, closed=done.closed)
        return done.has_more or bool(done.expanded)

    async def _one_by_one(self, jobs: list[str]) -> bool:
        """One job that cannot be advanced must not hold up the others."""
        has_more = False
        for job_id in jobs:
            try:
                has_more |= await self._advance([job_id])
            except TakeupError as error:
                if error.retryable:
                    raise
                log.error("a job cannot be advanced", job=job_id, error=str(error))  # noqa: TRY400 - no fault of ours
        return has_more
