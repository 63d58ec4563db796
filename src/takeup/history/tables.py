"""I12 and I19: the rows are what the log says, and one message goes out for each finished job."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from takeup.core.machine import JOB, OUTBOX
from takeup.core.model import Event
from takeup.history.records import Tables, Violation
from takeup.history.states import History, TaskState
from takeup.store.op import Row


def check(history: History, tables: Tables) -> None:
    """Compare the final rows with the fold of the log."""
    check_jobs(history, history.job_rows.values(), history.task_rows.values())
    for state in history.tasks.values():
        if state.row is None:
            history.break_task("I19", "a log without a row", state, state.last)
    for job in history.jobs.values():
        if job.row is None:
            history.break_job("I19", "a log without a row", job, job.last)
    check_workers(history, tables.workers)
    announced: Counter[str] = Counter()
    check_messages(history, tables.outbox, announced)
    check_announced(history, announced)


def check_jobs(history: History, jobs: Iterable[Row], tasks: Iterable[Row]) -> None:
    """Compare the rows of some jobs with what the log says of them."""
    for row in tasks:
        state = history.tasks.get(row["id"])
        if state is None:
            history.violations.append(Violation("I19", "a row without a log", row["id"], row["job_id"]))
        elif why := _differs(row, _expected(row, state)) or _other_error(row, state.last):
            history.break_task("I19", why, state, state.last)
    for row in jobs:
        job = history.jobs.get(row["id"])
        if job is None or job.last is None:
            history.violations.append(Violation("I19", "a row without a log", job_id=row["id"]))
        elif why := _differs(row, {"status": job.status}) or _other_error(row, job.last):
            history.break_job("I19", why, job, job.last)


def _expected(row: Row, state: TaskState) -> dict[str, Any]:
    expected: dict[str, Any] = {
        "status": state.status,
        "epoch": state.epoch,
        "attempt": state.attempt,
        "refunds": state.refunds,
        "lease_owner": state.owner,
        "nonce_hash": state.nonce,
        "lease_expires_at": state.expires,
    }
    if row["control"] != "SKIP":
        expected["control"] = "PAUSED" if state.is_paused else "READY"
    return expected


def _differs(row: Row, expected: dict[str, Any]) -> str | None:
    wrong = [
        f"{name} is {row[name]!r}, the log gives {value!r}"
        for name, value in expected.items()
        if row[name] != value
    ]
    return "; ".join(wrong) or None


def _other_error(row: Row, last: Event | None) -> str | None:
    """Whether the row of what failed tells another error than the log."""
    if last is None or last.event not in ("fail", "give_up", "bury") or "error" not in row:
        return None
    error: str | None = row["error"]
    if error == last.reason or (error or "").endswith(", once too often"):
        return None
    return f"error is {error!r}, the log gives {last.reason!r}"


def check_workers(history: History, rows: Iterable[Row]) -> None:
    """Compare workers with what the log says of them."""
    for row in rows:
        state = history.workers.get(row["id"])
        if state is None or state.status is None:
            history.violations.append(Violation("I19", "a row without a log", worker_id=row["id"]))
            continue
        found = (row["status"], bool(row["disabled"]), row["quarantined_at"] is not None)
        told = (state.status, state.is_disabled, state.is_quarantined)
        if found != told:
            names = "status, disabled, quarantined"
            history.break_worker("I19", f"{names} are {found}; the log gives {told}", state, state.last)


def check_messages(history: History, rows: Iterable[Row], announced: Counter[str]) -> None:
    """Compare messages with the log, and count those that announce the end of a job."""
    for row in rows:
        status = history.messages.get(row["id"], OUTBOX.initial[0])
        if row["status"] != status:
            message = f"message {row['id']} is {row['status']}, the log gives {status}"
            history.violations.append(Violation("I19", message, job_id=row["subject"]))
        if not row["topic"].startswith("job."):
            continue
        announced[row["subject"]] += 1
        if row["topic"] != f"job.{history.status_of(row['subject'])}":
            message = f"message {row['id']} says {row['topic']}, the log does not"
            history.violations.append(Violation("I12", message, job_id=row["subject"]))
        elif history.settings.ended_at is not None and row["status"] not in ("SENT", "PARKED"):
            message = f"message {row['id']} is still {row['status']}"
            history.violations.append(Violation("I12", message, job_id=row["subject"]))


def check_announced(history: History, announced: Counter[str]) -> None:
    """I12: one message for each finished job."""
    ended = [job.id for job in history.jobs.values() if job.status in JOB.final]
    for job_id in [*history.settled, *ended]:
        if announced[job_id] != 1:
            message = f"{announced[job_id]} messages announce its end"
            history.violations.append(Violation("I12", message, job_id=job_id))
