"""What people ask about one job: how far it is, what failed and how often it was tried, its last words."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from takeup.core.errors import InvalidInput, NotFound
from takeup.core.model import Attempt, LogLine, Task
from takeup.core.progress import JobProgress, StageProgress
from takeup.core.quality import Quality, Segments, qualities
from takeup.store.op import Op, Row, Rows, query
from takeup.store.ops.read import page_size
from takeup.store.rows import attempt_of, log_line_of, task_of

PREFIX = "job_"
PREFIX_CHARS_MIN = 6
"""Of an id, behind its word."""
HEX = frozenset("0123456789abcdef")
CHOICES_SHOWN = 5


def find(text: str) -> Op[str]:
    """The id of the one job whose id begins like this."""
    start = text if text.startswith(PREFIX) else PREFIX + text
    rows = yield query("job_by_id", job_id=start)
    if rows:
        return start
    digits = start.removeprefix(PREFIX)
    if len(digits) < PREFIX_CHARS_MIN:
        raise InvalidInput(
            f"{text!r} is too short for a job's id: at least {PREFIX_CHARS_MIN} characters are needed"
        )
    if HEX.issuperset(digits):
        # Every collation has the hex digits in their order and g behind them.
        rows = yield query("ids_between", low=start, high=start + "g", limit_count=CHOICES_SHOWN + 1)
    if not rows:
        raise NotFound(f"no job has an id that begins with {text!r}")
    ids = [str(row["id"]) for row in rows]
    if len(ids) > 1:
        shown = ", ".join(ids[:CHOICES_SHOWN]) + (" …" if len(ids) > CHOICES_SHOWN else "")
        raise InvalidInput(f"the ids of several jobs begin with {text!r}: {shown}")
    return ids[0]


def progress(job_id: str) -> Op[JobProgress]:
    """The counts of a job's stages, in their order, and how long their tasks take."""
    rows = yield query("stage_progress", job_id=job_id)
    if not rows:
        raise NotFound(f"no job has the id {job_id!r}")
    names = list(dict.fromkeys(row["stage"] for row in rows))
    parts = [[row for row in rows if row["stage"] == name] for name in names]
    return JobProgress(tuple(_stage(part) for part in parts), rows[0]["now_at"])


def _stage(rows: Rows) -> StageProgress:
    by_status = {row["status"]: row for row in rows if row["status"] is not None}
    running, done = by_status.get("RUNNING", {}), by_status.get("DONE", {})
    first = rows[0]
    return StageProgress(
        stage=first["stage"],
        position=first["position"],
        splitter=first["splitter"],
        is_expanded=first["expanded_at"] is not None,
        counts={status: int(row["task_count"]) for status, row in by_status.items()},
        percent_sum=float(running.get("percent_sum") or 0.0),
        elapsed_s=float(running.get("elapsed_s") or 0.0),
        seconds=float(done.get("seconds") or 0.0),
        squares=float(done.get("squares") or 0.0),
        note=running.get("note"),
    )


def rungs(job_id: str) -> Op[list[Quality]]:
    """How far each rung of a job is, if the splitter of its segments named some."""
    stages: dict[str, dict[str, Segments]] = {}
    for row in (yield query("segment_stages", job_id=job_id)):
        counts = {c["status"]: int(c["task_count"]) for c in (yield query("stage_counts", **_place(row)))}
        open_rows = yield query("rung_tasks", **_place(row))
        stages.setdefault(row["splitter"], {})[row["stage"]] = Segments(
            count=sum(counts.values()),
            done=counts.get("DONE", 0) + counts.get("SKIPPED", 0),
            broken=counts.get("FAILED", 0),
            running=[float(r["progress_percent"]) for r in open_rows if r["status"] == "RUNNING"],
            failed=[_failed(r["result"]) for r in open_rows if r["status"] == "DONE"],
        )
    found: list[Quality] = []
    for splitter, segments in stages.items():
        results = yield query("splitter_result", job_id=job_id, stage=splitter)
        named = json.loads(results[0]["result"]).get("rungs") if results else None
        found += qualities(named, segments)
    return found


def _failed(result: str) -> Mapping[str, Any]:
    named = json.loads(result).get("failed")
    return named if isinstance(named, Mapping) else {}


def _place(row: Row) -> dict[str, str]:
    return {"job_id": row["job_id"], "stage": row["stage"]}


def tasks_in(job_id: str, status: str, limit_count: int) -> Op[list[Task]]:
    """The first tasks of a job that are in this status."""
    rows = yield query("tasks_in_status", job_id=job_id, status=status, limit_count=page_size(limit_count))
    return [task_of(row) for row in rows]


def attempts_of(job_id: str, task_ids: Sequence[int], limit_count: int) -> Op[list[Attempt]]:
    """The claims of some tasks of a job and how each ended."""
    rows = yield query(
        "attempts_of_tasks",
        job_id=job_id,
        g=[(task_id,) for task_id in task_ids],
        limit_count=page_size(limit_count),
    )
    return [attempt_of(row) for row in rows]


def last_logs(job_id: str, limit_count: int) -> Op[list[LogLine]]:
    """The last lines that were logged about a job, oldest first."""
    rows = yield query("last_logs", job_id=job_id, limit_count=page_size(limit_count))
    return [log_line_of(row) for row in reversed(rows)]


def worker_counts() -> Op[dict[str, int]]:
    """How many workers are in each status."""
    rows = yield query("worker_counts")
    return {row["status"]: row["worker_count"] for row in rows}
