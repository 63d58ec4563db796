"""Reads for a server that serves workers elsewhere: what a token holds, what is whose."""

from collections.abc import Sequence
from datetime import datetime

from takeup.core.files import MadeFile
from takeup.core.model import Held, HeldTask
from takeup.store.drivers import Driver
from takeup.store.ops import holder


class HolderReads:
    """The part of a worker's facade that its server asks on its behalf; no state is changed by it."""

    _driver: Driver

    async def held_task(self, worker_id: str, held: Held) -> HeldTask | None:
        """The task, if this worker holds it with this token now."""
        return await self._driver.read(holder.held_task, worker_id, held)

    async def file_of_job(self, job_id: str, key: str) -> MadeFile | None:
        """An output file of a finished task of this job."""
        return await self._driver.read(holder.file_of_job, job_id, key)

    async def claimed(
        self, worker_id: str, attempts: Sequence[tuple[str, int, int]]
    ) -> frozenset[tuple[int, int]]:
        """Which of these attempts (job, task, epoch) are this worker's, as task and epoch."""
        return await self._driver.read(holder.claimed, worker_id, attempts)

    async def jobs_of(self, task_ids: Sequence[int]) -> list[str]:
        """The jobs that these tasks are of."""
        return await self._driver.read(holder.jobs_of, task_ids)

    async def own_steps(self, worker_id: str, steps: Sequence[tuple[int, datetime]]) -> frozenset[int]:
        """Which of these commands (key and time) are of this worker's attempts."""
        return await self._driver.read(holder.own_steps, worker_id, steps)
