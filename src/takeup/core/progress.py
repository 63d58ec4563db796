"""How far a job is and how long it may still take: from the counts of its stages to percent and a range."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

SEGMENT_WEIGHT = 5.0
"""A stage that runs for each segment counts as much as so many others: it is where the time goes."""
TASKS_ENOUGH = 2
"""So many finished tasks are evidence of how long one takes."""
PERCENT_ENOUGH = 10.0
"""So many percent of running tasks are evidence, too."""
KNOWN_SHARE_MIN = 0.5
"""The share of the remaining tasks whose length must be known."""
SPREAD_MIN = 0.25
"""No estimate is given as better than this."""


@dataclass(frozen=True, slots=True)
class StageProgress:
    """The counts of one stage; `seconds` and `squares` are of finished tasks, `elapsed_s` of running ones."""

    stage: str
    position: int
    splitter: str | None = None
    is_expanded: bool = True
    counts: Mapping[str, int] = field(default_factory=dict)
    percent_sum: float = 0.0
    elapsed_s: float = 0.0
    seconds: float = 0.0
    squares: float = 0.0
    note: str | None = None

    @property
    def total(self) -> int:
        """How many tasks it has."""
        return sum(self.counts.values())

    @property
    def done(self) -> int:
        """How many are DONE or SKIPPED."""
        return self.counts.get("DONE", 0) + self.counts.get("SKIPPED", 0)

    @property
    def running(self) -> int:
        """How many run now."""
        return self.counts.get("RUNNING", 0)

    @property
    def broken(self) -> int:
        """How many failed for good."""
        return self.counts.get("FAILED", 0)

    @property
    def fraction(self) -> float:
        """From 0 to 1, the progress of running tasks included."""
        if not self.is_expanded:
            return 0.0
        return min((self.done + self.percent_sum / 100) / self.total, 1.0) if self.total else 1.0

    @property
    def left(self) -> float:
        """How many tasks' worth of work is left; of an unsplit stage one is known of."""
        return max(self.total - self.done - self.percent_sum / 100, 0.0) if self.is_expanded else 1.0

    def task_s(self) -> tuple[float, float] | None:
        """How long a task of this stage takes and how much that varies, if there is evidence."""
        finished = self.counts.get("DONE", 0)
        if finished >= TASKS_ENOUGH:
            mean = self.seconds / finished
            return mean, math.sqrt(max(self.squares / finished - mean * mean, 0.0))
        if self.percent_sum >= PERCENT_ENOUGH:
            mean = self.elapsed_s / (self.percent_sum / 100)
            return mean, mean / 2
        return None


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The stages of a job in the order of its pipeline, at one moment of the database's clock."""

    stages: tuple[StageProgress, ...]
    now: datetime

    @property
    def percent(self) -> float:
        """How far the whole job is."""
        weights = [SEGMENT_WEIGHT if stage.splitter else 1.0 for stage in self.stages]
        done = sum(w * stage.fraction for w, stage in zip(weights, self.stages, strict=True))
        return 100 * done / sum(weights) if weights else 0.0


@dataclass(frozen=True, slots=True)
class Part:
    """Something that a job makes in many tasks, as people watch it: a rung, for example."""

    name: str
    percent: float
    counts: str = ""
    note: str = ""
    is_broken: bool = False


class Forecast:
    """Keeps what may not go backwards: the percent that is shown; and how many tasks run at once."""

    def __init__(self) -> None:
        """Nothing was shown yet."""
        self.percent = 0.0
        self._at_once = 1

    def see(self, progress: JobProgress) -> float:
        """The percent to show now."""
        self.percent = max(self.percent, progress.percent)
        self._at_once = max(self._at_once, sum(stage.running for stage in progress.stages))
        return self.percent

    def left_s(self, progress: JobProgress) -> tuple[float, float] | None:
        """From how many to how many more seconds it takes; None while there is too little evidence."""
        return left_s(progress.stages, self._at_once)


def left_s(stages: Sequence[StageProgress], at_once: int) -> tuple[float, float] | None:
    """A range for the time that is left, if the length of most of the remaining tasks is known."""
    left = [stage for stage in stages if stage.left > 0]
    known = [(stage, length) for stage in left if (length := stage.task_s())]
    if not known:
        return None
    if sum(stage.left for stage, _ in known) < KNOWN_SHARE_MIN * sum(stage.left for stage in left):
        return None
    low = high = 0.0
    for stage, (mean, deviation) in known:
        rounds = max(stage.left / min(at_once, max(stage.total, 1)), min(stage.left, 1.0))
        spread = max(deviation / math.sqrt(max(stage.left, 1.0)), SPREAD_MIN * mean)
        low += rounds * max(mean - spread, 0.0)
        high += rounds * (mean + spread)
    longest = max(mean for _, (mean, _) in known)
    unknown = [stage for stage in left if stage.task_s() is None]
    high += sum(longest * max(stage.left / at_once, 1.0) for stage in unknown)
    return low, high


def range_text(low_s: float, high_s: float) -> str:
    """A range as people read it: `20–40 s`, `2–4 min`, `1–2 h`."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if high_s >= 2 * size or size == 1.0:
            first, last = math.floor(low_s / size), max(math.ceil(high_s / size), 1)
            return f"{last} {unit}" if first == last else f"{first}–{last} {unit}"
    return ""
