"""What recovery and the orchestrator do, in one pass, for control tables beside which no engine runs."""

from takeup.pipelines.control.report import WatchdogReport
from takeup.store.store import Store

SWEEP_JOBS, SWEEP_MAX = 500, 20
"""How many jobs are moved on in one transaction, and in how many of them at most."""


async def watch(store: Store, *, after: str = "", limit: int = 1000) -> tuple[WatchdogReport, str]:
    """Take back overdue leases, wake due retries, move jobs on; answers also with where to go on.

    `after` is where the pass before ended: empty at the beginning, and again when all jobs were looked at.
    """
    expired = await store.recovery.expire(limit=limit)
    woken = await store.recovery.wake(limit=limit)
    advanced = 0
    for _ in range(SWEEP_MAX):
        jobs = await store.orchestrator.live_jobs(after=after, limit=SWEEP_JOBS)
        after = jobs[-1] if len(jobs) == SWEEP_JOBS else ""
        if jobs:
            moved = await store.orchestrator.advance(jobs)
            advanced += moved.expanded + moved.ready + moved.abandoned + moved.closed
        if not after:
            break
    return WatchdogReport(len(expired), len(woken), advanced), after
