"""The loop that fetches files from addresses: each under a lease, on from where it broke off."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from http import HTTPStatus

from takeup.core.errors import NotFound, StoreError, TakeupError
from takeup.core.policy import RetryPolicy
from takeup.core.pulls import Beat, Pull, PullEnd
from takeup.core.videos import Upload
from takeup.engine.clock import boot_clock
from takeup.engine.flights import Flights
from takeup.engine.videos.errors import NoRoom, UploadBusy, WrongOffset
from takeup.engine.videos.intake import FAULTS_FROM, Intake
from takeup.net.calling import Unreachable
from takeup.net.fetch import BYTES_A_LOOK, Answer, BrokeOff, Fetcher
from takeup.net.resolving import Unresolved
from takeup.store.ops.uploads import Quota
from takeup.store.pulls import FORGET_MAX, PullStore
from takeup.telemetry.logs import logger
from takeup.telemetry.redact import presentable

BEAT_S = 1.0
"""So often it is told how far a pull is, and looked whether it shall go on."""
BEATS_A_LEASE = 4
PATIENCE = RetryPolicy(max_attempts=8, initial_s=2.0, multiplier=3.0, cap_s=600.0, jitter=0.2)
"""How often in a row nothing more may come."""
ATTEMPTS_MAX = 1000
"""Whoever breaks off again and again, with a little more each time, is not waited for without end."""
ROOM_S = 30.0
TURN_S = 1800.0
WAIT_S = 7 * 86_400.0
FORGET_EVERY_S = 3600.0
PASSING = (408, 425, 429)
"""Refusals that may be none in a while."""
WAITING = (Quota, NoRoom, UploadBusy)
"""What may end by itself, so that it costs no patience, but only so much time."""

log = logger("pulls")


class TurnOver(BrokeOff):
    """Others wait, and this one has been fetched for long enough."""


class Refused(TakeupError):
    """The other side does not give the file."""

    http_status = 422
    help = "Look at the address in a browser that is not logged in anywhere."


@dataclass
class Progress:
    """How far the pull is that goes on here."""

    received_bytes: int
    length_bytes: int | None
    validator: str
    is_whole: bool = False
    """Whether all of it came here, however long it was said to be."""

    @property
    def beat(self) -> Beat:
        return Beat(self.received_bytes, self.length_bytes, self.validator)

    async def counted(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same, counted once it was taken."""
        async for block in body:
            yield block
            self.received_bytes += len(block)
        self.is_whole = True


