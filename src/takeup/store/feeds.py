"""The facade of those who follow live: they read, and nothing else."""

from collections.abc import Iterable, Sequence

from takeup.core.live import JobLook, LogLook, Watch, WorkerLook
from takeup.core.pulls import Pull
from takeup.store.drivers import Driver
from takeup.store.ops import feed, pulls


class FeedStore:
    """The log after some place, and how jobs and workers stand."""

    def __init__(self, driver: Driver) -> None:
        """Read through this driver."""
        self._driver = driver

    async def settled(self) -> int:
        """Up to where every row of the log is there now."""
        return await self._driver.read(feed.settled)

    async def look(self, watch: Watch, after: int, *, limit: int = feed.ROWS_MAX) -> LogLook:
        """What the log says of these jobs and workers after a place."""
        return await self._driver.read(feed.look, watch, after, limit)

    async def jobs_of_subjects(self, subjects: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The jobs of each subject, the newest first."""
        return await self._driver.read(feed.jobs_of_subjects, subjects)

    async def jobs(self, job_ids: Iterable[str], *, with_rungs: Iterable[str] = ()) -> dict[str, JobLook]:
        """How these jobs stand; those that are gone are left out."""
        return await self._driver.read(feed.jobs, list(job_ids), list(with_rungs))

    async def pulls(self, pull_ids: Sequence[str]) -> dict[str, Pull]:
        """How these files that are fetched stand."""
        return await self._driver.read(pulls.among, pull_ids) if pull_ids else {}

    async def workers(self) -> dict[str, WorkerLook]:
        """How all workers stand."""
        return await self._driver.read(feed.workers)
