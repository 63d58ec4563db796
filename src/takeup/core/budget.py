"""When a worker has spent its error budget: from what it failed and finished to a verdict."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

FAILURES_MAX = 2000
"""How many of the latest failures one look takes into account."""
LOG_ROWS_MAX = 20_000
"""How far back in the log it is counted what a worker under suspicion finished itself."""
Excuse = Literal["not_taken", "asked_again"]
"""Why a failure is not the worker's: nobody took what it made, or the stage asked to be tried again."""


class ErrorBudget(NamedTuple):
    """So many tasks within such a time that a worker failed and others finished are too many; 0: never."""

    tasks: int = 5
    window_s: float = 3600.0


class Stake(NamedTuple):
    """A lane that a worker serves: who is online for it, and whether tasks wait there."""

    lane_id: int
    online: int
    quarantined: int
    is_waiting: bool


@dataclass(slots=True)
class Suspect:
    """A worker with what it alone failed and others finished."""

    worker_id: str
    failed: int = 0
    first_seq: int = 0
    """The row of the log with the first of these failures."""
    lanes: set[int] = field(default_factory=set)

    def reason(self, finished: int, budget: ErrorBudget) -> str | None:
        """Why it is to be quarantined; None: it finishes as much as it fails."""
        if finished >= self.failed:
            return None
        return (
            f"it failed {self.failed} tasks within {budget.window_s:g} s that other workers finished, "
            f"and finished {finished} like them"
        )

    def may_go(self, stakes: Iterable[Stake]) -> bool:
        """Whether enough workers are left: never are more than half of those of a lane quarantined."""
        return all(
            2 * (stake.quarantined + 1) <= stake.online
            for stake in stakes
            if stake.is_waiting or stake.lane_id in self.lanes
        )


def suspects_of(rows: Iterable[Mapping[str, int | str]], budget: ErrorBudget) -> list[Suspect]:
    """Those whose failures reach the budget, the worst first; a row is a worker's count in one lane."""
    found: dict[str, Suspect] = {}
    for row in rows:
        worker_id, first = str(row["worker_id"]), int(row["first_seq"])
        one = found.setdefault(worker_id, Suspect(worker_id, first_seq=first))
        one.failed += int(row["task_count"])
        one.first_seq = min(one.first_seq, first)
        one.lanes.add(int(row["lane_id"]))
    spent = [one for one in found.values() if one.failed >= budget.tasks]
    return sorted(spent, key=lambda one: (-one.failed, one.worker_id))


class Judged(NamedTuple):
    """Which workers one look quarantined, and which it spared because too few would be left."""

    quarantined: tuple[str, ...] = ()
    spared: tuple[str, ...] = ()
