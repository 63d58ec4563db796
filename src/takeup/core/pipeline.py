"""A pipeline as a user declares it: stages, what each needs, and the graph they form."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from takeup.core.errors import InvalidPipeline, UnknownStage
from takeup.core.ids import canonical_json
from takeup.core.machine import PHASES
from takeup.core.policy import (
    DELAY_S_MAX,
    PRIORITY_DEFAULT,
    RetryPolicy,
    check_lease_s,
    check_priority,
    parse_duration,
)
from takeup.core.schedule import SCHEDULES_MAX, Schedule, check_cron, check_zone

NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}\Z")
STAGES_MAX = 256

StageFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Stage:
    """One deterministic step: what it needs, what it requires of a worker, how it is retried."""

    name: str
    needs: tuple[str, ...] = ()
    each: Literal["segment"] | None = None
    requires: frozenset[str] = frozenset()
    prefers: str | None = None
    phase: str = "processing"
    lease_s: float = 300.0
    stall_s: float | None = None
    timeout_s: float | None = None
    """How long one attempt may take in all; None: as long as it makes progress."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    version: int = 1
    temporary: bool = False
    """Its outputs are only for the stages that need it: they are removed once the job is over."""
    function: StageFunction | None = field(default=None, compare=False, repr=False)


class Pipeline:
    """A named graph of stages; declaring a stage checks it at once, so a bad graph never reaches a store."""

    def __init__(
        self,
        name: str,
        *,
        key: Sequence[str] = (),
        files: Sequence[str] = (),
        lease: str | float = "5m",
        version: int = 1,
    ) -> None:
        """Start an empty pipeline.

        `key` names the spec fields that make up a job's subject, `files` those that are paths of files on the
        server, which a worker that is elsewhere may fetch: `ctx.file(NAME)` is such a file, wherever it runs.
        """
        if not NAME.match(name):
            raise InvalidPipeline(f"pipeline name {name!r} must match {NAME.pattern}")
        self.name = name
        self.key = tuple(key)
        self.files = tuple(files)
        self.version = version
        self.lease_s = check_lease_s(parse_duration(lease))
        self.stages: dict[str, Stage] = {}
        self.schedules: dict[str, Schedule] = {}

    def __repr__(self) -> str:
        """Name and stages, for messages."""
        return f"Pipeline({self.name!r}: {', '.join(self.stages) or 'no stages'})"

    def stage(
        self,
        *,
        name: str | None = None,
        needs: Iterable[str | StageFunction] = (),
        retries: int | RetryPolicy | None = None,
        lease: str | float | None = None,
        stall: str | float | None = None,
        timeout: str | float | None = None,
        **options: Any,
    ) -> Callable[[StageFunction], StageFunction]:
        """Declare the decorated function as a stage; `retries=3` means three attempts in all."""

        def declare(function: StageFunction) -> StageFunction:
            retry = (
                RetryPolicy(max_attempts=retries) if isinstance(retries, int) else (retries or RetryPolicy())
            )
            self.add(
                Stage(
                    name=name or _own_name(function),
                    needs=tuple(
                        n if isinstance(n, str) else self._name_of(n) for n in _listed("needs", needs)
                    ),
                    lease_s=self.lease_s if lease is None else parse_duration(lease),
                    stall_s=None if stall is None else parse_duration(stall),
                    timeout_s=None if timeout is None else parse_duration(timeout),
                    retry=retry,
                    function=function,
                    **{**options, "requires": frozenset(_listed("requires", options.get("requires", ())))},
                )
            )
            return function

        return declare

    def add(self, stage: Stage) -> None:
        """Add a stage whose prerequisites are declared already."""
        check_stage(stage)
        if stage.name in self.stages:
            raise InvalidPipeline(f"pipeline {self.name} has two stages named {stage.name}")
        if len(self.stages) >= STAGES_MAX:
            raise InvalidPipeline(f"pipeline {self.name} has more than {STAGES_MAX} stages")
        for need in stage.needs:
            if need not in self.stages and need != stage.name:
                known = ", ".join(self.stages) or "none yet"
                raise InvalidPipeline(
                    f"stage {stage.name} needs {need!r}, which is not declared (there are: {known})"
                )
        check_graph([*self.stages.values(), stage])
        self.stages[stage.name] = stage

    def every(
        self,
        cron: str,
        *,
        spec: Mapping[str, Any] | None = None,
        name: str = "default",
        zone: str = "UTC",
        priority: int = PRIORITY_DEFAULT,
    ) -> Schedule:
        """Declare that a job with this spec is created at each slot of the cron text."""
        if not NAME.match(name):
            raise InvalidPipeline(f"schedule name {name!r} must match {NAME.pattern}")
        if name in self.schedules:
            raise InvalidPipeline(f"pipeline {self.name} has two schedules named {name}; give each a name")
        if len(self.schedules) >= SCHEDULES_MAX:
            raise InvalidPipeline(f"pipeline {self.name} has more than {SCHEDULES_MAX} schedules")
        if not isinstance(spec or {}, Mapping):
            raise InvalidPipeline(f"the spec of schedule {name} must be a mapping, not {type(spec).__name__}")
        copied = json.loads(canonical_json(dict(spec or {})))
        schedule = Schedule(name, check_cron(cron), check_zone(zone), copied, check_priority(priority))
        self.schedules[name] = schedule
        return schedule

    def _name_of(self, function: StageFunction) -> str:
        """The stage that this function was declared as, whatever its own name is; that, if it is several."""
        names = [stage.name for stage in self.stages.values() if stage.function is function]
        return names[0] if len(names) == 1 else getattr(function, "__name__", repr(function))

    def get(self, name: str) -> Stage:
        """The stage with this name."""
        if name not in self.stages:
            known = ", ".join(self.stages) or "none"
            raise UnknownStage(f"pipeline {self.name} has no stage {name!r}; it has: {known}")
        return self.stages[name]

    @classmethod
    def of(cls, name: str, stages: Iterable[Stage], **options: Any) -> "Pipeline":
        """A pipeline from ready-made stages in any order."""
        pipeline = cls(name, **options)
        stages = list(stages)
        for stage in stages:
            check_stage(stage)
        for stage in sorted_stages(stages):
            pipeline.add(stage)
        return pipeline


