"""Checks a database in use: one snapshot, the log page by page; a finished job is judged and forgotten."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from takeup.core.machine import JOB
from takeup.core.model import Event
from takeup.history import tables
from takeup.history.checker import Checker
from takeup.history.records import Settings, Tables, Violation
from takeup.store.dialect import DialectName
from takeup.store.op import Op, Row, Rows, Script, query
from takeup.store.rows import event_of

PAGE = 1000
JOBS_AT_ONCE = 50
VIOLATIONS_MAX = 1000
"""After so many the rest is not looked for."""

SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

LIVE = Settings(log_lag_s=6.0, offline_s=0.0)
"""What holds whatever the settings were: a transaction may last as long as PostgreSQL lets it, and nobody
recorded after how long a silence workers were called offline."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check saw and what it found wrong."""

    events: int
    jobs: int
    archived: int
    violations: tuple[Violation, ...]


def verify(dialect: DialectName, *, archive: bool = False, settings: Settings = LIVE) -> Op[Verdict]:
    """The verdict on the log and the tables, and with `archive` on each archived job too."""
    if dialect == "postgres":
        yield Script(SNAPSHOT)
    lanes = yield query("all_lanes")
    workers = yield query("verify_workers")
    checker = Checker((), Tables(lanes=lanes, workers=workers), settings)
    events = yield from _stream(checker)
    yield from _leftovers(checker)
    tables.check_workers(checker.history, workers)
    yield from _messages(checker)
    yield from _gaps(checker)
    found = checker.history.violations
    jobs = len(checker.history.settled) + len(checker.history.jobs)
    archived = 0
    if archive:
        archived, more, wrong = yield from _archive(lanes, settings)
        events += more
        found = [*found, *wrong]
    return Verdict(events, jobs, archived, tuple(found[:VIOLATIONS_MAX]))


def _stream(checker: Checker) -> Op[int]:
    """Feed the whole log; answers with its length."""
    history, count, last = checker.history, 0, 0
    rows_of: dict[str, tuple[list[Row], list[Row]]] = {}
    while len(history.violations) < VIOLATIONS_MAX:
        page = [event_of(row) for row in (yield query("audit_page", after=last, limit_count=PAGE))]
        if not page:
            break
        count, last = count + len(page), page[-1].seq
        fresh = {event.job_id for event in page if event.job_id} - rows_of.keys() - history.settled.keys()
        for part in _parts(sorted(fresh)):
            known = yield from _rows("verify", part)
            history.learn(known)
            rows_of.update((job_id, ([], [])) for job_id in part)
            for row in known.jobs:
                rows_of[row["id"]][0].append(row)
            for row in known.tasks:
                rows_of[row["job_id"]][1].append(row)
        _feed(checker, page)
        ended = {event.job_id for event in page if event.noun == "job" and event.to_status in JOB.final}
        for job_id in sorted(job_id for job_id in ended if job_id in history.jobs):
            _settle(checker, job_id, *rows_of.pop(job_id))
    for job_id, rows in rows_of.items():
        _compare(checker, job_id, *rows)
    return count


def _feed(checker: Checker, page: Sequence[Event]) -> None:
    last = 0
    for event in page:
        if event.seq <= last:
            violation = Violation("LOG", "two rows have this number", job_id=event.job_id, events=(event,))
            checker.history.violations.append(violation)
        last = event.seq
        checker.feed(event)


def _settle(checker: Checker, job_id: str, jobs: Sequence[Row], tasks: Sequence[Row]) -> None:
    _compare(checker, job_id, jobs, tasks)
    checker.history.settle(job_id)
    for row in tasks:
        checker.history.task_rows.pop(row["id"], None)


def _compare(checker: Checker, job_id: str, jobs: Sequence[Row], tasks: Sequence[Row]) -> None:
    history = checker.history
    tables.check_jobs(history, jobs, tasks)
    state = history.jobs.get(job_id)
    if state is None:
        return
    if not jobs:
        history.break_job("I19", "a log without a row", state, state.last)
    else:
        for task in state.tasks:
            if task.row is None:
                history.break_task("I19", "a log without a row", task, task.last)


def _leftovers(checker: Checker) -> Op[None]:
    """Jobs that the log does not know."""
    history, after = checker.history, ""
    while True:
        rows = yield query("verify_job_ids", after=after, limit_count=PAGE)
        for row in rows:
            if history.status_of(row["id"]) is None:
                history.violations.append(Violation("I19", "a row without a log", job_id=row["id"]))
        if len(rows) < PAGE:
            return
        after = rows[-1]["id"]


def _messages(checker: Checker) -> Op[None]:
    history, after = checker.history, 0
    announced: Counter[str] = Counter()
    while True:
        rows = yield query("verify_messages", after=after, limit_count=PAGE)
        unknown = {row["subject"] for row in rows if history.status_of(row["subject"]) is None}
        gone = yield query("archived_jobs", j=[(job_id,) for job_id in sorted(unknown)])
        ends = {row["id"]: f"job.{row['status']}" for row in gone}
        hot = [row for row in rows if ends.get(row["subject"]) != row["topic"]]
        tables.check_messages(history, hot, announced)
        if len(rows) < PAGE:
            break
        after = rows[-1]["id"]
    tables.check_announced(history, announced)


def _gaps(checker: Checker) -> Op[None]:
    """Rows that were deleted, where the numbers of the log have no gaps of their own."""
    (size,) = yield query("verify_log_size")
    missing = size["written"] - size["kept"]
    if missing:
        message = f"{missing} rows are missing" if missing > 0 else f"{-missing} rows were slipped in"
        checker.history.violations.append(Violation("LOG", message))


def _archive(lanes: Rows, settings: Settings) -> Op[tuple[int, int, list[Violation]]]:
    """Judge each archived job by itself: it is complete, and nothing happens to it any more."""
    jobs, events, after = 0, 0, ""
    found: list[Violation] = []
    while len(found) < VIOLATIONS_MAX:
        rows = yield query("archived_ids", after=after, limit_count=JOBS_AT_ONCE)
        if not rows:
            break
        ids = [row["id"] for row in rows]
        after = ids[-1]
        known = yield from _rows("archived", ids)
        log = yield query("archived_log", j=[(job_id,) for job_id in ids])
        jobs, events = jobs + len(ids), events + len(log)
        checker = Checker((), Tables(lanes=lanes), settings)
        checker.history.learn(known)
        _feed(checker, [event_of(row) for row in log])
        tables.check_jobs(checker.history, known.jobs, known.tasks)
        found += checker.history.violations
    return jobs, events, found


def _rows(kind: str, job_ids: Iterable[str]) -> Op[Tables]:
    wanted = [(job_id,) for job_id in job_ids]
    jobs = yield query(f"{kind}_jobs", j=wanted)
    tasks = yield query(f"{kind}_tasks", j=wanted)
    stages = yield query(f"{kind}_stages", j=wanted)
    needs = yield query(f"{kind}_needs", j=wanted)
    return Tables(jobs=jobs, tasks=tasks, stages=stages, needs=needs)


def _parts(job_ids: Sequence[str]) -> list[Sequence[str]]:
    return [job_ids[start : start + JOBS_AT_ONCE] for start in range(0, len(job_ids), JOBS_AT_ONCE)]
