"""From the JSON of a server to the values that a worker works with, and back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from takeup.core.ids import Token
from takeup.core.model import (
    Answer,
    Artifact,
    Brief,
    Completion,
    Failure,
    Fate,
    Glance,
    Held,
    InputPage,
    Lease,
    LogLine,
    MadeInput,
    Progress,
    Step,
    StepEnd,
)

JSON = Mapping[str, Any]


def held(one: Held) -> dict[str, Any]:
    """A task and its token."""
    return {"task_id": one.task_id, "epoch": one.token.epoch, "nonce": one.token.nonce}


def progress(one: Progress) -> dict[str, Any]:
    """A renewal."""
    return {**held(one.held), "percent": one.percent, "note": one.note}


def completion(one: Completion) -> dict[str, Any]:
    """A finished task."""
    return {
        **held(one.held),
        "result": dict(one.result),
        "artifacts": [artifact(file) for file in one.artifacts],
    }


def artifact(one: Artifact) -> dict[str, Any]:
    """A file; where it goes is for the server to say."""
    return {"name": one.name, "sha256": one.sha256, "size_bytes": one.size_bytes}


def failure(one: Failure) -> dict[str, Any]:
    """A failed attempt."""
    told = {"error": one.error or "it failed", "retryable": one.retryable, "after_s": one.after_s}
    return {**held(one.held), **told, "sign": one.sign, "excuse": one.excuse}


def log_line(one: LogLine) -> dict[str, Any]:
    """A line for people."""
    names = ("job_id", "task_id", "epoch", "level", "stage", "message")
    return {**{name: getattr(one, name) for name in names}, "metadata": dict(one.metadata)}


def step(one: Step, ago_s: float) -> dict[str, Any]:
    """A command that began so long ago."""
    names = ("job_id", "task_id", "epoch", "step_id", "type", "command")
    return {**{name: getattr(one, name) for name in names}, "ago_s": ago_s}


def step_end(one: StepEnd) -> dict[str, Any]:
    """How a command ended."""
    names = ("id", "ago_s", "duration_ms", "exit_code", "stdout", "stderr", "error")
    return {**{name: getattr(one, name) for name in names}, "started_at": one.started_at.isoformat()}


def leases(told: JSON) -> list[Lease]:
    """The leases of a claim, each with what to know of its job."""
    jobs = {job_id: Brief(job["spec"], job["subject"]) for job_id, job in told["jobs"].items()}
    return [_lease(row, jobs.get(row["job_id"])) for row in told["leases"]]


def _lease(row: JSON, brief: Brief | None) -> Lease:
    plain = [name for name in Lease._fields if name not in ("expires_at", "token", "brief")]
    return Lease(
        **{name: row[name] for name in plain},
        expires_at=moment(row["expires_at"]),
        token=Token(row["epoch"], row["nonce"]),
        brief=brief,
    )


def answers(rows: Sequence[JSON]) -> list[Answer]:
    """What was said to each report."""
    return [
        Answer(
            row["task_id"],
            row["accepted"],
            row["status"],
            row["order"],
            moment(row["expires_at"]) if row["expires_at"] else None,
            row["reason"],
        )
        for row in rows
    ]


def page(told: JSON) -> InputPage:
    """What a stage made."""
    made = tuple(MadeInput(row["segment"], row["result"], row["files"]) for row in told["made"])
    return InputPage(made, told["after"])


def glance(told: JSON) -> Glance:
    """The status of the worker, and what it still holds."""
    return Glance(told["status"], frozenset(told["held"]))


def fates(told: JSON) -> list[Fate]:
    """What became of attempts."""
    return [Fate((*row["folder"],), row["fate"], None, None) for row in told["fates"]]


def moment(text: str) -> datetime:
    """A time, as JSON has it."""
    return datetime.fromisoformat(text)
