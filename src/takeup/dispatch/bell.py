"""Bells: who changed something rings, who waits looks at the database at once instead of at its next poll.

A ring may name what changed, as a speed-up of the speed-up. Rings within one process are immediate. How they
travel between processes is up to the bell: PostgreSQL's NOTIFY, sent by the application a few times a second
at most, or the kernel that watches the database file. Whoever hears nothing polls.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Sequence

NAMES_MAX = 100
"""More names than this in one ring, and it means: look at everything."""
EVERYTHING = "*"
NOTIFY_S_MIN, NOTIFY_S_MAX = 0.005, 0.1
HINT_S_MIN = 0.02
"""How often a commit may carry a hint at most: such commits of one database wait for each other."""
RECONNECT_S = 1.0


class Ear:
    """One listener; a ring that comes while it is busy is kept until it listens again."""

    def __init__(self) -> None:
        """Nothing was heard yet."""
        self._is_rung = False
        self._wake: Callable[[], None] | None = None
        self._names: set[str] = set()

    def hear(self, names: Sequence[str]) -> None:
        """Somebody rang."""
        self._names.update(names)
        if len(self._names) > NAMES_MAX:
            self._names = {EVERYTHING}
        self._is_rung = True
        if self._wake is not None:
            self._wake()

    def wake(self, listener: Callable[[], None] | None) -> None:
        """Call this at the next ring, or now if there was one; None: nobody listens any more."""
        self._wake = listener
        if listener is not None and self._is_rung:
            listener()

    def take(self) -> set[str]:
        """What the rings since the last time named."""
        names, self._names = self._names, set()
        self._is_rung = False
        return names


class Bell:
    """Rings between the parts of one process."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._ears: dict[str, list[Ear]] = {}

    def listen(self, topic: str) -> Ear:
        """A new ear for this topic."""
        ear = Ear()
        self._ears.setdefault(topic, []).append(ear)
        return ear

    def ring(self, topic: str, names: Sequence[str] = ()) -> None:
        """Tell everybody who listens to this topic."""
        self.ring_here(topic, names)

    def ring_here(self, topic: str, names: Sequence[str] = ()) -> None:
        """Tell who listens in this process; the others know already."""
        for ear in self._ears.get(topic, ()):
            ear.hear(names)

    def hint(self, topic: str) -> str:  # noqa: ARG002 - some bells have one
        """A ring for all other processes that the commit it tells of can carry; empty if it cannot."""
        return ""

    def ring_all(self) -> None:
        """Something changed, nobody knows what."""
        for ears in self._ears.values():
            for ear in ears:
                ear.hear([EVERYTHING])

    async def close(self) -> None:
        """Stop whatever carries the rings."""


class NotifyBell(Bell):
    """Rings that also travel by PostgreSQL's NOTIFY, a few times a second at most."""

    def __init__(
        self,
        notify: Callable[[str, str], Awaitable[None]],
        listen: Callable[[Callable[[str, str], None]], Awaitable[None]],
    ) -> None:
        """`listen` calls back with topic and names until the connection breaks."""
        super().__init__()
        self._notify = notify
        self._listen = listen
        self._id = secrets.token_hex(4)
        self._waiting: dict[str, set[str]] = {}
        self._wake = asyncio.Event()
        self._is_resting = False
        self._hint_at = 0.0
        self._tasks = [asyncio.create_task(self._carry()), asyncio.create_task(self._hear())]

    def ring(self, topic: str, names: Sequence[str] = ()) -> None:
        """Tell this process now and the others in a moment."""
        self.ring_here(topic, names)
        waiting = self._waiting.setdefault(topic, set())
        waiting.update(names)
        self._wake.set()

    def hint(self, topic: str) -> str:
        """One that travels with a commit, if that is not too soon after the last one."""
        now = asyncio.get_running_loop().time()
        if self._is_resting or now < self._hint_at:
            return ""
        self._hint_at = now + HINT_S_MIN
        return f"{topic} {self._id}"

    async def close(self) -> None:
        """Stop sending and listening."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def flush(self) -> None:
        """Send what waits, for a process that ends right after."""
        waiting, self._waiting = self._waiting, {}
        for topic, names in waiting.items():
            text = ",".join([self._id, *names] if len(names) <= NAMES_MAX else [self._id, EVERYTHING])
            with contextlib.suppress(Exception):  # a lost hint costs only time
                await self._notify(topic, text)

    async def _carry(self) -> None:
        """Send at once after a silence; the more is rung, the longer it is gathered."""
        pause_s = NOTIFY_S_MIN
        while True:
            await self._wake.wait()
            self._wake.clear()
            self._is_resting = True
            await self.flush()
            await asyncio.sleep(pause_s)
            self._is_resting = False
            pause_s = min(2 * pause_s, NOTIFY_S_MAX) if self._wake.is_set() else NOTIFY_S_MIN

    async def _hear(self) -> None:
        while True:
            with contextlib.suppress(Exception):  # the poll goes on meanwhile
                await self._listen(self._heard)
            await asyncio.sleep(RECONNECT_S)
            self.ring_all()

    def _heard(self, topic: str, text: str) -> None:
        sender, *names = text.split(",")
        if sender != self._id:  # its own ears heard it before it was sent
            self.ring_here(topic, names)
