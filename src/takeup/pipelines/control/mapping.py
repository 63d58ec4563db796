"""From a row of the old table to a job: what it may do, where it goes on, and what had to be noted.

Whatever is not understood becomes PAUSED, never READY: a human looks at it before it runs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from takeup.core.control import ITERATION_MAX, Adoption, control_job
from takeup.core.errors import InvalidInput
from takeup.core.model import Control
from takeup.core.pipeline import Pipeline, splitter_of
from takeup.core.plan import plan_job
from takeup.core.policy import LEASE_S_MAX

TOGGLES = ("task_state", "process_status")
COLUMNS = (
    "url", "iteration", "stage", "status", *TOGGLES, "is_claimed", "worker_id", "lease_until", "updated_at",
)  # fmt: skip
"""What the import reads of a row; every other column travels in the job's spec."""

STRICTNESS: tuple[Control, ...] = ("READY", "PAUSED", "SKIP")
TOGGLE_WORDS: dict[str, Control] = {
    "": "READY", "READY": "READY", "PAUSE": "PAUSED", "PAUSED": "PAUSED", "SKIP": "SKIP", "SKIPPED": "SKIP",
}  # fmt: skip
Progress = Literal["waiting", "running", "done"]
STATUS_WORDS: dict[str, Progress] = {
    "": "waiting", "READY": "waiting", "NEW": "waiting", "PENDING": "waiting", "ERROR": "waiting",
    "FAILED": "waiting", "IN_PROGRESS": "running", "COMPLETED": "done",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OldRow:
    """A row as it was read, its column names in lower case; a lease that cannot be read is `math.inf`."""

    number: int
    values: Mapping[str, Any]
    lease_until: datetime | float | None = None


@dataclass(slots=True)
class Judgement:
    """What is to become of a row; without an adoption it stays in the old table alone."""

    control: Control = "READY"
    stage: str | None = None
    not_before: datetime | None = None
    adoption: Adoption | None = None
    notes: list[str] = field(default_factory=list)

    def restrict(self, control: Control, note: str | None = None) -> None:
        """Let it do no more than this."""
        self.control = max(self.control, control, key=STRICTNESS.index)
        if note:
            self.notes.append(note)


@dataclass(frozen=True, slots=True)
class Rules:
    """The pipeline that goes on with the rows, the time, and old names of its stages."""

    pipeline: Pipeline
    now: datetime
    stages: Mapping[str, str] = field(default_factory=dict)


def key_of(row: OldRow) -> tuple[str, int] | None:
    """The pair that a row is about; None if it cannot be told."""
    url, iteration = row.values.get("url"), row.values.get("iteration")
    if isinstance(iteration, str) and iteration.strip().removeprefix("-").isdecimal():
        iteration = int(iteration)
    if isinstance(iteration, float) and iteration.is_integer():
        iteration = int(iteration)
    if not isinstance(url, str) or not url or type(iteration) is not int or abs(iteration) > ITERATION_MAX:
        return None
    return url, iteration


def judge(row: OldRow, rules: Rules) -> Judgement:
    """Decide about a row that is the only one of its pair."""
    verdict, key = Judgement(), key_of(row)
    if key is None:
        verdict.notes.append("url or iteration is missing or not usable")
        return verdict
    for name in TOGGLES:
        word = _word(row, name)
        control = TOGGLE_WORDS.get(word, "PAUSED")
        verdict.restrict(control, None if word in TOGGLE_WORDS else f"{name} {word!r} is not known")
    progress = _progress(row, verdict)
    start = _start(row, rules, progress, verdict)
    _heed_lease(row, rules, progress, verdict)
    names = tuple(rules.pipeline.stages)
    verdict.stage = names[start] if start < len(names) else None
    extra = {name: _plain(value) for name, value in row.values.items() if name not in COLUMNS}
    spec = {**extra, "url": key[0], "iteration": key[1]}
    job = control_job(rules.pipeline, spec, verdict.control, not_before=verdict.not_before)
    try:
        plan_job(job)
    except InvalidInput as error:
        return Judgement(notes=[f"cannot be stored: {error}"])
    verdict.adoption = Adoption(job, names[:start], is_skipped=verdict.control == "SKIP")
    return verdict


def _word(row: OldRow, name: str) -> str:
    value = row.values.get(name)
    return "" if value is None else str(value).strip().upper()


def _progress(row: OldRow, verdict: Judgement) -> Progress:
    word = _word(row, "status")
    if word not in STATUS_WORDS:
        verdict.restrict("PAUSED", f"status {word!r} is not known")
    return STATUS_WORDS.get(word, "waiting")


def _start(row: OldRow, rules: Rules, progress: Progress, verdict: Judgement) -> int:
    """The number of the first stage that is still to run."""
    names = list(rules.pipeline.stages)
    told = row.values.get("stage")
    text = "" if told is None else str(told).strip()
    name = rules.stages.get(text, text.lower())
    if name in names:
        start = names.index(name) + (progress == "done")
        return _with_splitters(rules.pipeline, start, verdict)
    if text:
        verdict.restrict("PAUSED", f"stage {text!r} is not one of the pipeline")
    elif progress != "waiting" and len(names) > 1:
        verdict.restrict("PAUSED", "its status names no stage")
    return int(not text and progress == "done" and len(names) == 1)


def _with_splitters(pipeline: Pipeline, start: int, verdict: Judgement) -> int:
    """Go back to a stage that lists the segments of one that is to run: what it listed is not known."""
    names = list(pipeline.stages)
    for name in reversed(names):
        stage = pipeline.stages[name]
        if stage.each and names.index(name) >= start:
            splitter = names.index(splitter_of(stage, pipeline.stages))
            if splitter < start:
                verdict.notes.append(f"stage {names[splitter]} runs again, since it lists the segments")
                start = splitter
    return start


def _heed_lease(row: OldRow, rules: Rules, progress: Progress, verdict: Judgement) -> None:
    """Wait for the end of a lease that may still be held by somebody."""
    is_claimed = row.values.get("is_claimed")
    until = row.lease_until
    if until is None or is_claimed is False or (progress != "running" and is_claimed is not True):
        return
    if isinstance(until, float) or until > rules.now + timedelta(seconds=LEASE_S_MAX):
        verdict.restrict("PAUSED", "its lease has no end that can be waited for")
    elif until > rules.now:
        verdict.not_before = until
        verdict.notes.append("waits for the end of its lease")


def _plain(value: Any) -> Any:
    """The value with numbers that JSON does not have as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value
