"""The store as its users see it: one facade a role, each with exactly the moves of its actor.

A worker has no method that could advance another task, the orchestrator none that could finish one. All of
them share one driver, and every method is one transaction.
"""

import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from random import SystemRandom

from takeup.core.budget import ErrorBudget, Judged
from takeup.core.control import Claimable, ControlRow
from takeup.core.errors import TakeupError
from takeup.core.ids import RandomBytes
from takeup.core.model import (
    Answer,
    Artifact,
    Attempt,
    Brief,
    Completion,
    Event,
    Failure,
    Fate,
    Glance,
    Held,
    HeldTask,
    InputPage,
    Job,
    JobPlace,
    Lease,
    ListedJob,
    Message,
    Progress,
    Task,
    Worker,
    WorkerSpec,
)
from takeup.core.ports import Clock
from takeup.store import migrate
from takeup.store.bookmarks import Shelf
from takeup.store.details import DetailReads, NoteWrites
from takeup.store.drivers import Driver, connect
from takeup.store.feeds import FeedStore
from takeup.store.holders import HolderReads
from takeup.store.keys import KeyStore
from takeup.store.operators import OperatorStore
from takeup.store.ops import (
    archive,
    brief,
    claim,
    claim_task,
    control,
    orchestrate,
    outbox,
    quarantine,
    read,
    recover,
    report,
    worker,
)
from takeup.store.people import PeopleStore
from takeup.store.pulls import PullStore
from takeup.store.schedules import SchedulerStore
from takeup.store.videos import UploadStore, VideoStore
from takeup.store.webhooks import CourierStore, WebhookStore

CLAIM_EXPIRES_MAX = 8
"""How many overdue leases a claim that found nothing takes back before it looks once more."""

_random = SystemRandom()

ADVANCE_MAX = 20_000
"""How many tasks one pass of the orchestrator may change."""


class ReadStore(DetailReads):
    """Lists and details; everybody may look."""

    async def job(self, job_id: str) -> Job:
        """One job."""
        return await self._driver.read(read.job, job_id)

    async def job_place(self, job_id: str) -> JobPlace:
        """Where a job stands among all, also if it is in the archive."""
        return await self._driver.read(read.job_place, job_id)

    async def jobs(
        self,
        where: read.JobFilter | None = None,
        *,
        before: JobPlace | ListedJob | None = None,
        limit: int = 100,
    ) -> list[ListedJob]:
        """A page of jobs, newest first; `before` is the last job of the page before."""
        return await self._driver.read(read.jobs, where or read.JobFilter(), before, limit)

    async def failed_before(self, job_id: str) -> list[str]:
        """The earlier runs of a job that failed, the last one first."""
        return await self._driver.read(brief.failed_before, job_id)

    async def task(self, task_id: int) -> Task:
        """One task."""
        return await self._driver.read(read.task, task_id)

    async def tasks(self, job_id: str, *, after: int = 0, limit: int = 1000) -> list[Task]:
        """A page of a job's tasks in the order they were created."""
        return await self._driver.read(read.tasks, job_id, after, limit)

    async def attempts(self, job_id: str, *, limit: int = 1000) -> list[Attempt]:
        """Every claim of a job's tasks and how it ended."""
        return await self._driver.read(read.attempts, job_id, limit)

    async def artifacts(self, job_id: str, *, limit: int = 1000) -> list[Artifact]:
        """A job's output files."""
        return await self._driver.read(read.artifacts, job_id, limit)

    async def task_counts(self, job_id: str) -> dict[tuple[str, str], int]:
        """How many tasks of a job are in each (stage, status)."""
        return await self._driver.read(read.task_counts, job_id)

    async def queue_counts(self) -> dict[str, int]:
        """How many live tasks are in each status."""
        return await self._driver.read(read.queue_counts)

    async def worker(self, worker_id: str) -> Worker:
        """One worker with its load."""
        return await self._driver.read(read.worker, worker_id)

    async def workers(self, *, after: str = "", limit: int = 1000) -> list[Worker]:
        """A page of workers."""
        return await self._driver.read(read.workers, after, limit)

    async def events(self, *, after: int = 0, limit: int = 1000, job_id: str | None = None) -> list[Event]:
        """A page of the audit log."""
        return await self._driver.read(read.events, after, limit, job_id)

    async def control_rows(
        self, pipeline: str, where: control.ControlFilter | None = None, *, after: str = "", limit: int = 1000
    ) -> list[ControlRow]:
        """A page of the control table of a pipeline; `after` is the job id of the last row before it."""
        return await self._driver.read(control.rows, pipeline, where or control.ControlFilter(), after, limit)

    async def control_row(self, subject: str) -> ControlRow | None:
        """The row of one subject in its control table."""
        return await self._driver.read(control.row_of, subject)

    async def worklist(self, pipeline: str, *, stage: str | None = None, limit: int = 100) -> list[Claimable]:
        """What of a control table can be claimed now, most urgent first."""
        return await self._driver.read(control.worklist, pipeline, stage, limit)

    async def worklist_of(self, subject: str, *, limit: int = 100) -> list[Claimable]:
        """What of one subject can be claimed now."""
        return await self._driver.read(control.worklist_of, subject, limit)

    async def now(self) -> datetime:
        """The database's time, by which all leases and delays are kept."""
        return await self._driver.read(read.clock)