def _own_name(function: StageFunction) -> str:
    found = getattr(function, "__name__", None)
    if not isinstance(found, str):
        raise InvalidPipeline(f"{function!r} has no name of its own; give the stage one with name=…")
    return found


def _listed(what: str, values: Any) -> Iterable[Any]:
    """A text has letters, and none of them is a stage or a capability."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        shown = repr(values) if isinstance(values, str) else getattr(values, "__name__", repr(values))
        raise InvalidPipeline(f"{what} must be a list, as in {what}=[{shown}]")
    return values


def check_stage(stage: Stage) -> None:
    """Refuse a stage that no worker could run."""
    if not NAME.match(stage.name):
        raise InvalidPipeline(f"stage name {stage.name!r} must match {NAME.pattern}")
    if stage.each not in (None, "segment"):
        raise InvalidPipeline(f"stage {stage.name}: each={stage.each!r} is not 'segment'")
    if stage.phase not in PHASES[1:]:
        raise InvalidPipeline(
            f"stage {stage.name}: phase {stage.phase!r} is not one of {', '.join(PHASES[1:])}"
        )
    for need in _listed("needs", stage.needs):
        if not isinstance(need, str):
            raise InvalidPipeline(f"stage {stage.name}: needs {need!r}, which is no name of a stage")
    _listed("requires", stage.requires)
    for capability in stage.requires | ({stage.prefers} if stage.prefers else frozenset()):
        if not NAME.match(capability):
            raise InvalidPipeline(f"stage {stage.name}: capability {capability!r} must match {NAME.pattern}")
    check_lease_s(stage.lease_s)
    for name, limit_s in (("stall", stage.stall_s), ("timeout", stage.timeout_s)):
        if limit_s is not None and not 0 < limit_s <= DELAY_S_MAX:
            raise InvalidPipeline(
                f"stage {stage.name}: {name} {limit_s} is not within 0 to {DELAY_S_MAX:.0f} s"
            )


def sorted_stages(stages: Sequence[Stage]) -> list[Stage]:
    """The stages with every prerequisite before its dependents, else the declared order."""
    by_name = {stage.name: stage for stage in stages}
    if len(by_name) < len(stages):
        twice = next(s.name for i, s in enumerate(stages) if s.name in {t.name for t in stages[:i]})
        raise InvalidPipeline(f"there are two stages named {twice}")
    for stage in stages:
        for need in stage.needs:
            if need not in by_name:
                raise InvalidPipeline(f"stage {stage.name} needs {need!r}, which does not exist")
    done: dict[str, Stage] = {}
    waiting = list(stages)
    while waiting:
        free = [s for s in waiting if all(n in done for n in s.needs)]
        if not free:
            raise InvalidPipeline(
                f"the stages {', '.join(s.name for s in waiting)} wait for each other in a cycle"
            )
        done.update((s.name, s) for s in free)
        waiting = [s for s in waiting if s.name not in done]
    return list(done.values())


def check_graph(stages: Sequence[Stage]) -> None:
    """Refuse cycles and segment stages that nothing splits."""
    by_name = {stage.name: stage for stage in sorted_stages(stages)}
    for stage in stages:
        if stage.each:
            splitter_of(stage, by_name)


def splitter_of(stage: Stage, by_name: Mapping[str, Stage]) -> str:
    """The whole stage whose result lists the segments that this stage runs for.

    A stage that follows other segment stages shares their segments; the first one has one whole prerequisite.
    """
    segment_needs = [by_name[need] for need in stage.needs if by_name[need].each]
    sources = {splitter_of(need, by_name) for need in segment_needs} or set(stage.needs)
    if len(sources) != 1:
        raise InvalidPipeline(
            f"stage {stage.name} runs for each segment, so exactly one stage must list the segments; "
            f"it has {', '.join(sorted(sources)) or 'none'}"
        )
    return sources.pop()
