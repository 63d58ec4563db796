"""Which rows of the log are alerts, and which of them are told: not the same again and again, or a flood."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

LIMIT_S = 300.0
BURST_MAX = 20
"""How many alerts of one type are told within the time in which one subject is told once."""
PATTERN_COUNT, PATTERN_S = 3, 86_400.0
"""So many failed runs of one subject within such a time are a pattern."""
ANY = ""
"""The subject of what is counted for all of a type."""
FAILED = "job_failed"
"""Only counted, never told as an alert: the webhook `job.failed` tells it."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that somebody should know of."""

    type: str
    subject: str
    happened_at: datetime
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limit:
    """What was told of a subject lately, or with the subject '' of a type."""

    type: str
    subject: str
    began_at: datetime
    sent: int = 0
    suppressed: int = 0
    total: int = 0


def alert_of(row: Mapping[str, Any]) -> Alert | None:
    """The alert that a row of the log is by itself."""
    noun, event = row["noun"], row["event"]
    if noun == "task":
        return _of_task(row)
    if noun == "worker" and event in ("register", "leave", "lose"):
        kind = "worker_startup" if event == "register" else "worker_shutdown"
        data = {"worker_id": row["worker_id"]}
        if event != "register":
            data["reason"] = "it said good-bye" if event == "leave" else "it was not heard of any more"
        return Alert(kind, row["worker_id"], row["logged_at"], data)
    if noun == "worker" and event == "quarantine":
        data = {"worker_id": row["worker_id"], "reason": row["reason"]}
        return Alert("worker_quarantined", row["worker_id"], row["logged_at"], data)
    return None


def _of_task(row: Mapping[str, Any]) -> Alert | None:
    data = {
        "job_id": row["job_id"],
        "pipeline": row["pipeline"],
        "subject": row["subject"],
        "stage": row["stage"],
        "task_id": row["task_id"],
        "attempt": row["attempt"],
        "max_attempts": row["max_attempts"],
        "worker_id": row["worker_id"],
        "reason": row["reason"],
    }
    if row["event"] == "expire":
        return Alert("stale_job_recovered", row["job_id"], row["logged_at"], data)
    is_spent = row["max_attempts"] is None or row["attempt"] >= row["max_attempts"]
    if row["event"] == "bury" or (row["event"] == "give_up" and is_spent):
        return Alert("job_max_retries_exceeded", row["job_id"], row["logged_at"], data)
    return None  # it failed for good at once, which is no matter of retries


def pattern_of(row: Mapping[str, Any], count: int) -> Alert | None:
    """The alert that a failed job is because its subject failed again and again."""
    if count < PATTERN_COUNT:
        return None
    data = {
        "pipeline": row["pipeline"],
        "subject": row["subject"],
        "failures": count,
        "within_s": round(PATTERN_S),
        "job_id": row["job_id"],
        "error": row["job_error"],
    }
    return Alert("job_failed_pattern", f"{row['pipeline']} {row['subject']}", row["logged_at"], data)


class Limits:
    """Decides which alerts are told, and counts the others until the next one is."""

    def __init__(self, known: Iterable[Limit], now: datetime, *, limit_s: float = LIMIT_S) -> None:
        """`known` are those of every type and subject that is asked for; with 0 seconds all are told."""
        self._known = {(one.type, one.subject): one for one in known}
        self._now = now
        self._length = timedelta(seconds=limit_s)

    @property
    def all(self) -> list[Limit]:
        """Every limit as it is now."""
        return list(self._known.values())

    def count(self, kind: str) -> None:
        """One more of this type, told or not."""
        of_type = self._of(kind, ANY)
        self._known[kind, ANY] = replace(of_type, total=of_type.total + 1)

    def admit(self, alert: Alert) -> Mapping[str, int] | None:
        """What was kept back before, if this one is told; None: it is only counted."""
        self.count(alert.type)
        of_type, mine = self._of(alert.type, ANY), self._known.get((alert.type, alert.subject))
        if mine is not None and self._now - mine.began_at < self._length:
            self._known[alert.type, alert.subject] = replace(mine, suppressed=mine.suppressed + 1)
            return None
        if self._now - of_type.began_at >= self._length:
            of_type = replace(of_type, began_at=self._now, sent=0)
        if self._length and of_type.sent >= BURST_MAX:
            self._known[alert.type, ANY] = replace(of_type, suppressed=of_type.suppressed + 1)
            return None
        kept_back = {
            "suppressed": mine.suppressed if mine else 0,
            "suppressed_of_others": of_type.suppressed,
        }
        self._known[alert.type, ANY] = replace(of_type, sent=of_type.sent + 1, suppressed=0)
        total = mine.total + 1 if mine else 1
        self._known[alert.type, alert.subject] = Limit(
            alert.type, alert.subject, self._now, sent=1, suppressed=0, total=total
        )
        return kept_back

    def _of(self, kind: str, subject: str) -> Limit:
        return self._known.get((kind, subject), Limit(kind, subject, self._now))