class WorkerStore(NoteWrites, HolderReads):
    """What a worker may do: register, claim, and report on the leases it holds."""

    def __init__(self, driver: Driver, luck: Callable[[], float] = _random.random) -> None:
        """`luck` in [0, 1) spreads the delays of retries."""
        super().__init__(driver)
        self._luck = luck
        self._shelf = Shelf()

    async def register(self, spec: WorkerSpec) -> None:
        """Become known and active."""
        await self._driver.run(worker.register, spec)

    async def heartbeat(self, worker_ids: Sequence[str]) -> dict[str, str]:
        """Say that these workers live; answers with the status of each."""
        return await self._driver.run(worker.heartbeat, worker_ids)

    async def leave(self, worker_ids: Sequence[str]) -> list[str]:
        """Say good-bye."""
        return await self._driver.run(worker.leave, worker_ids)

    async def claim_task(self, request: claim.ClaimRequest, task_id: int) -> Lease | None:
        """Lease this one task; None if it cannot be claimed by this worker now."""
        return await self._driver.run(claim_task.claim_task, request, task_id)

    async def claim(self, request: claim.ClaimRequest, *, takes_back: bool = True) -> list[Lease]:
        """Lease tasks; a claim that finds none may take back a few leases that are over and look again."""
        bookmarks = self._shelf.of(request.worker_id) if request.may_skim else None
        leases = await self._driver.run(claim.claim, request, bookmarks)
        if leases or not takes_back:
            return leases
        taken_back = await self._driver.run(recover.expire, CLAIM_EXPIRES_MAX)
        return await self._driver.run(claim.claim, request, bookmarks) if taken_back else []

    async def renew(
        self, worker_id: str, reports: Sequence[Progress], *, request_id: str | None = None
    ) -> list[Answer]:
        """Extend leases and note progress."""
        return await self._driver.run(report.renew, worker_id, reports, request_id=request_id)

    async def complete(
        self, worker_id: str, reports: Sequence[Completion], *, request_id: str | None = None
    ) -> list[Answer]:
        """Finish tasks."""
        return await self._driver.run(report.complete, worker_id, reports, request_id=request_id)

    async def fail(
        self, worker_id: str, reports: Sequence[Failure], *, request_id: str | None = None
    ) -> list[Answer]:
        """End attempts that failed."""
        return await self._driver.run(report.fail, worker_id, reports, luck=self._luck, request_id=request_id)

    async def release(
        self, worker_id: str, held: Sequence[Held], *, reason: str = "released", request_id: str | None = None
    ) -> list[Answer]:
        """Hand tasks back unfinished."""
        return await self._driver.run(report.release, worker_id, held, reason=reason, request_id=request_id)

    async def briefs(self, job_ids: Sequence[str]) -> dict[str, Brief]:
        """The spec and subject of jobs whose tasks were claimed."""
        return await self._driver.read(brief.briefs, job_ids)

    async def inputs(self, lease: Lease | HeldTask, needs: str, *, after: int = -2) -> InputPage:
        """A page of what a stage made that the leased task needs; of its own: in a run that failed."""
        return await self._driver.read(brief.inputs, lease, needs, after)

    async def glance(self, worker_id: str, held: Sequence[Held]) -> Glance:
        """Whether this worker is to go on and which leases it still holds; changes nothing."""
        return await self._driver.read(brief.glance, worker_id, held)

    async def fates(self, folders: Sequence[tuple[int, int, str]]) -> list[Fate]:
        """What became of the attempts that left these folders behind."""
        return await self._driver.read(brief.fates, folders)


