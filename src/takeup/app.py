"""The composition root: settings in, running parts out."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from takeup.artifacts.local import LocalArtifacts
from takeup.config import MIB, Settings
from takeup.core.budget import ErrorBudget
from takeup.core.errors import StoreConfig
from takeup.core.ids import digest
from takeup.core.pipeline import Pipeline
from takeup.core.plan import NewJob
from takeup.core.ports import Clock
from takeup.core.remote import STORAGE
from takeup.dispatch.bell import Bell, NotifyBell
from takeup.dispatch.file_bell import FileBell
from takeup.engine.alerting import Alerting
from takeup.engine.announcing import announce
from takeup.engine.archiver import Archiver
from takeup.engine.endpoints import Endpoints, declared_by, fetcher_of, poster_of
from takeup.engine.feed import Feed
from takeup.engine.forgetting import JOB_OVER, forget_outputs
from takeup.engine.loop import Loop, keep_running
from takeup.engine.options import worker_options
from takeup.engine.orchestrator import Orchestrator
from takeup.engine.outbox import Deliver, Outbox
from takeup.engine.receiving import Receiving
from takeup.engine.recovery import Recovery
from takeup.engine.scheduler import Scheduler
from takeup.engine.sending import Sender
from takeup.engine.sweeper import Sweeper
from takeup.engine.videos.intake import Intake, Limits, look_with
from takeup.engine.videos.keeper import VideoKeeper
from takeup.engine.videos.places import Places
from takeup.engine.videos.pulling import Puller
from takeup.engine.videos.repeating import Repeats
from takeup.engine.videos.shelf import OVER, Shelf, note_streams
from takeup.engine.videos.watching import WatchFolder
from takeup.engine.worker import Worker
from takeup.net.fetch import Fetcher
from takeup.store.ops.submit import FEW_JOBS
from takeup.store.store import Store


@dataclass(eq=False)
class App:
    """One open database with its bell: what every command works with."""

    settings: Settings
    store: Store
    bell: Bell

    async def submit(self, jobs: Sequence[NewJob]) -> list[str]:
        """Create jobs and say so."""
        hint = self.bell.hint("work") if len(jobs) <= FEW_JOBS else ""
        ids = await self.store.operator.submit(jobs, hint=hint)
        if hint and not any(job.idempotency_key for job in jobs):
            self.bell.ring_here("work")
        else:
            self.bell.ring("work")  # a key may have made its job before, in a commit that nobody was told of
        return ids

    def orchestrator(self) -> Orchestrator:
        """The loop that advances jobs."""
        return Orchestrator(self.store.orchestrator, self.bell, period_s=self.settings.orchestrator_interval)

    def recovery(self) -> Recovery:
        """The loop that takes back what is overdue."""
        return Recovery(
            self.store.recovery,
            self.bell,
            period_s=self.settings.recovery_interval,
            offline_s=self.settings.worker_offline_threshold_minutes * 60,
            grace_s=self.settings.recovery_grace,
            budget=ErrorBudget(self.settings.worker_error_budget, self.settings.worker_error_window),
        )

    def outbox(self) -> Outbox:
        """The loop that sends messages."""
        settings = self.settings
        return Outbox(
            self.store.recovery,
            period_s=settings.outbox_interval,
            lease_s=settings.outbox_lease,
            deliveries=self.deliveries(),
        )

    def deliveries(self) -> dict[str, list[Deliver]]:
        """Who carries out the messages of each topic, or of each family of topics."""
        forget = forget_outputs(LocalArtifacts(self.settings.storage), self.store.read.failed_before)
        note = note_streams(self.shelf, self.store.read)
        streams = {topic: [forget, note] if topic in JOB_OVER else [note] for topic in OVER}
        return {**streams, "job.*": [announce(self.store.courier)]}

    @cached_property
    def intake(self) -> Intake:
        """The way of files in."""
        return Intake(
            self.store.videos,
            self.store.uploads,
            self.bell,
            Places(self.settings.media),
            Limits.of(self.settings),
            look_with(self.settings),
        )

    @cached_property
    def repeats(self) -> Repeats:
        """The same for files that are sent under a key."""
        return Repeats(self.intake, self.store.videos, self.store.uploads)

    @cached_property
    def shelf(self) -> Shelf:
        """The streams of videos."""
        return Shelf(self.store.videos, Places(self.settings.media))

    def watch_folders(self) -> list[WatchFolder]:
        """The loop that takes in what is put into a folder, if the settings name one."""
        settings = self.settings
        if not settings.watch_dir:
            return []
        return [
            WatchFolder(
                Path(settings.watch_dir),
                self.intake,
                self.store.videos,
                period_s=settings.watch_interval,
                settled_s=settings.watch_settled,
            )
        ]

    def video_keeper(self) -> VideoKeeper:
        """The loop that keeps rows and files of videos together."""
        return VideoKeeper(
            self.store.videos,
            self.store.uploads,
            self.intake,
            self.shelf,
            period_s=self.settings.sweep_interval,
        )

    @cached_property
    def fetcher(self) -> Fetcher:
        """What fetches files from addresses."""
        return fetcher_of(self.settings)

    def puller(self) -> Puller:
        """The loop that does so for pulls."""
        settings = self.settings
        return Puller(
            self.store.pulls,
            self.intake,
            self.fetcher,
            period_s=settings.pull_interval,
            lease_s=settings.pull_lease,
            wait_s=settings.pull_wait_days * 86_400,
            at_once=settings.pull_at_once,
            turn_s=settings.pull_turn,
        )

    def endpoints(self) -> Endpoints:
        """What adds webhooks."""
        return Endpoints(self.store.webhooks, poster_of(self.settings))

    def webhook_loops(self) -> list[Loop]:
        """What finds alerts in the log, and what sends messages to webhooks."""
        settings, courier = self.settings, self.store.courier
        limit_s = settings.alert_rate_limit_seconds
        sender = Sender(
            courier,
            poster_of(settings),
            period_s=settings.webhook_interval,
            limit_s=limit_s,
            declared=(self.store.webhooks, declared_by(settings)),
        )
        return [Alerting(courier, period_s=settings.alert_interval, limit_s=limit_s), sender]

    def sweeper(self) -> Sweeper:
        """The loop that publishes and removes files."""
        settings = self.settings
        return Sweeper(
            self.store.worker, settings.storage, settings.scratch, period_s=settings.sweep_interval
        )

    def archiver(self) -> Archiver:
        """The loop that moves what is over out of the hot tables."""
        settings = self.settings
        return Archiver(
            self.store.recovery,
            period_s=settings.archive_interval,
            older_than_s=settings.archive_after_days * 86_400,
        )

    def feed(self) -> Feed:
        """The live events of one server."""
        settings = self.settings
        return Feed(
            self.store.feed, self.bell, period_s=settings.sse_interval, clients_max=settings.sse_clients_max
        )

    def schedulers(self, pipelines: Iterable[Pipeline]) -> list[Scheduler]:
        """The loop that creates the jobs of schedules, if these pipelines have any."""
        scheduler = Scheduler(
            self.store.scheduler, self.bell, pipelines, period_s=self.settings.schedule_interval
        )
        return [scheduler] if len(scheduler) else []

    def receiving(self, pipelines: Mapping[str, Pipeline]) -> Receiving:
        """What takes the outputs of workers that are elsewhere."""
        return Receiving(
            self.store.worker,
            LocalArtifacts(self.settings.storage.resolve()),
            pipelines,
            reserve_bytes=self.settings.disk_reserve_mb * MIB,
        )

    def job_loops(self) -> list[Loop]:
        """What a job needs to come to its end, besides workers."""
        return [self.orchestrator(), self.recovery(), self.outbox(), self.sweeper()]

    def loops(self, pipelines: Iterable[Pipeline] = ()) -> list[Loop]:
        """Everything but the workers; the schedules are those of these pipelines."""
        keeping: list[Loop] = [self.archiver(), self.video_keeper(), self.puller(), *self.watch_folders()]
        return [*self.job_loops(), *keeping, *self.schedulers(pipelines), *self.webhook_loops()]

    def worker(self, sources: Sequence[str], *, worker_id: str, **options: Any) -> Worker:
        """A worker for the pipelines of these sources."""
        abilities = frozenset(options.pop("capabilities", ())) | {STORAGE}
        told = worker_options(self.settings, sources, worker_id, capabilities=abilities, **options)
        return Worker(self.store.worker, told, self.bell)


@asynccontextmanager
async def open_app(
    settings: Settings, *, upgrade: bool | None = None, clock: Clock | None = None
) -> AsyncIterator[App]:
    """Open the database (an embedded one is brought up to date by itself) and its bell.

    Without a clock, time is the database's own.
    """
    is_embedded = not settings.database.startswith("postgres")
    if is_embedded and not settings.database_url:
        make_folder(settings.data_dir)
    upgrades = is_embedded if upgrade is None else upgrade
    store = await Store.open(settings.database, clock=clock, upgrade=upgrades)
    bell = bell_of(store)
    try:
        yield App(settings, store, bell)
    finally:
        if isinstance(bell, NotifyBell):
            await bell.flush()
        await bell.close()
        await store.close()


def bell_of(store: Store) -> Bell:
    """The bell that reaches every process on this database."""
    driver: Any = store.driver
    if driver.dialect.name == "postgres":
        return NotifyBell(driver.notify, driver.listen)
    if driver.dialect.name == "sqlite" and driver.log_file is not None:
        return FileBell(driver.log_file)
    return Bell()


def make_folder(folder: Path) -> None:
    """Make a data directory that nobody else reads, or say in one line why it cannot be."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise StoreConfig(
            f"the data directory {folder} cannot be written: {error.strerror}",
            advice="Choose another folder with --data DIR, or get the right to write there.",
        ) from error


async def run_loops(loops: Sequence[Loop], stop: asyncio.Event) -> None:
    """Run loops until told to stop."""
    async with asyncio.TaskGroup() as group:
        for loop in loops:
            group.create_task(_run(loop, stop))


async def _run(loop: Loop, stop: asyncio.Event) -> None:
    """Run one loop, and let end what it has under way."""
    try:
        await keep_running(loop, stop, getattr(loop, "ear", None))
    finally:
        if isinstance(loop, Sender | Puller):
            await loop.settle()


def local_worker_id(settings: Settings) -> str:
    """The id of the worker inside a command: the same for the same folder, so a restart is recognised."""
    return f"local-{socket.gethostname()}-{digest(str(settings.data_dir.resolve()))[:8]}"
