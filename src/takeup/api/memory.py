"""What the edge keeps in mind for a moment, in tables of bounded size."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar

KEPT_MAX = 10_000
"""So many names a table has; whatever was not touched for longest makes room."""

T = TypeVar("T")


class Tries:
    """Counts tries by who made them, in a window that moves on."""

    def __init__(self, clock: Callable[[], float], *, most: int, within_s: float) -> None:
        self._clock = clock
        self._most = most
        self._within_s = within_s
        self._at: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, who: str) -> None:
        """One more by him."""
        times = self._at.setdefault(who, deque(maxlen=self._most))
        times.append(self._clock())
        _touch(self._at, who)

    def are_too_many(self, who: str) -> bool:
        """Whether he has to wait for now."""
        times = self._at.get(who)
        return times is not None and len(times) == self._most and self._clock() - times[0] < self._within_s


class Lately(Generic[T]):
    """What was found a moment ago."""

    def __init__(self, clock: Callable[[], float], *, for_s: float) -> None:
        self._clock = clock
        self._for_s = for_s
        self._kept: OrderedDict[str, tuple[float, T]] = OrderedDict()

    def get(self, name: str) -> T | None:
        """What was found under this name, if that was a moment ago."""
        at, found = self._kept.get(name, (0.0, None))
        return found if found is not None and self._clock() - at < self._for_s else None

    def keep(self, name: str, found: T) -> None:
        """It was found now."""
        self._kept[name] = self._clock(), found
        _touch(self._kept, name)

    def forget(self, name: str) -> None:
        """Look again next time."""
        self._kept.pop(name, None)


class Rarely:
    """Says when it is time again, of each name apart."""

    def __init__(self, clock: Callable[[], float], *, every_s: float) -> None:
        self._clock = clock
        self._every_s = every_s
        self._at: OrderedDict[str, float] = OrderedDict()

    def is_time(self, name: str) -> bool:
        """Whether it is; then it is not for a while."""
        now = self._clock()
        if name in self._at and now - self._at[name] < self._every_s:
            return False
        self._at[name] = now
        _touch(self._at, name)
        return True


def _touch(table: OrderedDict[str, T], name: str) -> None:
    table.move_to_end(name)
    if len(table) > KEPT_MAX:
        table.popitem(last=False)
