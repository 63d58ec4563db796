"""The facade of people: what they may do to jobs and workers."""

import secrets
from collections.abc import Sequence

from takeup.core.control import Adoption
from takeup.core.ids import RandomBytes, new_id
from takeup.core.model import Control
from takeup.core.plan import NewJob, plan_job
from takeup.store.drivers import Driver
from takeup.store.ops import control, operate, retry, submit, worker


class OperatorStore:
    """What people may do: submit, cancel, pause, resume, skip, change priority, manage workers."""

    def __init__(self, driver: Driver, random: RandomBytes = secrets.token_bytes) -> None:
        """`random` makes the ids of new jobs."""
        self._driver = driver
        self._random = random

    async def submit(
        self, jobs: Sequence[NewJob], *, request_id: str | None = None, hint: str = ""
    ) -> list[str]:
        """Create jobs, all or none; a job whose key is known is not created again. Answers with their ids.

        A hint is sent with the commit of a few jobs, where the database can.
        """
        plans = [(new_id("job", self._random), plan_job(job)) for job in jobs]
        return await self._driver.run(submit.submit, plans, request_id=request_id, hint=hint)

    async def retry(self, job_ids: Sequence[str], *, request_id: str | None = None) -> list[str]:
        """Run finished jobs again as new ones, planned from their rows; answers with the new ids."""
        jobs = [(job_id, new_id("job", self._random)) for job_id in job_ids]
        return await self._driver.run(retry.retry, jobs, request_id=request_id)

    async def adopt(
        self, adoptions: Sequence[Adoption], *, reason: str = "adopted", request_id: str | None = None
    ) -> list[str | None]:
        """Create jobs for subjects that never had one; answers with None where one had: it is untouched."""
        plans = [(new_id("job", self._random), plan_job(one.job), one) for one in adoptions]
        return await self._driver.run(control.adopt, plans, reason=reason, request_id=request_id)

    async def cancel(
        self,
        job_ids: Sequence[str],
        *,
        reason: str = "cancelled by an operator",
        must_be_live: bool = False,
    ) -> list[str]:
        """Cancel jobs; what runs is told to stop and its token is void at once."""
        return await self._driver.run(operate.cancel, job_ids, reason=reason, must_be_live=must_be_live)

    async def set_control(
        self,
        job_ids: Sequence[str],
        control: Control,
        *,
        reason: str | None = None,
        version: int | None = None,
    ) -> list[str]:
        """Pause (PAUSED), resume (READY) or skip (SKIP) jobs."""
        return await self._driver.run(operate.set_control, job_ids, control, reason=reason, version=version)

    async def set_task_control(
        self, task_ids: Sequence[int], control: Control, *, reason: str | None = None
    ) -> list[int]:
        """Pause, resume or skip single tasks."""
        return await self._driver.run(operate.set_task_control, task_ids, control, reason=reason)

    async def set_priority(
        self, job_ids: Sequence[str], priority: int, *, version: int | None = None
    ) -> list[str]:
        """Change the priority of jobs."""
        return await self._driver.run(operate.set_priority, job_ids, priority, version=version)

    async def drain(self, worker_ids: Sequence[str]) -> list[str]:
        """Give workers nothing new."""
        return await self._driver.run(worker.drain, worker_ids)

    async def disable(self, worker_ids: Sequence[str], *, reason: str | None = None) -> None:
        """Switch workers off; their leases run out."""
        await self._driver.run(worker.set_disabled, worker_ids, disabled=True, reason=reason)

    async def enable(self, worker_ids: Sequence[str], *, reason: str | None = None) -> None:
        """Switch workers on again, and let them out of quarantine."""
        await self._driver.run(worker.set_disabled, worker_ids, disabled=False, reason=reason)
