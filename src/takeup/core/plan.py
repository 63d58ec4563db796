"""The pure step from a pipeline and a request to the rows of a job, and from a result to its segments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from takeup.core.errors import InvalidInput, InvalidResult
from takeup.core.ids import canonical_json, digest
from takeup.core.model import Control
from takeup.core.pipeline import Pipeline, Stage, splitter_of
from takeup.core.policy import PRIORITY_DEFAULT, check_priority

SEGMENTS_MAX = 100_000
TEXT_CHARS_MAX = 512
LAYOUTS_KNOWN_MAX = 64
YEARS = (1971, 9000)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A request for one run of a pipeline."""

    pipeline: Pipeline
    spec: Mapping[str, Any] = field(default_factory=dict)
    subject: str | None = None
    user_id: str = ""
    idempotency_key: str | None = None
    priority: int = PRIORITY_DEFAULT
    control: Control = "READY"
    not_before: datetime | None = None
    exact: bool = False
    """Whether a repeat under the same key must be alike in everything, not only in pipeline and spec."""


@dataclass(frozen=True, slots=True)
class LanePlan:
    """A kind of work: tasks of one lane can be done by the same workers."""

    pipeline: str
    stage: str
    requires: tuple[str, ...] = ()
    prefers: str | None = None

    @property
    def name(self) -> str:
        """The one text of this lane, its key in the store."""
        needs = ",".join(self.requires)
        return f"{self.pipeline}/{self.stage}?{needs}!{self.prefers or ''}"

    def fits(self, capabilities: frozenset[str], stages: Sequence[str]) -> bool:
        """Whether a worker with these capabilities and stages may do the work of this lane."""
        names = {"*", f"{self.pipeline}/*", f"{self.pipeline}/{self.stage}"}
        return not names.isdisjoint(stages) and capabilities.issuperset(self.requires)

    def suits(self, capabilities: frozenset[str]) -> bool:
        """Whether such a worker is one that this lane prefers."""
        return self.prefers is None or self.prefers in capabilities


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One stage of one job; a stage that runs for each segment has no tasks until it is expanded."""

    stage: str
    position: int
    lane: LanePlan
    phase: str
    lease_s: float
    stall_s: float | None
    max_attempts: int
    retry: str
    version: int
    splitter: str | None
    """The stage whose result lists the segments, for a stage that runs for each of them."""


@dataclass(frozen=True, slots=True)
class NeedPlan:
    """One prerequisite; `per_segment` waits for the same segment only, else for the whole stage."""

    stage: str
    needs: str
    per_segment: bool


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A task row to be."""

    stage: str
    segment: int | None
    status: str
    parameters: str = "{}"


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Everything that submitting one job writes."""

    pipeline: str
    subject: str | None
    user_id: str
    idempotency_key: str | None
    priority: int
    control: Control
    not_before: datetime | None
    spec: str
    spec_hash: str
    request_hash: str | None
    """Of everything else that was asked for; None if a repeat may differ in it."""
    stages: tuple[StagePlan, ...]
    needs: tuple[NeedPlan, ...]
    tasks: tuple[TaskPlan, ...]

    def repeats(self, spec_hash: str, request_hash: str | None) -> bool:
        """Whether it asks for the same as a job with these hashes did."""
        is_free = None in (self.request_hash, request_hash)
        return self.spec_hash == spec_hash and (is_free or self.request_hash == request_hash)


def plan_job(new: NewJob) -> JobPlan:
    """Check a request and lay out its rows; raises before anything is written."""
    pipeline = new.pipeline
    if not pipeline.stages:
        raise InvalidInput(f"pipeline {pipeline.name} has no stages")
    if new.control not in ("READY", "PAUSED"):
        raise InvalidInput(f"a job starts with control READY or PAUSED, not {new.control!r}")
    if new.idempotency_key == "":
        raise InvalidInput("an idempotency key must not be empty; leave it out for none")
    if not isinstance(new.spec, Mapping):
        raise InvalidInput(f"the spec must be a JSON object, not {type(new.spec).__name__}")
    if new.not_before is not None:
        check_moment("not_before", new.not_before)
    spec = canonical_json(dict(new.spec))
    stages, needs = _laid_out(pipeline.name, tuple(pipeline.stages.values()))
    subject = _text("subject", new.subject if new.subject is not None else _subject(pipeline, new.spec))
    return JobPlan(
        pipeline=pipeline.name,
        subject=subject,
        user_id=_text("user_id", new.user_id) or "",
        idempotency_key=_text("idempotency_key", new.idempotency_key),
        priority=check_priority(new.priority),
        control=new.control,
        not_before=new.not_before,
        spec=spec,
        spec_hash=digest(canonical_json([pipeline.name, pipeline.version, dict(new.spec)])),
        request_hash=_request_hash(new, subject) if new.exact else None,
        stages=stages,
        needs=needs,
        tasks=tuple(
            TaskPlan(stage.name, None, "NEW" if stage.needs or new.not_before else "READY")
            for stage in pipeline.stages.values()
            if not stage.each
        ),
    )


def plan_segments(stage: str, result: Mapping[str, Any]) -> tuple[TaskPlan, ...]:
    """The tasks of a segment stage, one for each segment that its splitter's result lists."""
    return tuple(
        TaskPlan(stage, number, "NEW", canonical_json(segment, what="segment"))
        for number, segment in enumerate(segments_of(result))
    )


