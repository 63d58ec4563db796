"""Why a job is not running, or what it does: from facts to sentences, most telling first."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from takeup.core.machine import JOB
from takeup.core.model import Job
from takeup.core.plan import LanePlan

LATE_S = 30.0
"""What should have happened so long ago needs a word more."""


@dataclass(frozen=True, slots=True)
class StageTasks:
    """How many tasks of a stage are alike, and the earliest of them."""

    status: str
    control: str
    count: int
    percent_sum: float
    available_at: datetime
    ready_at: datetime | None


@dataclass(frozen=True, slots=True)
class StageFacts:
    """One stage of the job."""

    name: str
    lane: LanePlan
    needs: tuple[str, ...]
    splitter: str | None
    is_expanded: bool
    tasks: tuple[StageTasks, ...]

    def count(self, *statuses: str) -> int:
        """How many of its tasks are in one of these statuses."""
        return sum(tasks.count for tasks in self.tasks if tasks.status in statuses)

    @property
    def state(self) -> str:
        """In a word and, where it runs, a number."""
        total = sum(tasks.count for tasks in self.tasks)
        done = self.count("DONE", "SKIPPED")
        percent = sum(tasks.percent_sum for tasks in self.tasks if tasks.status == "RUNNING")
        if self.count("RUNNING") or (done and done < total):
            return f"RUNNING, {100 * (done + percent / 100) / total:.0f} %"
        for status in ("ERROR", "READY", "FAILED", "CANCELLED"):
            if self.count(status):
                return {"ERROR": "waiting for a retry"}.get(status, status)
        return "DONE" if self.is_expanded and done == total else "NEW"

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left to do."""
        return self.is_expanded and not self.count("NEW", "READY", "RUNNING", "ERROR", "FAILED", "CANCELLED")


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """A task that runs, waits for a retry, or failed."""

    id: int
    stage: str
    segment: int | None
    status: str
    attempt: int
    max_attempts: int
    lease_owner: str | None
    claimed_at: datetime | None
    lease_expires_at: datetime | None
    available_at: datetime
    progress_percent: float
    error: str | None

    @property
    def name(self) -> str:
        """As people call it."""
        return self.stage if self.segment is None else f"{self.stage} segment {self.segment}"


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """A worker that is not offline."""

    id: str
    is_active: bool
    is_disabled: bool
    is_quarantined: bool
    slots: int
    load: int
    capabilities: frozenset[str]
    stages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What an operator did last."""

    event: str
    actor: str
    logged_at: datetime
    reason: str | None


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the job at one moment."""

    now: datetime
    job: Job
    stages: tuple[StageFacts, ...]
    tasks: tuple[TaskFacts, ...]
    workers: tuple[WorkerFacts, ...]
    offline: int
    change: Change | None

    def of(self, stage: str, status: str) -> list[TaskFacts]:
        """The tasks of a stage that are shown one by one."""
        return [task for task in self.tasks if task.stage == stage and task.status == status]


def why(facts: Facts) -> list[str]:
    """What the job does or waits for, a sentence each."""
    if facts.job.status in JOB.final:
        return [_ending(facts)]
    told = list(_held_back(facts))
    for stage in facts.stages:
        told += _running(facts, stage)
        told += _retrying(facts, stage)
        told += _ready(facts, stage)
    if any(stage.count("FAILED", "CANCELLED") for stage in facts.stages):
        return [*told, f"it will end as failed or cancelled: {_broken(facts)}"]
    for stage in facts.stages:
        told += _new(facts, stage)
    return told or ["nothing is left to do: the orchestrator closes it at its next pass"]


def _ending(facts: Facts) -> str:
    job, ago = facts.job, _since(facts, facts.job.finished_at)
    if job.status == "failed":
        return f"finished {ago} ago: failed because {_broken(facts)}"
    if job.status == "cancelled":
        reason = facts.change.reason if facts.change and facts.change.event == "cancel" else None
        return f"finished {ago} ago: cancelled" + (f" ({reason})" if reason else "")
    return f"finished {ago} ago: completed"


def _broken(facts: Facts) -> str:
    for task in facts.tasks:
        if task.status == "FAILED":
            return f"{task.name} failed in attempt {task.attempt} of {task.max_attempts}: {_error(task)}"
    return facts.job.error or "a task was cancelled"


def _held_back(facts: Facts) -> Iterator[str]:
    if facts.job.control == "PAUSED":
        change = facts.change
        if change is not None and change.event == "pause":
            reason = f" ({change.reason})" if change.reason else ""
            yield f"paused by an operator {_since(facts, change.logged_at)} ago{reason}"
        else:
            yield f"paused since it was submitted {_since(facts, facts.job.created_at)} ago"


def _running(facts: Facts, stage: StageFacts) -> Iterator[str]:
    shown = facts.of(stage.name, "RUNNING")
    for task in shown:
        if task.lease_expires_at is not None and task.lease_expires_at <= facts.now:
            over = f"whose lease is over since {_since(facts, task.lease_expires_at)}"
            yield f"{task.name} was on worker {task.lease_owner}, {over}: {_RECOVERY}"
            continue
        yield (
            f"{task.name} runs on worker {task.lease_owner} since {_since(facts, task.claimed_at)}, "
            f"{task.progress_percent:.0f} %, lease until {_moment(task.lease_expires_at)}"
        )
    more = stage.count("RUNNING") - len(shown)
    if more > 0:
        yield f"{more} more tasks of {stage.name} run"