class OrchestratorStore:
    """What the orchestrator may do: advance jobs. It never finishes work."""

    def __init__(self, driver: Driver) -> None:
        """Advance jobs through this driver."""
        self._driver = driver

    async def advance(self, job_ids: Sequence[str], *, limit: int = ADVANCE_MAX) -> orchestrate.Advance:
        """Do all that can be done now for these jobs."""
        return await self._driver.run(orchestrate.advance, job_ids, limit)

    async def live_jobs(self, *, after: str = "", limit: int = 500) -> list[str]:
        """A window of unfinished jobs to sweep over."""
        return await self._driver.read(orchestrate.live_jobs, after, limit)


class RecoveryStore:
    """What recovery may do: take back what is overdue, by the database's clock alone."""

    def __init__(self, driver: Driver) -> None:
        """Recover through this driver."""
        self._driver = driver

    async def expire(self, *, limit: int = 1000) -> list[int]:
        """Take back tasks whose lease is over."""
        return await self._driver.run(recover.expire, limit)

    async def wake(self, *, limit: int = 1000) -> list[int]:
        """Make tasks READY whose back-off is over."""
        return await self._driver.run(recover.wake, limit)

    async def lose_workers(self, threshold_s: float, *, limit: int = 1000) -> list[str]:
        """Mark workers offline that have been silent for longer than this."""
        return await self._driver.run(worker.lose, threshold_s, limit)

    async def quarantine(self, budget: ErrorBudget) -> Judged:
        """Give workers nothing new that spent their budget on tasks which others then finished."""
        return await self._driver.run(quarantine.quarantine, budget)

    async def archive(self, older_than_s: float, *, limit: int = 100) -> list[str]:
        """Archive jobs that finished longer ago than this."""
        return await self._driver.run(archive.archive, older_than_s, limit)

    async def forget_messages(self, sent_s: float, parked_s: float, *, limit: int = 1000) -> int:
        """Remove messages that were sent, or given up, longer ago than this."""
        return await self._driver.run(archive.forget_messages, sent_s, parked_s, limit)

    async def forget_workers(self, older_than_s: float, *, limit: int = 100) -> list[str]:
        """Remove workers that have been offline for longer than this and hold nothing."""
        return await self._driver.run(archive.forget_workers, older_than_s, limit)

    async def add_months(self, month_count: int = 3) -> int:
        """Make the partitions of the coming months; how many were missing."""
        return await self._driver.run(archive.add_months, month_count)

    async def forget_claims(self, older_than_s: float = 86_400.0) -> None:
        """Drop the records of old claim requests."""
        await self._driver.run(recover.forget_claims, older_than_s)

    async def take_messages(self, *, limit: int = 100, lease_s: float = 60.0) -> list[Message]:
        """Take due outbox messages to send."""
        return await self._driver.run(outbox.take, limit, lease_s)

    async def deliver(self, messages: Sequence[Message]) -> list[int]:
        """Note that these messages were delivered."""
        return await self._driver.run(outbox.deliver, messages)

    async def retry_messages(self, messages: Sequence[Message], error: str, delay_s: float) -> list[int]:
        """Send these messages again later."""
        return await self._driver.run(outbox.retry, messages, error, delay_s)

    async def park(self, messages: Sequence[Message], error: str) -> list[int]:
        """Give these messages up and keep them for an operator."""
        return await self._driver.run(outbox.park, messages, error)


class Store:
    """One open database with its role facades and its reads."""

    def __init__(
        self,
        driver: Driver,
        *,
        random: RandomBytes = secrets.token_bytes,
        luck: Callable[[], float] = _random.random,
    ) -> None:
        """Wrap a driver; use `open` for a URL."""
        self.driver = driver
        self.read = ReadStore(driver)
        self.worker = WorkerStore(driver, luck)
        self.orchestrator = OrchestratorStore(driver)
        self.recovery = RecoveryStore(driver)
        self.operator = OperatorStore(driver, random)
        self.scheduler = SchedulerStore(driver, random)
        self.keys = KeyStore(driver, random)
        self.videos = VideoStore(driver, random)
        self.uploads = UploadStore(driver, random)
        self.pulls = PullStore(driver, random)
        self.people = PeopleStore(driver, random)
        self.feed = FeedStore(driver)
        self.webhooks = WebhookStore(driver, random)
        self.courier = CourierStore(driver)

    @classmethod
    async def open(cls, url: str, *, clock: Clock | None = None, upgrade: bool = False) -> "Store":
        """Open the database behind the URL and check its schema, or bring it up to date first."""
        driver = await connect(url, clock=clock)
        try:
            await driver.run(migrate.upgrade if upgrade else migrate.check, driver.dialect)
        except TakeupError:
            await driver.close()
            raise
        return cls(driver)

    async def close(self) -> None:
        """Give everything back."""
        await self.driver.close()
