"""Where in each lane the last claim of this process ended.

PostgreSQL keeps what was claimed in its index until the next vacuum. A claim that starts at a bookmark does
not step over all of it. What became ready before the bookmark meanwhile is found by the next look at
everything: after `FRESH_S` at the latest, and at once when nothing is left behind the bookmarks.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from takeup.store.op import Row

FRESH_S = 0.25


class Bookmark(NamedTuple):
    """A place in the order of a lane."""

    rank: int
    available_at: datetime
    task_id: int


class Bookmarks:
    """The bookmarks of one process; they only save time, so they need not be right."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was claimed yet."""
        self._clock = clock
        self._lanes: dict[int, Bookmark] = {}
        self._fresh_until = 0.0

    def fresh(self) -> dict[int, Bookmark]:
        """The bookmarks, if everything was looked at a moment ago."""
        return self._lanes if self._clock() < self._fresh_until else {}

    def note(self, rows: Sequence[Row], wanted: int, *, is_look_at_all: bool) -> None:
        """These tasks were claimed."""
        if is_look_at_all:
            self._fresh_until = self._clock() + FRESH_S
        elif len(rows) < wanted:
            self._fresh_until = 0.0
        ends: dict[int, Bookmark] = {}
        for row in rows:
            place = Bookmark(-row["priority"], row["available_at"], row["id"])
            end = ends.setdefault(row["lane_id"], place)
            if place > end:
                ends[row["lane_id"]] = place
        self._lanes |= ends
