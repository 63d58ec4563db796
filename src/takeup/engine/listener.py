"""One who follows live: what waits for him, bounded, and how far in the log he is."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from takeup.core.channels import Channel
from takeup.core.position import Position
from takeup.engine.telling import Told

WAITING_MAX = 2000
"""Events of the log; whoever lets more wait is too slow, and comes back where he was."""
LATEST_MAX = 20_000
"""Things of which the latest state waits."""

End = Literal["slow", "shutdown", "refused"]


class Item(NamedTuple):
    """An event on its way to one listener; with a position, he can go on from there."""

    told: Told
    position: Position | None


class Listener:
    """Takes events without ever making anybody wait; what is too much ends it."""

    def __init__(
        self, channels: Sequence[Channel], position: Position, *, waiting_max: int = WAITING_MAX
    ) -> None:
        """Listen to these channels from this position on."""
        self.channels = channels
        self.ended: End | None = None
        self._waiting_max = waiting_max
        self._waiting: deque[Item] = deque()
        self._latest: dict[tuple[str, str], Told] = {}
        self._low, self._told = position.low, set(position.told)
        self._news = asyncio.Event()
        self._over = asyncio.Event()

    @property
    def position(self) -> Position:
        """How far he is, with all that waits for him."""
        return Position.of(self._low, self._told)

    def has(self, seq: int) -> bool:
        """Whether this row of the log was told."""
        return seq <= self._low or seq in self._told

    def tell(self, told: Told) -> None:
        """How something stands: what waits of the same is replaced."""
        place = (told.channel, told.key)
        if place not in self._latest and len(self._latest) >= LATEST_MAX:
            self.end("slow")
            return
        self._latest[place] = told
        self._news.set()

    def tell_row(self, seq: int, events: Sequence[Told]) -> None:
        """What one row of the log says to him, which he hears once; he is past it after the last of them."""
        if not events or self.has(seq):
            return
        before = self.position
        self._told.add(seq)
        for told in events:
            self._latest.pop((told.channel, told.key), None)  # it is older than this
            self._put(Item(told, self.position if told is events[-1] else before))
        self._news.set()

    def mark(self, seqs: Iterable[int]) -> None:
        """These need not be told."""
        self._told.update(seqs)

    def restart(self, told: Told) -> None:
        """Something that must be heard, from where he now is."""
        self._put(Item(told, self.position))
        self._news.set()

    def settle(self, low: int) -> None:
        """Nothing up to here can come any more."""
        if low > self._low:
            self._low = low
            self._told = {seq for seq in self._told if seq > low}

    def take(self) -> list[Item]:
        """All that waits: first the events, then how things stand."""
        items = [*self._waiting, *(Item(told, None) for told in self._latest.values())]
        self._waiting.clear()
        self._latest.clear()
        self._news.clear()
        return items

    async def wait(self, seconds: float) -> None:
        """Until something waits, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    def end(self, why: End) -> None:
        """Tell him nothing more; the first reason counts."""
        if self.ended is None:
            self.ended = why
            self._over.set()

    async def over(self) -> None:
        """Until it is ended."""
        await self._over.wait()

    def _put(self, item: Item) -> None:
        if len(self._waiting) >= self._waiting_max:
            self.end("slow")
        else:
            self._waiting.append(item)
