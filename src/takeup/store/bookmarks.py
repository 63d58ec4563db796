"""Where in each lane the last claim of a worker ended.

PostgreSQL keeps what was claimed in its index until the next vacuum. A claim that starts at a bookmark does
not step over all of it. What became ready before the bookmark meanwhile is found by the next look at
everything: after `FRESH_S` at the latest, and at once when nothing is left after the bookmarks.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from takeup.store.op import Row

FRESH_S = 0.25
SHELF_MAX = 1000


class Bookmark(NamedTuple):
    """A place in the order in which tasks are claimed, which is the same for all lanes."""

    rank: int
    available_at: datetime
    task_id: int


class Bookmarks:
    """The bookmarks of one worker; they only save time, so they need not be right."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was claimed yet."""
        self._clock = clock
        self._lanes: dict[int, Bookmark] = {}
        self._looked_at = self._fresh_until = clock()

    def fresh(self) -> dict[int, Bookmark]:
        """Where a claim that is made now may begin: nowhere, unless everything was looked at a moment ago."""
        self._looked_at = self._clock()
        return dict(self._lanes) if self._looked_at < self._fresh_until else {}

    def note(self, rows: Sequence[Row], wanted: int, *, is_look_at_all: bool) -> None:
        """That claim took these tasks."""
        ends: dict[int, Bookmark] = {}
        for row in rows:
            place = Bookmark(-row["priority"], row["available_at"], row["id"])
            ends[row["lane_id"]] = max(place, ends.get(row["lane_id"], place))
        if is_look_at_all:
            self._fresh_until = self._looked_at + FRESH_S
            if ends:  # whatever is left of any lane comes after the last of them
                last = max(ends.values())
                self._lanes = {lane_id: min(mark, last) for lane_id, mark in self._lanes.items()}
        elif len(rows) < wanted:
            self._fresh_until = self._looked_at
        self._lanes |= ends


class Shelf:
    """The bookmarks of every worker that claims through this process: each sees lanes of its own."""

    def __init__(self) -> None:
        """No worker is known yet."""
        self._workers: dict[str, Bookmarks] = {}

    def of(self, worker_id: str) -> Bookmarks:
        """Those of this worker."""
        if len(self._workers) >= SHELF_MAX and worker_id not in self._workers:
            self._workers.clear()
        return self._workers.setdefault(worker_id, Bookmarks())
