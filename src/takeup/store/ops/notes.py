"""Log lines and commands of tasks; nothing is decided by them."""

from collections.abc import Sequence
from datetime import datetime

from takeup.core.ids import canonical_json
from takeup.core.model import LogLine, Step, StepEnd
from takeup.store.op import Op, query
from takeup.store.ops.read import page_size
from takeup.store.rows import log_line_of, step_of


def add_logs(lines: Sequence[LogLine]) -> Op[None]:
    """Keep log lines."""
    yield query(
        "add_logs",
        g=[
            (line.job_id, line.task_id, line.epoch, line.level, line.stage, line.message,
             canonical_json(dict(line.metadata), what="metadata"))
            for line in lines
        ],
    )  # fmt: skip


def add_steps(steps: Sequence[Step], ages_s: Sequence[float]) -> Op[dict[str, tuple[int, datetime]]]:
    """Note commands that began so many seconds ago; answers with the key of each."""
    rows = yield query(
        "add_steps",
        g=[
            (step.job_id, step.task_id, step.epoch, step.step_id, step.type, step.command, age_s)
            for step, age_s in zip(steps, ages_s, strict=True)
        ],
    )
    return {row["step_id"]: (row["id"], row["started_at"]) for row in rows}


def end_steps(ends: Sequence[StepEnd]) -> Op[None]:
    """Note how commands ended."""
    yield query(
        "end_steps",
        g=[
            (end.id, end.started_at, end.ago_s, end.duration_ms, end.exit_code, end.stdout, end.stderr,
             end.exit_code == 0, end.error)
            for end in ends
        ],
    )  # fmt: skip


def logs(job_id: str, after: int, limit_count: int) -> Op[list[LogLine]]:
    """A page of a job's log lines."""
    rows = yield query("logs_of_job", job_id=job_id, after=after, limit_count=page_size(limit_count))
    return [log_line_of(row) for row in rows]


def steps(job_id: str, after: int, limit_count: int) -> Op[list[Step]]:
    """A page of a job's commands."""
    rows = yield query("steps_of_job", job_id=job_id, after=after, limit_count=page_size(limit_count))
    return [step_of(row) for row in rows]
