"""How far each rung of a job is: counted from its tasks, so that it can never say anything else than they do.

A splitter's result may name the rungs that its segment stages make, in the batches in which each segment
makes them: `{"segments": 4, "rungs": {"encode": [["720p", "360p"], ["720p-av1"]]}}`. The result of a segment
says which it could not make: `{"failed": {"720p-av1": "why"}}`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["pending", "in_progress", "completed", "failed"]
PERCENT = 100.0


@dataclass(frozen=True, slots=True)
class Quality:
    """One rung of one job."""

    rung: str
    stage: str
    status: Status
    segments: int
    """How many there are; 0 while that is not known."""
    done: int
    percent: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Segments:
    """The tasks of one segment stage: how many, and what is known of those that run or left gaps."""

    count: int
    done: int
    broken: int
    running: Sequence[float]
    """The percents of those that run."""
    failed: Sequence[Mapping[str, Any]] = ()
    """What finished ones could not make, with the reasons."""


def qualities(rungs: Any, stages: Mapping[str, Segments]) -> list[Quality]:
    """A row for each rung that the splitter named; what makes no sense names none."""
    if not isinstance(rungs, Mapping):
        return []
    found: list[Quality] = []
    for stage, segments in stages.items():
        batches = [list(_names(batch)) for batch in _listed(rungs.get(stage))]
        for number, batch in enumerate(batches):
            found += [_quality(rung, stage, segments, number, len(batches)) for rung in batch]
    return found


def _quality(rung: str, stage: str, segments: Segments, batch: int, batches: int) -> Quality:
    reasons = [str(failed[rung]) for failed in segments.failed if rung in failed]
    done = segments.done - len(reasons)
    partly = sum(min(max(percent * batches - PERCENT * batch, 0.0), PERCENT) for percent in segments.running)
    percent = (PERCENT * done + partly) / segments.count if segments.count else PERCENT
    status: Status = "in_progress" if done or partly else "pending"
    if reasons or segments.broken:
        status = "failed"
    elif done == segments.count:
        status = "completed"
    return Quality(
        rung, stage, status, segments.count, done, min(percent, PERCENT), reasons[0] if reasons else None
    )


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _names(batch: Any) -> Iterator[str]:
    return (name for name in _listed(batch) if isinstance(name, str))
