"""What those who follow live are told from; nothing is decided by it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from takeup.core.live import SETTLE_S, Frontier, JobLook, LogLook, LogRow, Watch, WorkerLook
from takeup.core.progress import JobProgress, StageProgress
from takeup.core.quality import Quality
from takeup.store.op import Op, Row, Rows, query
from takeup.store.ops import detail

ROWS_MAX = 5000
JOBS_A_SUBJECT_MAX = 20
"""Later runs of one video; earlier ones were over long ago."""
JOBS_AT_ONCE = 200
WORKERS_PAGE, WORKERS_PAGES_MAX = 1000, 10
NEAR_ROWS = 50_000
"""As far back it costs little to look through everything that happened."""


def settled() -> Op[int]:
    """Up to where every row of the log is there now."""
    first = yield from _frontier(-1)
    second = yield from _frontier(first.newest)
    if first.writer is not None and first.writer < second.oldest:
        return first.newest
    rows = yield query("log_settled", settle_s=SETTLE_S)
    low: int = rows[0]["settled"]
    return low


def look(watch: Watch, after: int, limit_count: int = ROWS_MAX) -> Op[LogLook]:
    """What the log says of these jobs and workers after a place, in the order of its numbers."""
    frontier = yield from _frontier(after)
    if frontier.newest <= after:
        return LogLook(frontier)
    jobs_of = yield from jobs_of_subjects(watch.subjects)
    wanted = sorted({*watch.jobs, *(job_id for ids in jobs_of.values() for job_id in ids)})
    found: list[LogRow] = []
    reach: int | None = None
    for start in range(0, len(wanted), JOBS_AT_ONCE):
        part = [(job_id,) for job_id in wanted[start : start + JOBS_AT_ONCE]]
        rows = yield query("log_of_jobs", j=part, after=after, limit_count=limit_count)
        reach = _reach(rows, limit_count, reach)
        found += [_row_of(row, "job") for row in rows]
    if watch.workers:
        name = "log_of_workers" if frontier.newest - after <= NEAR_ROWS else "old_log_of_workers"
        rows = yield query(name, after=after, limit_count=limit_count)
        reach = _reach(rows, limit_count, reach)
        found += [_row_of(row, "worker") for row in rows]
    kept = sorted(row for row in found if reach is None or row.seq <= reach)
    return LogLook(frontier, kept, jobs_of, reach)


def _frontier(settled_at: int) -> Op[Frontier]:
    rows = yield query("log_frontier", settled=settled_at)
    return Frontier(rows[0]["newest"], rows[0]["writer"], rows[0]["oldest"])


def _reach(rows: Rows, limit_count: int, before: int | None) -> int | None:
    """Where what was read ends, if there may be more."""
    if len(rows) < limit_count:
        return before
    last: int = rows[-1]["seq"]
    return last if before is None else min(last, before)


def _row_of(row: Row, noun: Literal["job", "worker"]) -> LogRow:
    return LogRow(
        row["seq"], row["logged_at"], noun, row["id"], row["event"], row["to_status"], row["reason"]
    )


def jobs_of_subjects(subjects: Sequence[str]) -> Op[dict[str, tuple[str, ...]]]:
    """The jobs of each subject, the newest first."""
    if not subjects:
        return {}
    rows = yield query(
        "jobs_of_subjects",
        s=[(subject,) for subject in sorted(set(subjects))],
        limit_count=JOBS_A_SUBJECT_MAX * len(set(subjects)),
    )
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        found[row["subject"]] = (*found.get(row["subject"], ()), row["id"])
    return found


def jobs(job_ids: Iterable[str], with_rungs: Iterable[str] = ()) -> Op[dict[str, JobLook]]:
    """How these jobs stand, and of some how far each rung is; those that are gone are left out."""
    found: dict[str, JobLook] = {}
    wanted, with_rungs = sorted(set(job_ids)), frozenset(with_rungs)
    for start in range(0, len(wanted), JOBS_AT_ONCE):
        part = [(job_id,) for job_id in wanted[start : start + JOBS_AT_ONCE]]
        # Jobs before counts: the counts of one that is seen to be over are those of its end.
        rows = yield query("watched_jobs", j=part)
        by_job: dict[str, list[Row]] = {}
        for row in (yield query("watched_stages", j=part)):
            by_job.setdefault(row["job_id"], []).append(row)
        for row in rows:
            stages = by_job.get(row["id"])
            if stages is not None:  # its archiving came in between
                rungs = (yield from detail.rungs(row["id"])) if row["id"] in with_rungs else []
                found[row["id"]] = _job(row, stages, rungs)
    return found


def _job(row: Row, stages: Sequence[Row], rungs: Sequence[Quality]) -> JobLook:
    by_stage: dict[str, list[Row]] = {}
    for stage in stages:
        by_stage.setdefault(stage["stage"], []).append(stage)
    return JobLook(
        id=row["id"],
        subject=row["subject"],
        generation=row["generation"],
        status=row["status"],
        control=row["control"],
        error=row["error"],
        finished_at=row["finished_at"],
        progress=JobProgress(tuple(_stage(part) for part in by_stage.values()), stages[0]["now_at"]),
        phases={name: part[0]["phase"] for name, part in by_stage.items()},
        rungs=tuple(rungs),
        written_at=max((row["written_at"] for row in stages if row["written_at"]), default=None),
    )


def _stage(rows: Sequence[Row]) -> StageProgress:
    by_status: Mapping[str, Row] = {row["status"]: row for row in rows if row["status"] is not None}
    running = by_status.get("RUNNING", {})
    return StageProgress(
        stage=rows[0]["stage"],
        position=rows[0]["position"],
        splitter=rows[0]["splitter"],
        is_expanded=rows[0]["expanded_at"] is not None,
        counts={status: int(row["task_count"]) for status, row in by_status.items()},
        percent_sum=float(running.get("percent_sum") or 0.0),
    )


def workers() -> Op[dict[str, WorkerLook]]:
    """How all workers stand, up to a number that nobody watches at once."""
    found: dict[str, WorkerLook] = {}
    after = ""
    for _ in range(WORKERS_PAGES_MAX):
        rows = yield query("watched_workers", after=after, limit_count=WORKERS_PAGE)
        for row in rows:
            found[row["id"]] = WorkerLook(
                id=row["id"],
                name=row["name"],
                status=row["status"],
                is_disabled=bool(row["disabled"]),
                is_quarantined=row["quarantined_at"] is not None,
                slots=row["slots"],
                load=row["load"],
            )
        if len(rows) < WORKERS_PAGE:
            break
        after = rows[-1]["id"]
    return found
