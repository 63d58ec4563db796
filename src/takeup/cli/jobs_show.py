"""`takeup jobs show`: one job from all sides."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from takeup.cli.jobs_list import shown_status
from takeup.cli.opening import open_store
from takeup.cli.printing import cell, clean, line, moment, plain, print_json, size, took
from takeup.core.model import Artifact, Attempt, Job, LogLine, Task
from takeup.core.progress import JobProgress, StageProgress
from takeup.core.quality import Quality
from takeup.core.steps import current_step
from takeup.store.store import ReadStore

TASKS_SHOWN = 20
FILES_SHOWN = 50
FILES_MAX = 1000
LOGS_SHOWN = 10
SPEC_CHARS_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a job."""

    job: Job
    progress: JobProgress
    qualities: list[Quality]
    broken: list[Task]
    attempts: list[Attempt]
    artifacts: list[Artifact]
    logs: list[LogLine]


async def show(options: argparse.Namespace) -> int:
    """Print everything about one job."""
    async with open_store(options) as (store, settings):
        shown = await look(store.read, await store.read.find_job(options.job))
        storage = settings.storage
    if options.json:
        print_json(as_json(shown, storage))
        return 0
    for text in lines(shown, storage):
        line(text)
    return 0


async def look(read: ReadStore, job_id: str) -> Shown:
    """Read a job from all sides."""
    broken = await read.tasks_in(job_id, "FAILED", limit=TASKS_SHOWN)
    broken += await read.tasks_in(job_id, "ERROR", limit=TASKS_SHOWN)
    attempts = await read.attempts_of(job_id, [task.id for task in broken]) if broken else []
    return Shown(
        job=await read.job(job_id),
        progress=await read.progress(job_id),
        qualities=await read.qualities(job_id),
        broken=broken,
        attempts=attempts,
        artifacts=await read.artifacts(job_id, limit=FILES_MAX),
        logs=await read.last_logs(job_id, limit=LOGS_SHOWN),
    )


def as_json(shown: Shown, storage: Path) -> dict[str, object]:
    """For machines."""
    return {
        "job": plain(shown.job),
        "percent": round(shown.progress.percent, 1),
        "step": current_step(shown.progress.stages),
        "stages": [
            {"stage": stage.stage, "percent": round(100 * stage.fraction, 1), "counts": dict(stage.counts)}
            for stage in shown.progress.stages
        ],
        "rungs": [plain(one) for one in shown.qualities],
        "broken": [
            {**plain(task), "attempts": [plain(a) for a in shown.attempts if a.task_id == task.id]}
            for task in shown.broken
        ],
        "artifacts": [
            {**plain(file), "path": str(path), "is_there": path.exists()}
            for file in shown.artifacts
            for path in (storage / file.key,)
        ],
        "logs": [plain(entry) for entry in shown.logs],
    }


def lines(shown: Shown, storage: Path) -> Iterator[str]:
    """For people."""
    yield from _about(shown.job, shown.progress.now)
    step = current_step(shown.progress.stages)
    yield f"stages, at the step {step}:" if step else "stages:"
    width = max(len(stage.stage) for stage in shown.progress.stages)
    for stage in shown.progress.stages:
        yield f"  {stage.stage.ljust(width)}  {stage_text(stage)}"
    yield from _rungs(shown.qualities)
    yield from _broken(shown)
    yield from _files(shown.artifacts, storage)
    if shown.logs:
        yield f"last log lines (all of them: takeup jobs logs {shown.job.id}):"
    for entry in shown.logs:
        yield f"  {log_text(entry)}"


def _broken(shown: Shown) -> Iterator[str]:
    if shown.broken:
        yield "failed tasks:"
    for task in shown.broken:
        yield f"  {task_name(task)}: {task.status} after {task.attempt} of {task.max_attempts} attempts"
        for attempt in shown.attempts:
            if attempt.task_id == task.id:
                yield f"    {attempt_text(attempt)}"


def _files(artifacts: list[Artifact], storage: Path) -> Iterator[str]:
    there = [file for file in artifacts if (storage / file.key).exists()]
    if artifacts:
        gone = len(artifacts) - len(there)
        yield "files:" + (f" ({gone} were only for other stages and are removed)" if gone else "")
    for file in there[:FILES_SHOWN]:
        yield f"  {size(file.size_bytes):>9}  {file.sha256[:12]}  {storage / file.key}"
    if len(there) > FILES_SHOWN:
        yield f"  and {len(there) - FILES_SHOWN} more"


def _rungs(found: list[Quality]) -> Iterator[str]:
    if found:
        yield "rungs:"
    width = max((len(one.rung) for one in found), default=0)
    for one in found:
        why = f": {cell(one.error)}" if one.error else ""
        counts = f"{one.done}/{one.segments} segments, {one.percent:.0f} %"
        yield f"  {one.rung.ljust(width)}  {counts}, {one.status.replace('_', ' ')}{why}"


def _about(job: Job, now: datetime) -> Iterator[str]:
    yield f"{job.id}  {shown_status(job)}" + (f": {cell(job.error)}" if job.error else "")
    subject = f", subject {job.subject}" if job.subject else ""
    yield f"  pipeline {job.pipeline}, generation {job.generation}{subject}"
    user = f", user {job.user_id}" if job.user_id else ""
    key = f", key {job.idempotency_key}" if job.idempotency_key else ""
    yield f"  priority {job.priority}, control {job.control}, version {job.version}{user}{key}"
    length = took(job.started_at, job.finished_at or now)
    times = f"created {moment(job.created_at)}, started {moment(job.started_at)}"
    yield f"  {times}, finished {moment(job.finished_at)} (UTC), took {length}"
    spec = json.dumps(dict(job.spec), ensure_ascii=False)
    yield f"  spec {spec if len(spec) <= SPEC_CHARS_SHOWN else spec[:SPEC_CHARS_SHOWN] + '…'}"


def stage_text(stage: StageProgress) -> str:
    """The counts of a stage in words."""
    if not stage.is_expanded:
        return f"not split yet: waits for {stage.splitter}"
    words = {
        "RUNNING": "running",
        "READY": "ready",
        "NEW": "waiting",
        "ERROR": "to be retried",
        "FAILED": "failed",
        "CANCELLED": "cancelled",
        "SKIPPED": "skipped",
    }
    parts = [f"{stage.counts[status]} {word}" for status, word in words.items() if stage.counts.get(status)]
    return f"{stage.done}/{stage.total} done, {100 * stage.fraction:.0f} %" + "".join(f", {p}" for p in parts)


def task_name(task: Task) -> str:
    """As people call it."""
    return f"task {task.id} {task.stage}" + (f" segment {task.segment}" if task.segment is not None else "")


def attempt_text(attempt: Attempt) -> str:
    """One claim and how it ended."""
    how = attempt.outcome or "running"
    length = f" after {took(attempt.claimed_at, attempt.ended_at)}" if attempt.ended_at else ""
    error = f": {cell(attempt.error)}" if attempt.error else ""
    place = f"epoch {attempt.epoch}, attempt {attempt.attempt}, worker {attempt.owner}"
    return f"{place}, {moment(attempt.claimed_at)}: {how}{length}{error}"


def log_text(entry: LogLine) -> str:
    """One log line."""
    about = " ".join(f"{name}={value}" for name, value in entry.metadata.items())
    task = f" task {entry.task_id}" if entry.task_id is not None else ""
    place = f"{entry.stage or '-'}{task}"
    return clean(f"{moment(entry.logged_at)} {entry.level:<5} {place}: {entry.message} {about}".rstrip())
