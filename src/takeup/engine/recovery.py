"""The recovery loop: takes back overdue leases, wakes retries, notes workers that are silent or that fail."""

from collections.abc import Callable

from takeup.core.budget import ErrorBudget
from takeup.dispatch.bell import Bell
from takeup.engine.clock import boot_clock
from takeup.store.store import RecoveryStore
from takeup.telemetry.logs import logger

BATCH = 1000
GAP_PERIODS = 3
GAP_S_MIN = 10.0
CLAIMS_KEPT_S = 86_400.0
FORGET_EVERY_S = 3600.0
BUDGET = ErrorBudget()

log = logger("recovery")


class Recovery:
    """Decides by the database's clock alone; any number of copies may run."""

    name = "recovery"

    def __init__(
        self,
        store: RecoveryStore,
        bell: Bell,
        *,
        period_s: float = 5.0,
        offline_s: float = 60.0,
        grace_s: float = 120.0,
        budget: ErrorBudget = BUDGET,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        """`grace_s` is how long leases are left alone after this loop could not reach the database."""
        self.period_s = period_s
        self._store = store
        self._bell = bell
        self._offline_s = offline_s
        self._grace_s = grace_s
        self._budget = budget
        self._spared: frozenset[str] = frozenset()
        self._clock = clock
        self._good_at: float | None = None
        self._grace_until = 0.0
        self._forget_at = 0.0

    async def run_once(self) -> bool:
        """One round; more if a batch was full."""
        woken = await self._store.wake(limit=BATCH)
        self._notice_gap()
        expired: list[int] = []
        if self._clock() >= self._grace_until:
            expired = await self._store.expire(limit=BATCH)
            await self._lose()
        await self._judge()
        if self._clock() >= self._forget_at:
            self._forget_at = self._clock() + FORGET_EVERY_S
            await self._store.forget_claims(CLAIMS_KEPT_S)
        self._good_at = self._clock()
        if woken or expired:
            log.info("recovered", woken=len(woken), expired=len(expired))
            self._bell.ring("work")
            self._bell.ring("jobs")
        return BATCH in (len(woken), len(expired))

    def _notice_gap(self) -> None:
        """After an outage of the database everybody looks overdue: first let the living renew."""
        now = self._clock()
        gap_s = max(GAP_PERIODS * self.period_s, GAP_S_MIN)
        if self._good_at is not None and now - self._good_at > gap_s:
            self._grace_until = now + self._grace_s
            log.warning("back after a gap", gap_s=round(now - self._good_at, 1), grace_s=self._grace_s)

    async def _judge(self) -> None:
        """Quarantine who fails what others finish; who is spared is told of once."""
        if not self._budget.tasks:
            return
        judged = await self._store.quarantine(self._budget)
        if judged.quarantined:
            log.warning("workers are quarantined", workers=judged.quarantined)
        if news := sorted(set(judged.spared) - self._spared):
            log.warning(
                "workers fail what others finish, but too few would be left without them", workers=news
            )
        self._spared = frozenset(judged.spared)

    async def _lose(self) -> None:
        lost = await self._store.lose_workers(self._offline_s)
        if lost:
            log.warning("workers are silent", workers=lost[:10], count=len(lost))
