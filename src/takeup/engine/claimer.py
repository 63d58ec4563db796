"""Takes work for a worker: as much as its runners have room for, and nothing while it could not do it."""

import asyncio
import secrets
import shutil
from collections import OrderedDict
from collections.abc import Callable, Mapping

from takeup.core.errors import KeyRefused, TakeupError
from takeup.core.model import Brief, Lease, Progress
from takeup.core.points import point
from takeup.core.policy import renew_every_s
from takeup.dispatch.bell import Ear
from takeup.engine.holding import Hand
from takeup.engine.loop import Breaker, pause
from takeup.engine.options import WorkerOptions
from takeup.engine.runners import Runners
from takeup.engine.source import Source
from takeup.store.ops.claim import ClaimRequest
from takeup.telemetry.logs import logger

BRIEFS_MAX = 256
POLL_FIRST_S = 0.05
CLAIM_GROWTH = 10
FIRST_PAUSE_S = 0.003
"""What a task that came alone is given to begin before the worker and the database look for more."""
SILENT_HEARTBEATS = 3
FULL_PAUSES_MAX = 6
SPACE_LOOK_S = 0.5

log = logger("claimer")


class Claimer:
    """Claims when there is room, when a bell rings, and now and then without one."""

    def __init__(
        self,
        source: Source,
        options: WorkerOptions,
        *,
        runners: Runners,
        hand: Hand,
        ear: Ear,
        clock: Callable[[], float],
        place: Callable[[list[Lease], float, bool], None],
    ) -> None:
        """`place` gets new leases, when they were asked for, and whether their jobs are known."""
        self._source = source
        self._options = options
        self._runners = runners
        self._hand = hand
        self._ear = ear
        self._clock = clock
        self._place = place
        self._briefs: OrderedDict[str, Brief] = OrderedDict()
        self._request: ClaimRequest | None = None
        self._beginning: tuple[list[Lease], asyncio.Task[None]] | None = None
        self._asked_at = 0.0
        self._full_until = self._look_at = 0.0
        self._full_count = 0
        self._seen_at = clock()
        self._grace_until = 0.0
        self._standing: str | None = None

    @property
    def jobs(self) -> Mapping[str, Brief]:
        """Spec and subject of the jobs whose tasks were claimed last."""
        return self._briefs

    async def run(self, stop: asyncio.Event, is_draining: Callable[[], bool]) -> None:
        """Claim until told to stop.

        An idle worker asks for one task, which is the quickest to get, and for more the more there is. While
        there is plenty, what was claimed is begun when the next claim is on its way already.
        """
        idle_s, wanted, breaker = POLL_FIRST_S, 1, Breaker(last_s=5.0)
        try:
            while not stop.is_set() and not is_draining():
                room = self._room()
                if room < 1 and self._beginning is not None:
                    await self._begun()  # and look again: tasks may have ended meanwhile
                    continue
                if room < 1 or not self._has_space():
                    await self._until_free(stop)
                    continue
                limit = min(room, wanted)
                self._ear.take()
                try:
                    leases = await self._claim(limit)
                    self.note_contact()
                    breaker.succeed()
                except KeyRefused:
                    raise  # no later claim can be answered otherwise
                except TakeupError as error:
                    log.warning("no claim", error=str(error), failures=breaker.failures + 1)
                    await pause(stop, None, breaker.fail())
                    continue
                await self._begun()
                has_plenty, came_alone = len(leases) == limit, wanted < room
                wanted = min(max(len(leases) * CLAIM_GROWTH, 1), self._options.batch)
                if leases:
                    idle_s = POLL_FIRST_S
                    beginning = self._begin(leases, self._asked_at, stop)
                    if has_plenty and limit > 1:
                        self._beginning = leases, asyncio.create_task(beginning)
                    else:
                        await beginning
                    if limit == 1 and came_alone:
                        await pause(stop, self._ear, FIRST_PAUSE_S)
                    continue
                await pause(stop, self._ear, idle_s)
                idle_s = min(idle_s * 2, self._options.poll_s)
        finally:
            await self._begun()

    def _room(self) -> int:
        """How many tasks to ask for, with those in mind that are not begun yet."""
        coming = len(self._beginning[0]) if self._beginning and not self._beginning[1].done() else 0
        slots = self._options.spec.slots - len(self._hand)
        return min(min(self._runners.free, slots) - coming, self._options.batch)

    async def _begun(self) -> None:
        """Wait until the leases of the last claim are with their runners."""
        if self._beginning is not None:
            (_, beginning), self._beginning = self._beginning, None
            await beginning

    def note_contact(self) -> None:
        """After a long silence of the source all leases look overdue: leave them alone for a while."""
        now = self._clock()
        if now - self._seen_at > SILENT_HEARTBEATS * self._options.heartbeat_s:
            self._grace_until = now + self._options.grace_s
        self._seen_at = now

    def note_standing(self, status: str | None) -> None:
        """How the source sees this worker; that it gets nothing new any more is told once."""
        if status == "quarantined" != self._standing:
            log.warning(
                "quarantined: it gets nothing new until an operator enables it", worker=self._options.spec.id
            )
        elif self._standing == "quarantined" != status:
            log.info("out of quarantine", worker=self._options.spec.id)
        self._standing = status

    def note_full_disk(self) -> None:
        """A task found no space: take nothing for a while, and longer each time."""
        self._full_count = min(self._full_count + 1, FULL_PAUSES_MAX)
        self._look_at = 0.0
        self._full_until = self._clock() + self._options.heartbeat_s * 2.0 ** (self._full_count - 1)

    def note_success(self) -> None:
        """A task was done, so there is space again."""
        self._full_count = 0

    async def _claim(self, limit: int) -> list[Lease]:
        """Claim; a request whose answer was lost is sent again, so that no lease is forgotten.

        Trust counts from the first time it was sent: that may be the one that was obeyed.
        """
        if self._request is None:
            self._asked_at = self._clock()
            self._request = ClaimRequest(
                self._options.spec.id,
                secrets.token_hex(8),
                secrets.token_hex(16),
                limit,
                self._options.defer_s,
                may_skim=True,
            )
        takes_back = self._clock() >= self._grace_until
        leases = await self._source.claim(self._request, takes_back=takes_back)
        self._request = None
        point("worker.after claim")
        return leases

    async def _begin(self, leases: list[Lease], asked_at: float, stop: asyncio.Event) -> None:
        if self._clock() - asked_at > min(renew_every_s(lease.lease_s) for lease in leases):
            leases, asked_at = await self._still_held(leases, asked_at)
        if leases:
            self._place(leases, asked_at, await self._learn(leases, asked_at, stop))

    async def _still_held(self, leases: list[Lease], asked_at: float) -> tuple[list[Lease], float]:
        """After a long silence nobody here knows when they were granted: trust begins with a renewal."""
        renewed_at = self._clock()
        reports = [Progress(lease.held) for lease in leases]
        request_id = secrets.token_hex(8)
        try:
            answers = await self._source.renew(self._options.spec.id, reports, request_id=request_id)
        except TakeupError as error:
            log.warning("leases not renewed", error=str(error))
            return leases, asked_at
        held = [lease for lease, answer in zip(leases, answers, strict=True) if answer.accepted]
        return held, renewed_at

    async def _learn(self, leases: list[Lease], asked_at: float, stop: asyncio.Event) -> bool:
        """Read the specs of jobs that are not known yet; False if that took too long."""
        job_ids = {lease.job_id for lease in leases}
        for job_id in job_ids & self._briefs.keys():
            self._briefs.move_to_end(job_id)
        self._briefs |= {lease.job_id: lease.brief for lease in leases if lease.brief is not None}
        missing, breaker = sorted(job_ids - self._briefs.keys()), Breaker(last_s=1.0)
        until = asked_at + min(lease.lease_s for lease in leases) / 2
        while missing:
            try:
                found = await self._source.briefs(missing)
            except TakeupError as error:
                log.warning("no brief", error=str(error))
                await pause(stop, None, breaker.fail())
                if stop.is_set() or self._clock() > until:
                    return False
                continue
            for job_id in missing:
                self._briefs[job_id] = found.get(job_id, Brief({}, None))
            missing = []
        while len(self._briefs) > max(BRIEFS_MAX, len(job_ids)):
            self._briefs.popitem(last=False)
        return True

    def _has_space(self) -> bool:
        """Whether there is room to work: a worker with a full disk fails every task it takes."""
        now = self._clock()
        if now < self._full_until:
            return False
        if now < self._look_at:
            return True
        self._look_at = now + SPACE_LOOK_S
        for folder in (self._options.setup.storage, self._options.setup.scratch):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                free = shutil.disk_usage(folder).free
            except OSError as error:
                log.warning("nothing is claimed", folder=str(folder), error=str(error))
                free = -1
            if free < self._options.reserve_bytes:
                log.warning("too little space, nothing is claimed", folder=str(folder))
                self.note_full_disk()
                return False
        return True

    async def _until_free(self, stop: asyncio.Event) -> None:
        self._runners.changed.clear()
        changed = asyncio.ensure_future(self._runners.changed.wait())
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait(
            (changed, stopped), timeout=self._options.poll_s, return_when=asyncio.FIRST_COMPLETED
        )
        changed.cancel()
        stopped.cancel()