def _retrying(facts: Facts, stage: StageFacts) -> Iterator[str]:
    shown = facts.of(stage.name, "ERROR")
    for task in shown:
        after = f"after attempt {task.attempt} of {task.max_attempts}: {_error(task)}"
        late_s = (facts.now - task.available_at).total_seconds()
        if late_s < 0:
            yield f"{task.name}: retry in {length(-late_s)} {after}"
        else:
            late = f" (since {length(late_s)}): {_RECOVERY}" if late_s > LATE_S else ""
            yield f"{task.name}: retry is due{late}, {after}"
    more = stage.count("ERROR") - len(shown)
    if more > 0:
        yield f"{more} more tasks of {stage.name} wait for a retry"


def _ready(facts: Facts, stage: StageFacts) -> Iterator[str]:
    for tasks in stage.tasks:
        if tasks.status not in ("NEW", "READY", "ERROR"):
            continue
        if tasks.control == "PAUSED":
            yield f"{_some(stage, tasks.count)} paused by an operator"
        elif tasks.status == "READY" and facts.job.control == "READY":
            if tasks.available_at > facts.now:
                yield f"{stage.name}: not before {_moment(tasks.available_at)}"
            else:
                yield f"{_some(stage, tasks.count)} ready, but {_nobody(facts, stage, tasks)}"


def _nobody(facts: Facts, stage: StageFacts, tasks: StageTasks) -> str:
    """Why nobody takes a task that is ready."""
    lane = stage.lane
    active = [worker for worker in facts.workers if worker.is_active]
    name = f"{lane.pipeline}/{lane.stage}"
    serving = [
        worker for worker in active if lane.fits(worker.capabilities | {*lane.requires}, worker.stages)
    ]
    kept = _kept_away(facts, lane)
    if not serving:
        return f"no worker is online that serves {name}: {_others(facts, active)}{kept}"
    able = [worker for worker in serving if lane.fits(worker.capabilities, worker.stages)]
    if not able:
        without = len(serving)
        return f"no worker with {' and '.join(lane.requires)}: {without} online without it{kept}"
    free = [worker for worker in able if worker.load < worker.slots]
    if not free:
        slots = sum(worker.slots for worker in able)
        return f"all {slots} slots of the {_many(len(able), 'worker')} that serve it are busy{kept}"
    since = _since(facts, tasks.ready_at) if tasks.ready_at is not None else "just now"
    if lane.prefers and not any(lane.suits(worker.capabilities) for worker in free):
        return f"left for a worker with {lane.prefers} for a while (ready since {since})"
    names = ", ".join(worker.id for worker in free[:3])
    have = "has" if len(free) == 1 else "have"
    return f"about to be claimed: {names} {have} a free slot (ready since {since})"


def _kept_away(facts: Facts, lane: LanePlan) -> str:
    """Who could take it but is quarantined, and how he is let back."""
    ids = [
        worker.id
        for worker in facts.workers
        if worker.is_quarantined and lane.fits(worker.capabilities, worker.stages)
    ]
    if not ids:
        return ""
    verb = "is" if len(ids) == 1 else "are"
    return f"; {', '.join(ids[:3])} {verb} quarantined (`takeup workers enable ID` lets a worker back)"


def _others(facts: Facts, active: list[WorkerFacts]) -> str:
    parts = [f"{len(active)} online serve other stages"] if active else []
    disabled = sum(worker.is_disabled for worker in facts.workers)
    quarantined = sum(worker.is_quarantined for worker in facts.workers)
    draining = len(facts.workers) - len(active) - disabled - quarantined
    parts += [
        f"{count} {word}"
        for count, word in (
            (draining, "draining"),
            (disabled, "disabled"),
            (quarantined, "quarantined"),
            (facts.offline, "offline"),
        )
        if count
    ]
    return ", ".join(parts) or "none was ever registered"


def _new(facts: Facts, stage: StageFacts) -> Iterator[str]:
    if stage.is_expanded and not stage.count("NEW"):
        return
    by_name = {one.name: one for one in facts.stages}
    open_needs = [by_name[need] for need in stage.needs if need in by_name and not by_name[need].is_over]
    if open_needs:
        names = " and ".join(f"{need.name} ({need.state})" for need in open_needs)
        yield f"stage {stage.name} waits for {names}"
        return
    later = [t.available_at for t in stage.tasks if t.status == "NEW" and t.available_at > facts.now]
    if later:
        yield f"stage {stage.name}: not before {_moment(min(later))}"
    else:
        yield f"stage {stage.name} can start: {_ORCHESTRATOR}"


def _some(stage: StageFacts, count: int) -> str:
    return f"{stage.name} is" if count == 1 else f"{count} tasks of {stage.name} are"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _error(task: TaskFacts) -> str:
    lines = (task.error or "no reason was given").strip().splitlines()
    return lines[-1] if lines else "no reason was given"


def _since(facts: Facts, moment: datetime | None) -> str:
    return "an unknown time" if moment is None else length((facts.now - moment).total_seconds())


def _moment(moment: datetime | None) -> str:
    return "an unknown time" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def length(seconds: float) -> str:
    """A length of time as people say it."""
    seconds = max(seconds, 0.0)
    for unit, size in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


_RECOVERY = "recovery takes care of it (`takeup serve` or `takeup recover` must run)"
_ORCHESTRATOR = (
    "the orchestrator starts it at its next pass (`takeup serve` or `takeup orchestrate` must run)"
)
