"""A control table: jobs that are about a (url, iteration) pair, as the values that go in and come out."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from takeup.core.errors import InvalidInput
from takeup.core.ids import canonical_json, digest
from takeup.core.model import Control
from takeup.core.pipeline import Pipeline
from takeup.core.plan import TEXT_CHARS_MAX, NewJob

CONTROL_KEY = ("url", "iteration")
"""The key of a pipeline that a control table can drive."""
ADOPT_MAX = 1000
"""How many jobs are adopted in one transaction."""
ITERATION_MAX = 10**18 - 1

ControlStatus = Literal["READY", "IN_PROGRESS", "COMPLETED", "ERROR"]


@dataclass(frozen=True, slots=True)
class ControlRow:
    """One row of the view `pipeline_control`: the newest job of a pair and where it stands."""

    url: str
    iteration: int
    stage: str
    status: ControlStatus
    task_state: Control
    is_claimed: bool
    worker_id: str | None
    lease_until: datetime | None
    updated_at: datetime
    job_id: str
    pipeline: str
    generation: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Claimable:
    """A task that a worker could claim now, with the pair it is about."""

    url: str
    iteration: int
    stage: str
    task_id: int
    job_id: str


@dataclass(frozen=True, slots=True)
class Adoption:
    """A job to create if its subject never had one, with the stages that need not run any more."""

    job: NewJob
    done: tuple[str, ...] = ()
    is_skipped: bool = False
    """Whether nothing of it may run at all: it ends at once, with the control SKIP."""


def control_job(
    pipeline: Pipeline,
    row: Mapping[str, Any],
    control: Control = "READY",
    *,
    not_before: datetime | None = None,
) -> NewJob:
    """The job of one row; its other columns travel in the spec. A row to skip starts as READY here."""
    url, iteration = row.get("url"), row.get("iteration")
    subject = control_subject(pipeline, url, iteration)
    return NewJob(
        pipeline,
        dict(row),
        subject=subject,
        idempotency_key=f"control:{digest(subject)}",
        control="PAUSED" if control == "PAUSED" else "READY",
        not_before=not_before,
    )


def control_subject(pipeline: Pipeline, url: Any, iteration: Any) -> str:
    """The subject of a pair: the text that the pipeline's key makes, or a digest where that is too long."""
    check_pipeline(pipeline)
    if not isinstance(url, str) or not url:
        raise InvalidInput(f"url must be a text that is not empty, not {url!r}")
    if type(iteration) is not int or not -ITERATION_MAX <= iteration <= ITERATION_MAX:
        raise InvalidInput(f"iteration must be a whole number of at most 18 digits, not {iteration!r}")
    subject = f"{pipeline.name}:{canonical_json([url, iteration], what='key')}"
    return subject if len(subject) <= TEXT_CHARS_MAX else f"{pipeline.name}:{digest(subject)}"


def check_pipeline(pipeline: Pipeline) -> None:
    """Refuse a pipeline whose jobs are about something else."""
    if pipeline.key != CONTROL_KEY:
        raise InvalidInput(
            f"pipeline {pipeline.name} has the key {pipeline.key}; declare it with key={CONTROL_KEY}"
        )
