"""Which bytes of a file are known: a union of spans, each from its first byte to the one after its last."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Span = tuple[int, int]


class Spans:
    """Spans in order that neither overlap nor touch."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        """The union of these."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in spans:
            self.add(start, end)

    def __iter__(self) -> Iterator[Span]:
        """Each span, in order."""
        return iter(list(zip(self._starts, self._ends, strict=True)))

    @property
    def total(self) -> int:
        """How many bytes are known."""
        return sum(self._ends) - sum(self._starts)

    def add(self, start: int, end: int) -> None:
        """These bytes are known too."""
        if start >= end:
            return
        first, after = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < after:
            start, end = min(start, self._starts[first]), max(end, self._ends[after - 1])
        self._starts[first:after], self._ends[first:after] = [start], [end]

    def missing(self, start: int, end: int) -> list[Span]:
        """What is not known of this span."""
        gaps = []
        for place in range(bisect_right(self._ends, start), len(self._starts)):
            if start >= end or self._starts[place] >= end:
                break
            if start < self._starts[place]:
                gaps.append((start, self._starts[place]))
            start = self._ends[place]
        return [*gaps, (start, end)] if start < end else gaps

    def around(self, start: int, end: int) -> list[Span]:
        """The whole spans that this one meets."""
        first, after = bisect_right(self._ends, start), bisect_left(self._starts, end)
        return list(zip(self._starts[first:after], self._ends[first:after], strict=True))