class Puller:
    """Takes due pulls as long as there is room, and fetches each in a task of its own."""

    name = "pulls"

    def __init__(  # noqa: PLR0913 - each with its default
        self,
        store: PullStore,
        intake: Intake,
        fetcher: Fetcher,
        *,
        period_s: float = 1.0,
        lease_s: float = 60.0,
        wait_s: float = WAIT_S,
        at_once: int = 3,
        turn_s: float = TURN_S,
        luck: Callable[[], float] = random.random,
    ) -> None:
        """Who is silent for `lease_s` loses his pull to another; none waits for room longer than `wait_s`.

        One user has all of `at_once` but one; who fetches for `turn_s` lets those go first who wait.
        """
        self.period_s = period_s
        self._flights = Flights(at_once)
        self.ear = self._flights.ear
        self._store = store
        self._intake = intake
        self._fetcher = fetcher
        self._lease_s = lease_s
        self._wait_s = wait_s
        self._turn_s = turn_s
        self._share = max(at_once - 1, 1)
        self._luck = luck
        self._forgot_at: float | None = None

    async def run_once(self) -> bool:
        """Begin what is due; what lands makes room for more."""
        self.ear.take()
        await self._forget()
        if self._flights.room > 0:
            for pull in await self._store.take(
                limit=self._flights.room,
                lease_s=self._lease_s,
                share=self._share,
                held=self._flights.owners,
            ):
                self._flights.begin(self._fly(pull), pull.user_id)
        return False

    async def settle(self) -> None:
        """Break off what is under way and hand it back; what came of it stays."""
        await self._flights.call_back()

    async def _forget(self) -> None:
        now = boot_clock()
        is_due = self._forgot_at is None or now - self._forgot_at >= FORGET_EVERY_S
        if is_due and await self._store.forget() < FORGET_MAX:
            self._forgot_at = now

    async def _fly(self, pull: Pull) -> None:
        """Fetch one for as long as it is ours, and note how that ended."""
        progress = Progress(pull.received_bytes, pull.length_bytes, pull.validator)
        work = asyncio.create_task(self._pull(pull, progress))
        try:
            is_ours = await self._watch(pull, progress, work)
        except asyncio.CancelledError:  # the server stops: somebody else may go on at once
            await _ended(work)
            await self._note(pull, PullEnd("WAITING", failures=pull.failures))
            raise
        await _ended(work)
        if is_ours:
            error = TurnOver("its turn is over, others wait") if work.cancelled() else work.exception()
            waits = isinstance(error, WAITING)
            how = await self._wait(pull, str(error)) if waits else self._outcome(pull, progress, error)
            await self._note(pull, how)
        else:
            await self._give_up(pull)

    async def _watch(self, pull: Pull, progress: Progress, work: asyncio.Task[None]) -> bool:
        """Hold the lease until the work or its turn is over; False if it was lost or cancelled before."""
        begun_at = boot_clock()
        until = begun_at + self._lease_s
        beat_s = min(BEAT_S, self._lease_s / BEATS_A_LEASE)
        while not work.done():
            await asyncio.wait([work], timeout=beat_s)
            asked_at = boot_clock()
            try:
                is_ours = await self._store.beat(pull, progress.beat, lease_s=self._lease_s)
                until = asked_at + self._lease_s
            except StoreError as error:
                log.warning("a pull is not noted", pull=pull.id, error=str(error))
                is_ours = boot_clock() < until
            if not is_ours:
                return False
            if boot_clock() - begun_at >= self._turn_s and await self._is_over(pull, progress):
                break
        return True

    async def _is_over(self, pull: Pull, progress: Progress) -> bool:
        """Whether it is another one's turn; what is here as a whole is not given up any more."""
        if self._flights.room > 0 or progress.is_whole:
            return False
        held = self._flights.owners - Counter([pull.user_id])
        try:
            return await self._store.next_user(self._share, held) not in (None, pull.user_id)
        except StoreError as error:
            log.warning("whose turn it is is not known", pull=pull.id, error=str(error))
            return False

    async def _wait(self, pull: Pull, why: str) -> PullEnd:
        """Again a little later, if there is time left for waiting."""
        try:
            is_late = await self._store.has_waited(pull, self._wait_s)
        except StoreError as error:
            log.warning("how long a pull waits is not known", pull=pull.id, error=str(error))
            is_late = False
        text = presentable(why)
        if is_late:
            return PullEnd(
                "FAILED", f"{text}; this is not waited for any longer (pull_wait_days)", pull.failures
            )
        return PullEnd("WAITING", text, pull.failures, ROOM_S)

    def _outcome(self, pull: Pull, progress: Progress, error: BaseException | None) -> PullEnd:
        if error is None:
            return PullEnd("DONE")
        text = presentable(str(error))
        is_further = progress.received_bytes - pull.received_bytes >= BYTES_A_LOOK
        failures = 1 if is_further else pull.failures + 1
        again = PullEnd("WAITING", text, failures, PATIENCE.delay_s(failures, self._luck()))
        if not isinstance(error, TakeupError | OSError | Unreachable):
            log.error("a pull failed", pull=pull.id, error=f"{type(error).__name__}: {text}")
        is_final = isinstance(error, TakeupError) and error.http_status < FAULTS_FROM
        if isinstance(error, Unresolved | WrongOffset | NotFound):
            is_final = False
        may_go_on = PATIENCE.allows(failures) and pull.attempt < ATTEMPTS_MAX and not is_final
        return again if may_go_on else PullEnd("FAILED", text, failures)

    async def _note(self, pull: Pull, how: PullEnd) -> None:
        try:
            is_noted = await self._store.end(pull, how)
            told = {"pull": pull.id, "status": how.to_status, "error": how.error}
            log.info("a pull ended" if is_noted else "a pull was not ours any more", **told)
            if is_noted and how.to_status == "FAILED":
                await self._intake.forget(pull.upload_id)
        except (TakeupError, OSError) as error:  # its lease ends, and it is looked at again
            log.warning("a pull is not noted", pull=pull.id, error=str(error))

    async def _give_up(self, pull: Pull) -> None:
        """It is not ours any more; if nobody wants it, nothing of it stays."""
        log.info("a pull is given up", pull=pull.id)
        try:
            now = (await self._store.among([pull.id])).get(pull.id)
            if now is None or now.status == "CANCELLED":
                await self._intake.forget(pull.upload_id)
        except (TakeupError, OSError) as error:
            log.warning("a pull leaves files for the sweep", pull=pull.id, error=str(error))

    async def _pull(self, pull: Pull, progress: Progress) -> None:
        """Fetch what is missing, and let it become a video."""
        upload = await self._intake.known(pull.upload_id)
        if await self._intake.is_taken(pull.video_id):
            return
        here = self._intake.size(upload) if upload else 0
        if upload is not None and here == upload.length_bytes:
            if await self._intake.adopt(upload) is None:
                raise UploadBusy("somebody else looks into this file")
            return
        may_go_on = upload is not None and upload.length_bytes is not None and pull.validator
        start = here if may_go_on else 0
        headers = {"Range": f"bytes={start}-", "If-Range": pull.validator} if start else {}
        async with self._fetcher.get(pull.url, headers) as answer:
            _check_status(answer)
            await self._receive(pull, upload, answer, start, progress)

    async def _receive(
        self, pull: Pull, upload: Upload | None, answer: Answer, start: int, progress: Progress
    ) -> None:
        """Take the body: the rest of what is here, or all of it anew."""
        is_rest = answer.status == HTTPStatus.PARTIAL_CONTENT
        if is_rest and (upload is None or answer.part != (start, upload.length_bytes)):
            await self._intake.forget(pull.upload_id)
            raise BrokeOff("the file at the address is another one now; it is fetched anew")
        if not is_rest:
            await self._intake.forget(pull.upload_id)
            start = 0
        length = upload.length_bytes if is_rest and upload else answer.length
        progress.received_bytes, progress.length_bytes = start, length
        progress.validator = pull.validator if is_rest else answer.validator
        body = progress.counted(answer.body)
        if length is None:
            await self._intake.take(pull.user_id, None, pull.about, body, upload_id=pull.upload_id)
            return
        if not is_rest or upload is None:
            upload = await self._intake.begin(pull.user_id, length, pull.about, upload_id=pull.upload_id)
        # what it is must be known before any of it is: whoever goes on compares
        await self._store.beat(pull, progress.beat, lease_s=self._lease_s)
        _, video = await self._intake.go_on(upload, start, body, coming_bytes=length - start)
        if video is None:
            raise BrokeOff("it broke off before its end")


async def _ended(work: asyncio.Task[None]) -> None:
    """Let it end, now."""
    work.cancel()
    await asyncio.wait([work])


def _check_status(answer: Answer) -> None:
    status = answer.status
    if status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        return
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or status in PASSING or status >= FAULTS_FROM:
        raise Unreachable(f"it answered {status}")
    raise Refused(f"it answered {status}")