def segments_of(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The segments in a splitter's result: a list of objects, or a number of alike ones."""
    segments = result.get("segments")
    if isinstance(segments, int) and not isinstance(segments, bool):
        if not 0 <= segments <= SEGMENTS_MAX:
            raise InvalidResult(f"segments: {segments} is not within 0 to {SEGMENTS_MAX}")
        return [{} for _ in range(segments)]
    if not isinstance(segments, list) or not all(isinstance(segment, Mapping) for segment in segments):
        raise InvalidResult("the result must hold 'segments': a list of JSON objects, or their number")
    if len(segments) > SEGMENTS_MAX:
        raise InvalidResult(f"the result lists {len(segments)} segments; at most {SEGMENTS_MAX} are allowed")
    return segments


def lists_segments(result: Mapping[str, Any]) -> bool:
    """Whether a result can be split by."""
    if "segments" not in result:
        return False
    try:
        segments_of(result)
    except InvalidResult:
        return False
    return True


def check_moment(name: str, moment: Any) -> None:
    """Refuse a time that is not a moment with a zone."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise InvalidInput(f"{name} must be a time with a zone, not {moment!r}")
    if not YEARS[0] <= moment.year <= YEARS[1]:  # every database, in every zone, can hold these
        raise InvalidInput(f"{name} must be within the years {YEARS[0]} to {YEARS[1]}, not {moment!r}")


@lru_cache(maxsize=LAYOUTS_KNOWN_MAX)
def _laid_out(pipeline: str, stages: tuple[Stage, ...]) -> tuple[tuple[StagePlan, ...], tuple[NeedPlan, ...]]:
    """What is the same for every job of a pipeline."""
    by_name = {stage.name: stage for stage in stages}
    plans = tuple(_stage_plan(pipeline, stage, position, by_name) for position, stage in enumerate(stages))
    needs = tuple(
        NeedPlan(stage.name, need, per_segment=bool(stage.each and by_name[need].each))
        for stage in stages
        for need in stage.needs
    )
    return plans, needs


def _stage_plan(pipeline: str, stage: Stage, position: int, stages: Mapping[str, Stage]) -> StagePlan:
    return StagePlan(
        stage=stage.name,
        position=position,
        lane=LanePlan(pipeline, stage.name, tuple(sorted(stage.requires)), stage.prefers),
        phase=stage.phase,
        lease_s=stage.lease_s,
        stall_s=stage.stall_s,
        max_attempts=1 if stage.retry.kind == "none" else stage.retry.max_attempts,
        retry=canonical_json(stage.retry.as_json()),
        version=stage.version,
        splitter=splitter_of(stage, stages) if stage.each else None,
    )


def _subject(pipeline: Pipeline, spec: Mapping[str, Any]) -> str | None:
    if not pipeline.key:
        return None
    missing = [name for name in pipeline.key if name not in spec]
    if missing:
        raise InvalidInput(f"pipeline {pipeline.name} needs {', '.join(missing)} in the spec")
    return f"{pipeline.name}:{canonical_json([spec[name] for name in pipeline.key], what='key')}"


def _request_hash(new: NewJob, subject: str | None) -> str:
    moment = new.not_before.astimezone(UTC).isoformat() if new.not_before else None
    return digest(canonical_json([subject, new.priority, new.control, moment]))


def _text(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX or not value.isprintable():
        raise InvalidInput(f"{name} must be printable text of at most {TEXT_CHARS_MAX} characters")
    return value
