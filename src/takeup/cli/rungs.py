"""The rungs of a transcode while it runs: how far each is, and how fast the frames come."""

import time
from collections import deque
from fractions import Fraction

from takeup.core.progress import JobProgress, Part
from takeup.store.store import ReadStore

WINDOW_S = 10.0
"""The speed is that of the last so many seconds."""


class Rungs:
    """Asks the database for the rungs of one job, and remembers enough to tell the speed."""

    def __init__(self, read: ReadStore, job_id: str) -> None:
        """Nothing was seen yet."""
        self._read = read
        self._job_id = job_id
        self._plan: tuple[int, Fraction] | None = None
        self._seen: deque[tuple[float, float]] = deque()

    async def parts(self, progress: JobProgress) -> list[Part]:
        """A part for each rung; none before there is a plan."""
        if self._plan is None and not await self._find_plan(progress):
            return []
        found = await self._read.qualities(self._job_id)
        speed = self._speed(sum(one.percent for one in found) / len(found)) if found else ""
        return [
            Part(
                one.rung,
                one.percent,
                f"{one.done}/{one.segments}",
                one.error or (speed if one.status == "in_progress" else ""),
                is_broken=one.status == "failed",
            )
            for one in found
        ]

    async def _find_plan(self, progress: JobProgress) -> bool:
        if not any(stage.stage == "plan" and stage.done for stage in progress.stages):
            return False
        for task in await self._read.tasks_in(self._job_id, "DONE"):
            if task.stage == "plan" and task.result and task.result.get("rate"):
                self._plan = int(task.result["frames"]), Fraction(task.result["rate"])
        return self._plan is not None

    def _speed(self, percent: float) -> str:
        """Frames a second over the last while, and how that compares with playing it."""
        if self._plan is None:
            return ""
        frames, rate = self._plan
        now = time.monotonic()
        self._seen.append((now, frames * percent / 100))
        while now - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        (then, before), (_, after) = self._seen[0], self._seen[-1]
        if now <= then or after <= before:
            return ""
        fps = (after - before) / (now - then)
        return f"{fps:.0f} fps, {fps / float(rate):.2f}× real time"
