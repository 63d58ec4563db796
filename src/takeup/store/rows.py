"""From rows to the frozen values of the core."""

import json
from dataclasses import fields
from typing import Any

from takeup.core.files import JobFile
from takeup.core.model import (
    Artifact,
    Attempt,
    Event,
    Job,
    ListedJob,
    LogLine,
    Message,
    Step,
    Task,
    Worker,
)
from takeup.store.op import Row


def job_of(row: Row) -> Job:
    """A job."""
    return Job(**{**_pick(row, Job), "spec": json.loads(row["spec"])})


def listed_job_of(row: Row) -> ListedJob:
    """A job as lists show it."""
    return ListedJob(**_pick(row, ListedJob))


def task_of(row: Row) -> Task:
    """A task."""
    result = row["result"]
    return Task(
        **{
            **_pick(row, Task),
            "parameters": json.loads(row["parameters"]),
            "result": None if result is None else json.loads(result),
        }
    )


def worker_of(row: Row) -> Worker:
    """A worker."""
    return Worker(
        **{
            **_pick(row, Worker),
            "disabled": bool(row["disabled"]),
            "capabilities": frozenset(json.loads(row["capabilities"])),
            "stages": tuple(json.loads(row["stages"])),
            "metadata": json.loads(row["metadata"]),
        }
    )


def message_of(row: Row) -> Message:
    """An outbox message."""
    return Message(**{**_pick(row, Message), "body": json.loads(row["body"])})


def attempt_of(row: Row) -> Attempt:
    """One claim and how it ended."""
    return Attempt(**_pick(row, Attempt))


def event_of(row: Row) -> Event:
    """One audit row."""
    return Event(**_pick(row, Event))


def log_line_of(row: Row) -> LogLine:
    """A log line."""
    return LogLine(**{**_pick(row, LogLine), "metadata": json.loads(row["metadata"])})


def step_of(row: Row) -> Step:
    """A command."""
    success = row["success"]
    return Step(**{**_pick(row, Step), "success": None if success is None else bool(success)})


def job_file_of(row: Row) -> JobFile:
    """An output file with the task that made it."""
    return JobFile(row["task_id"], row["name"], row["object_key"], row["sha256"], row["size_bytes"])


def artifact_of(row: Row) -> Artifact:
    """An output file."""
    return Artifact(row["name"], row["object_key"], row["sha256"], row["size_bytes"])


def _pick(row: Row, kind: Any) -> dict[str, Any]:
    return {field.name: row[field.name] for field in fields(kind)}
