"""The archiver: finished jobs leave the hot tables after a while, and so does what is left of them."""

from collections.abc import Callable

from takeup.core.errors import TakeupError
from takeup.core.points import point
from takeup.engine.clock import boot_clock
from takeup.store.store import RecoveryStore
from takeup.telemetry.logs import logger

JOBS_MAX = 500
JOBS_FIRST = 50
MESSAGES_MAX = 1000
WORKERS_MAX = 100
SLOW_S, QUICK_S = 0.5, 0.1
"""A batch that takes longer is halved for the next time; one that takes less is doubled."""
PAUSE_S = 0.2
"""Between two batches, so that others get at the database."""
PARKED_TIMES = 10
"""A message that was given up is kept so much longer than one that was sent: somebody may want to look."""
MONTHS_AHEAD = 3

log = logger("archiver")


class Archiver:
    """Moves one batch a round, by the database's clock; any number of copies may run. Files stay."""

    name = "archiver"

    def __init__(
        self,
        store: RecoveryStore,
        *,
        period_s: float = 3600.0,
        older_than_s: float = 30 * 86_400.0,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        """What ended longer ago than `older_than_s` leaves."""
        self.period_s = period_s
        self.batch = JOBS_FIRST
        self._interval_s = period_s
        self._store = store
        self._older_than_s = older_than_s
        self._clock = clock
        self._is_first = True

    async def run_once(self) -> bool:
        """One batch; while there is more, the next one follows after a short pause."""
        if self._is_first:
            await self._add_months()
        has_more = await self._jobs()
        age_s = self._older_than_s
        messages = await self._store.forget_messages(age_s, PARKED_TIMES * age_s, limit=MESSAGES_MAX)
        workers = await self._store.forget_workers(age_s, limit=WORKERS_MAX)
        if messages or workers:
            log.info("forgotten", messages=messages, workers=len(workers))
        has_more = has_more or messages >= MESSAGES_MAX or len(workers) == WORKERS_MAX
        self._is_first = not has_more
        self.period_s = PAUSE_S if has_more else self._interval_s
        return False

    async def _jobs(self) -> bool:
        began, asked = self._clock(), self.batch
        point("archiver.before jobs")
        try:
            jobs = await self._store.archive(self._older_than_s, limit=asked)
        except TakeupError:
            self.batch = max(asked // 2, 1)
            raise
        point("archiver.after jobs")
        took_s = self._clock() - began
        if jobs:
            log.info("archived", jobs=len(jobs), took_s=round(took_s, 3))
        if took_s > SLOW_S:
            self.batch = max(asked // 2, 1)
        elif took_s < QUICK_S and len(jobs) == asked:
            self.batch = min(asked * 2, JOBS_MAX)
        return len(jobs) == asked

    async def _add_months(self) -> None:
        """A month without a partition of its own goes to the default one, so this may wait."""
        try:
            made = await self._store.add_months(MONTHS_AHEAD)
        except TakeupError as error:
            log.warning("no months added", error=str(error))
        else:
            if made:
                log.info("months added", partitions=made)
