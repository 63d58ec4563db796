"""Where claims wait for work: who can do the same stand in one line, and only the first of it looks."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from takeup.core.errors import TakeupError
from takeup.core.ids import digest
from takeup.core.model import Lease
from takeup.dispatch.bell import Bell
from takeup.engine.loop import pause
from takeup.store.store import ReadStore

WAITING_MAX = 20_000
KNOWN_S = 60.0
"""So long it is taken for granted what a worker can do."""
IN_VAIN_MAX = 3
"""So many of a line look in vain before the others of it are left alone until the next ring."""

Ask = Callable[[], Awaitable[list[Lease]]]


class LobbyFull(TakeupError):
    """As many claims wait as may."""

    retryable = True
    http_status = 503
    help = "Ask again in a moment, or start another server on the same database."


@dataclass(eq=False)
class Waiting:
    """One claim that waits."""

    ask: Ask
    answer: "asyncio.Future[list[Lease]]"
    is_leaving: bool = False
    """Whether his time is over, so that he is answered whatever is found."""


@dataclass(eq=False)
class Line:
    """Those who can do the same work, in the order they came."""

    waiting: "deque[Waiting]" = field(default_factory=deque)
    serving: "asyncio.Task[None] | None" = None
    is_rung: bool = False


class Lobby:
    """Lets few claims reach the database for many that wait: a ring lets the first of each line look.

    If he gets something so may the next, and so on; the others of a line that gets nothing would get nothing.
    """

    def __init__(
        self,
        bell: Bell,
        read: ReadStore,
        *,
        look_every_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Without any ring the first of each line looks every `look_every_s`."""
        self._ear = bell.listen("work")
        self._read = read
        self._look_every_s = look_every_s
        self._clock = clock
        self._lines: dict[str, Line] = {}
        self._names: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self._by_worker: dict[str, Waiting] = {}
        self._count = 0

    def forget(self, worker_id: str) -> None:
        """What this worker can do may have changed."""
        self._names.pop(worker_id, None)

    async def claim(self, worker_id: str, ask: Ask, wait_s: float) -> list[Lease]:
        """Look now, and again when there may be something, for so long at most."""
        leases = await ask()
        if leases or wait_s <= 0:
            return leases
        line = await self._name(worker_id)
        self._end(worker_id)
        if self._count >= WAITING_MAX:
            raise LobbyFull(f"{WAITING_MAX} claims wait here already")
        answer: asyncio.Future[list[Lease]] = asyncio.get_running_loop().create_future()
        mine = self._by_worker[worker_id] = Waiting(ask, answer)
        self._line(line).waiting.append(mine)
        self._count += 1
        try:
            await asyncio.wait((answer,), timeout=wait_s)
            if mine in self._line(line).waiting:
                return []
            mine.is_leaving = True
            return await answer  # it is being looked for him, or was: what is found must not be forgotten
        finally:
            self._count -= 1
            answer.cancel()
            if self._by_worker.get(worker_id) is mine:
                del self._by_worker[worker_id]
            self._forget(line, mine)

    def _end(self, worker_id: str) -> None:
        """A worker waits once: whoever waits for him already is a call that he has given up."""
        earlier = self._by_worker.get(worker_id)
        if earlier is None:
            return
        earlier.is_leaving = True
        for line in self._lines.values():
            if earlier in line.waiting:
                line.waiting.remove(earlier)
                earlier.answer.set_result([])
                return

    async def _name(self, worker_id: str) -> str:
        """The line of this worker: with all who can do the same; a wrong one costs only time."""
        now = self._clock()
        known = self._names.get(worker_id)
        if known is not None and now - known[0] < KNOWN_S:
            return known[1]
        worker = await self._read.worker(worker_id)
        able = sorted(worker.stages), sorted(worker.capabilities)
        name = digest(repr((*able, worker.quarantined_at is not None)))  # who gets nothing holds up nobody
        self._names[worker_id] = now, name
        self._names.move_to_end(worker_id)
        if len(self._names) > WAITING_MAX:
            self._names.popitem(last=False)
        return name

    async def run(self, stop: asyncio.Event) -> None:
        """Let the lines look until told to stop; then all who wait get their answer at once."""
        while not stop.is_set():
            await pause(stop, self._ear, self._look_every_s)
            self._ear.take()
            for line in list(self._lines.values()):
                self._serve(line)
        for line in list(self._lines.values()):
            for one in line.waiting:
                if not one.answer.done():
                    one.answer.set_result([])

    def _line(self, name: str) -> Line:
        return self._lines.setdefault(name, Line())

    def _forget(self, name: str, mine: Waiting) -> None:
        line = self._lines.get(name)
        if line is not None and mine in line.waiting:
            line.waiting.remove(mine)
        self._tidy()

    def _tidy(self) -> None:
        for name in [name for name, one in self._lines.items() if not one.waiting and one.serving is None]:
            del self._lines[name]

    def _serve(self, line: Line) -> None:
        """Let this line look, once more if it is looking: what rang may have come after its look."""
        line.is_rung = True
        if line.serving is None and line.waiting:
            line.serving = asyncio.create_task(self._look(line))

    async def _look(self, line: Line) -> None:
        try:
            while line.is_rung and line.waiting:
                line.is_rung = False
                await self._look_through(line)
        finally:
            line.serving = None
            self._tidy()

    async def _look_through(self, line: Line) -> None:
        """One after the other, as long as there is something; who looked in vain stands last then.

        He may be full, or drain: the next look begins with somebody else.
        """
        in_vain: list[Waiting] = []
        try:
            while line.waiting and len(in_vain) < IN_VAIN_MAX:
                one = line.waiting.popleft()
                if not one.answer.done() and not await self._answer(one):
                    in_vain.append(one)
        finally:
            line.waiting.extend(in_vain)

    async def _answer(self, one: Waiting) -> bool:
        """Look for him; whether he need wait no longer."""
        try:
            leases = await one.ask()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is his alone
            if not one.answer.done():
                one.answer.set_exception(error)
            return True
        # who went away without his leases asks again with the same request, and is answered the same
        if not one.answer.done() and (leases or one.is_leaving):
            one.answer.set_result(leases)
        return bool(leases) or one.is_leaving
