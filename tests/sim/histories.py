"""Hand-made histories: a small world in which every event can be written down, also a wrong one."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from takeup.core.model import Event
from takeup.core.policy import RetryPolicy
from takeup.testing.history import Call, Settings, Tables

START = datetime(2030, 1, 1, tzinfo=UTC)
LEASE_S = 10.0
TARGETS = {
    "ready": ("NEW", "READY", "orchestrator"),
    "abandon": ("NEW", "CANCELLED", "orchestrator"),
    "claim": ("READY", "RUNNING", "worker"),
    "renew": ("RUNNING", "RUNNING", "holder"),
    "complete": ("RUNNING", "DONE", "holder"),
    "fail": ("RUNNING", "ERROR", "holder"),
    "give_up": ("RUNNING", "FAILED", "holder"),
    "release": ("RUNNING", "READY", "holder"),
    "expire": ("RUNNING", "READY", "recovery"),
    "bury": ("RUNNING", "FAILED", "recovery"),
    "wake": ("ERROR", "READY", "recovery"),
    "cancel": ("READY", "CANCELLED", "operator"),
}
Case = Callable[["Log"], Settings | None]
BAD: list[tuple[str, Case]] = []
"""Every history that breaks an invariant, with that invariant."""


def bad(invariant: str) -> Callable[[Case], Case]:
    def add(case: Case) -> Case:
        BAD.append((invariant, case))
        return case

    return add


SETTINGS = Settings(
    recovery_s=5, poll_s=5, slack_s=1, log_lag_s=0, margin_s=2, stop_s=2, offline_s=30, is_serial=True
)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


class Log:
    """Writes events and calls; every field can be overridden."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.calls: list[Call] = []
        self.tasks: dict[int, dict[str, Any]] = {}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.needs: list[dict[str, Any]] = []
        self.outbox: list[dict[str, Any]] = []
        self.worker_rows: dict[str, dict[str, Any]] = {}
        self.live: dict[int, tuple[int, int, str | None, str | None]] = {}

    def add(self, second: float, noun: str, event: str, **fields: Any) -> Event:
        made = Event(len(self.events) + 1, at(second), noun, event, **fields)
        self.events.append(made)
        return made

    def worker(self, worker: str = "w1", second: float = 0, *, slots: int = 1, **fields: Any) -> None:
        self.worker_rows[worker] = {
            "id": worker,
            "slots": slots,
            "capabilities": "[]",
            "stages": '["*"]',
            "incarnation": 1,
            "status": "active",
            "disabled": 0,
            "quarantined_at": None,
            **fields,
        }
        self.worker_event(second, "register", worker, None, "active")

    def worker_event(
        self,
        second: float,
        event: str,
        worker: str = "w1",
        before: str | None = "active",
        after: str = "active",
        *,
        actor: str = "worker",
    ) -> None:
        self.add(second, "worker", event, actor=actor, from_status=before, to_status=after, worker_id=worker)
        self.worker_rows[worker]["status"] = after

    def job(self, job: str = "j1", *, priority: int = 5, request: str | None = None) -> None:
        self.jobs[job] = {"id": job, "status": "pending", "priority": priority, "subject": "s1"}
        self.add(
            0,
            "job",
            "create",
            actor="operator",
            from_status=None,
            to_status="pending",
            job_id=job,
            request_id=request,
        )

    def job_event(self, second: float, event: str, to: str, job: str = "j1", **fields: Any) -> None:
        before = self.jobs[job]["status"]
        self.add(
            second,
            "job",
            event,
            **{"actor": "store", "from_status": before, "to_status": to, "job_id": job, **fields},
        )
        self.jobs[job]["status"] = to

    def task(self, task: int = 1, status: str = "READY", job: str = "j1", **fields: Any) -> None:
        self.tasks[task] = {
            "id": task,
            "job_id": job,
            "stage": "s",
            "segment": None,
            "lane_id": 1,
            "max_attempts": 3,
            "lease_s": LEASE_S,
            "control": "READY",
            **fields,
        }
        self.live[task] = (0, 0, None, None)
        self.add(
            0,
            "task",
            "create",
            actor="operator",
            from_status=None,
            to_status=status,
            job_id=job,
            task_id=task,
            epoch=0,
            attempt=0,
            available_at=START,
        )

    def move(self, second: float, event: str, task: int = 1, **fields: Any) -> Event:
        """An event as it should be, but for the fields that are given."""
        source, target, actor = TARGETS[event]
        epoch, attempt, nonce, owner = self.live[task]
        expires = None
        if event == "claim":
            epoch, attempt, nonce = epoch + 1, attempt + 1, f"nonce-{task}-{epoch + 1}"
            owner = fields.get("worker_id", "w1")
        if event in ("claim", "renew"):
            expires = at(second + LEASE_S)
        if event == "release":
            attempt -= 1
        due = at(second + 10) if event == "fail" else START
        made = Event(
            seq=len(self.events) + 1,
            logged_at=at(second),
            noun="task",
            event=event,
            actor=actor,
            from_status=source,
            to_status=target,
            job_id=self.tasks[task]["job_id"],
            task_id=task,
            worker_id=owner,
            generation=1,
            epoch=epoch,
            nonce_hash=nonce,
            attempt=attempt,
            lease_expires_at=expires,
            available_at=due,
        )
        made = replace(made, **fields)
        self.events.append(made)
        self.live[task] = (made.epoch or 0, made.attempt or 0, made.nonce_hash, made.worker_id)
        return made

    def call(self, second: float, op: str, phase: str, request: str | None = None, **fields: Any) -> None:
        process = fields.pop("process", "w1")
        value = fields.pop("value", None)
        wall = fields.pop("wall", at(second))
        self.calls.append(Call(process, op, phase, second, request, fields, value, wall))

    def finished(self, second: float = 30) -> None:
        """The job's end with its message."""
        self.job_event(second, "complete", "completed")
        self.message("j1", "completed")

    def message(self, job: str, status: str, state: str = "SENT") -> None:
        number = len(self.outbox) + 1
        if state == "SENT":
            self.message_event("take", "WAITING", "SENDING", number)
            self.message_event("deliver", "SENDING", "SENT", number)
        self.outbox.append({"id": number, "topic": f"job.{status}", "subject": job, "status": state})

    def message_event(self, event: str, before: str, after: str, message: int = 1) -> None:
        self.add(60, "message", event, actor="store", from_status=before, to_status=after, message_id=message)

    def tables(self) -> Tables:
        """The rows that this log gives; what a test wants otherwise it changes first."""
        rows: dict[int, dict[str, Any]] = {}
        for event in self.events:
            if event.noun == "task" and event.task_id is not None:
                before = rows.get(event.task_id, {"refunds": 0, "attempt": 0})
                refunds = before["refunds"] + (
                    event.event == "release" and (event.attempt or 0) < before["attempt"]
                )
                running = event.to_status == "RUNNING"
                rows[event.task_id] = {
                    **self.tasks[event.task_id],
                    "refunds": refunds,
                    "status": event.to_status,
                    "epoch": event.epoch,
                    "attempt": event.attempt,
                    "lease_owner": event.worker_id if running else None,
                    "nonce_hash": event.nonce_hash if running else None,
                    "lease_expires_at": event.lease_expires_at,
                    **self.tasks[event.task_id].get("final", {}),
                }
        stages = {(row["job_id"], row["stage"]) for row in self.tasks.values()}
        retry = json.dumps(RetryPolicy(initial_s=4, jitter=0.5).as_json())
        lanes = [
            {"id": 1, "pipeline": "p", "stage": "s", "requires": "[]", "prefers": None},
            {"id": 2, "pipeline": "p", "stage": "g", "requires": '["gpu"]', "prefers": None},
        ]
        return Tables(
            jobs=list(self.jobs.values()),
            tasks=list(rows.values()),
            stages=[{"job_id": job, "stage": stage, "retry": retry} for job, stage in sorted(stages)],
            needs=self.needs,
            lanes=lanes,
            workers=list(self.worker_rows.values()),
            outbox=self.outbox,
        )


def one_task(**fields: Any) -> Log:
    """A worker, a job and its only task, which is READY."""
    log = Log()
    log.worker()
    log.job()
    log.task(**fields)
    return log
