"""What a loop has under way beside its rounds: each in a task of its own, no more than so many at once."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from takeup.dispatch.bell import Bell


class Flights:
    """Tasks of one loop; whatever lands rings, so that the loop looks whether there is more."""

    def __init__(self, count_max: int) -> None:
        """At most so many are under way at once; the loop asks for `room` before it begins one."""
        self._bell = Bell()
        self.ear = self._bell.listen("landed")
        self._count_max = count_max
        self._tasks: dict[asyncio.Task[None], str] = {}

    @property
    def room(self) -> int:
        """How many more may be begun."""
        return self._count_max - len(self._tasks)

    @property
    def owners(self) -> Counter[str]:
        """For whom how many are under way."""
        return Counter(self._tasks.values())

    def begin(self, work: Coroutine[Any, Any, None], owner: str = "") -> None:
        """Let it go on by itself; it tells of its own failures."""
        task = asyncio.create_task(work)
        self._tasks[task] = owner
        task.add_done_callback(self._land)

    async def land(self, timeout_s: float) -> None:
        """Let what is under way end."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout_s)

    async def call_back(self) -> None:
        """End what is under way, now."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _land(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._bell.ring_here("landed")
