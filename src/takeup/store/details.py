"""Reads for people who look at one job; nothing is decided by them."""

from collections.abc import Sequence
from datetime import datetime

from takeup.core.files import JobFile
from takeup.core.model import Attempt, LogLine, Step, StepEnd, Task
from takeup.core.progress import JobProgress
from takeup.core.quality import Quality
from takeup.core.why import Facts
from takeup.store.drivers import Driver
from takeup.store.ops import detail, notes, read, why


class DetailReads:
    """The part of the reads that shows one job from all sides."""

    def __init__(self, driver: Driver) -> None:
        """Read through this driver."""
        self._driver = driver

    async def files(
        self, job_id: str, *, after: tuple[int, str] = (0, ""), limit: int = 1000
    ) -> list[JobFile]:
        """A page of a job's output files; `after` is the task and the name of the last one before it."""
        return await self._driver.read(read.files, job_id, after, limit)

    async def find_job(self, text: str) -> str:
        """The id of the one job whose id begins like this."""
        return await self._driver.read(detail.find, text)

    async def progress(self, job_id: str) -> JobProgress:
        """How far each stage of a job is."""
        return await self._driver.read(detail.progress, job_id)

    async def qualities(self, job_id: str) -> list[Quality]:
        """How far each rung of a job is."""
        return await self._driver.read(detail.rungs, job_id)

    async def tasks_in(self, job_id: str, status: str, *, limit: int = 100) -> list[Task]:
        """The first tasks of a job that are in this status."""
        return await self._driver.read(detail.tasks_in, job_id, status, limit)

    async def attempts_of(self, job_id: str, task_ids: Sequence[int], *, limit: int = 1000) -> list[Attempt]:
        """Every claim of these tasks of a job and how it ended."""
        return await self._driver.read(detail.attempts_of, job_id, task_ids, limit)

    async def logs(self, job_id: str, *, after: int = 0, limit: int = 1000) -> list[LogLine]:
        """A page of what was logged about a job."""
        return await self._driver.read(notes.logs, job_id, after, limit)

    async def steps(self, job_id: str, *, after: int = 0, limit: int = 1000) -> list[Step]:
        """A page of the commands that a job's stages ran."""
        return await self._driver.read(notes.steps, job_id, after, limit)

    async def last_logs(self, job_id: str, *, limit: int = 10) -> list[LogLine]:
        """The last lines that were logged about a job."""
        return await self._driver.read(detail.last_logs, job_id, limit)

    async def worker_counts(self) -> dict[str, int]:
        """How many workers are in each status."""
        return await self._driver.read(detail.worker_counts)

    async def why(self, job_id: str) -> Facts:
        """What explains what a job does or waits for."""
        return await self._driver.read(why.facts, job_id)


class NoteWrites:
    """What workers write down for people: log lines and commands. Nothing is decided by them."""

    def __init__(self, driver: Driver) -> None:
        """Write through this driver."""
        self._driver = driver

    async def add_logs(self, lines: Sequence[LogLine]) -> None:
        """Keep log lines."""
        await self._driver.run(notes.add_logs, lines)

    async def add_steps(
        self, steps: Sequence[Step], ages_s: Sequence[float]
    ) -> dict[str, tuple[int, datetime]]:
        """Note commands that began; answers with the key of each."""
        return await self._driver.run(notes.add_steps, steps, ages_s)

    async def end_steps(self, ends: Sequence[StepEnd]) -> None:
        """Note how commands ended."""
        await self._driver.run(notes.end_steps, ends)
