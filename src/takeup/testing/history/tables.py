"""I12 and I19: the rows are what the log says, and one message goes out for each finished job."""

from collections import Counter
from typing import Any

from takeup.core.machine import JOB, OUTBOX
from takeup.store.op import Row
from takeup.testing.history.records import Tables, Violation
from takeup.testing.history.states import History


def check(history: History, tables: Tables) -> None:
    """Compare the final rows with the fold of the log."""
    _tasks(history)
    _jobs(history)
    _workers(history, tables)
    _outbox(history, tables)


def _differs(row: Row, expected: dict[str, Any]) -> str | None:
    wrong = [
        f"{name} is {row[name]!r}, the log gives {value!r}"
        for name, value in expected.items()
        if row[name] != value
    ]
    return "; ".join(wrong) or None


def _tasks(history: History) -> None:
    for task_id, row in history.task_rows.items():
        state = history.tasks.get(task_id)
        if state is None:
            history.violations.append(Violation("I19", "a row without a log", task_id, row["job_id"]))
            continue
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
        why = _differs(row, expected)
        if why:
            history.break_task("I19", why, state, state.last)
    for state in history.tasks.values():
        if state.row is None:
            history.break_task("I19", "a log without a row", state, state.last)


def _jobs(history: History) -> None:
    for job_id, row in history.job_rows.items():
        state = history.jobs.get(job_id)
        if state is None or state.last is None:
            history.violations.append(Violation("I19", "a row without a log", job_id=job_id))
        elif why := _differs(row, {"status": state.status}):
            history.break_job("I19", why, state, state.last)
    for state in history.jobs.values():
        if state.row is None:
            history.break_job("I19", "a log without a row", state, state.last)


def _workers(history: History, tables: Tables) -> None:
    for row in tables.workers:
        state = history.workers.get(row["id"])
        if state is None or state.status is None:
            history.violations.append(Violation("I19", "a row without a log", worker_id=row["id"]))
        elif row["status"] != state.status or bool(row["disabled"]) != state.is_disabled:
            message = f"is {row['status']}, disabled {bool(row['disabled'])}; the log gives {state.status}"
            history.break_worker("I19", message, state, state.last)


def _outbox(history: History, tables: Tables) -> None:
    counts: Counter[str] = Counter()
    for row in tables.outbox:
        status = history.messages.get(row["id"], OUTBOX.initial[0])
        if row["status"] != status:
            message = f"message {row['id']} is {row['status']}, the log gives {status}"
            history.violations.append(Violation("I19", message, job_id=row["subject"]))
        if not row["topic"].startswith("job."):
            continue
        job = history.jobs.get(row["subject"])
        counts[row["subject"]] += 1
        if job is None or row["topic"] != f"job.{job.status}":
            message = f"message {row['id']} says {row['topic']}, the log does not"
            history.violations.append(Violation("I12", message, job_id=row["subject"]))
        elif history.settings.ended_at is not None and row["status"] not in ("SENT", "PARKED"):
            message = f"message {row['id']} is still {row['status']}"
            history.break_job("I12", message, job, job.last)
    for job in history.jobs.values():
        if job.status in JOB.final and counts[job.id] != 1:
            history.break_job("I12", f"{counts[job.id]} messages announce its end", job, job.last)
