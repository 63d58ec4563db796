"""Feeds a log through the rules, event by event, and asks for the verdict at its end."""

from collections.abc import Iterable, Sequence

from takeup.core.model import Event
from takeup.history import attempts, leases, moves, tables, workers
from takeup.history.clients import Acknowledged
from takeup.history.files import Winners
from takeup.history.liveness import Liveness
from takeup.history.order import Order
from takeup.history.records import Call, Settings, Tables, Violation
from takeup.history.states import History, TaskState, WorkerState

TASK_RULES = (
    moves.check_final,
    leases.check,
    attempts.check_due,
    moves.check_task,
    leases.check_epoch,
    attempts.check,
    workers.check_claim,
)
"""In this order; the first that an event breaks names the violation."""


def check(
    events: Iterable[Event],
    calls: Sequence[Call] = (),
    rows: Tables | None = None,
    settings: Settings | None = None,
) -> list[Violation]:
    """Every violation of the invariants that this history shows; an empty list is a clean bill."""
    checker = Checker(calls, rows, settings or Settings())
    for event in events:
        checker.feed(event)
    return checker.finish()


class Checker:
    """The rules over one history; events come in the order of their `seq`."""

    def __init__(self, calls: Sequence[Call], rows: Tables | None, settings: Settings) -> None:
        """Index the client log and the tables; the events are fed one by one."""
        self.history = History(settings, rows, calls)
        self._acknowledged = Acknowledged(self.history)
        self._winners = Winners(self.history)
        self._liveness = Liveness(self.history)
        self._order = Order(self.history)
        self._heartbeats = workers.Heartbeats(calls)

    def feed(self, event: Event) -> None:
        """Take the next event."""
        if broken := _malformed(self.history, event):
            violation = Violation("LOG", broken, event.task_id, event.job_id, event.worker_id, (event,))
            self.history.violations.append(violation)
            return
        if self.history.calls:
            self._acknowledged.see(event)
            self._winners.see(event)
        if self.history.settings.canaries:
            self._check_secrets(event)
        self._order.at(event)
        if event.noun == "task":
            self._task(event)
        elif event.noun == "job":
            self._job(event)
        elif event.noun == "worker":
            self._worker(event)
        elif event.noun == "message":
            moves.check_message(self.history, event)

    def finish(self) -> list[Violation]:
        """The end of the log: compare with the tables, the client log and the clock."""
        self._order.finish()
        self._liveness.finish()
        if self.history.tables is not None:
            tables.check(self.history, self.history.tables)
        if self.history.calls:
            self._acknowledged.finish()
            self._winners.finish()
        return self.history.violations

    def _check_secrets(self, event: Event) -> None:
        text = f"{event.reason} {event.worker_id} {event.request_id} {event.nonce_hash}"
        if any(secret in text for secret in self.history.settings.canaries):
            violation = Violation(
                "I23", "a secret is in the log", event.task_id, event.job_id, events=(event,)
            )
            self.history.violations.append(violation)

    def _task(self, event: Event) -> None:
        history = self.history
        state = history.tasks.get(event.task_id or 0)
        if state is None:
            state = self._new_task(event)
            moves.check_birth(history, state, event)
        else:
            self._liveness.before(state, event)
            for rule in TASK_RULES:
                if rule(history, state, event):
                    break
        self._apply(state, event)

    def _new_task(self, event: Event) -> TaskState:
        history = self.history
        task_id = event.task_id or 0
        row = history.task_rows.get(task_id)
        job = history.job(event.job_id or "")
        state = TaskState(task_id, job, row, status="")
        history.tasks[task_id] = state
        job.tasks.append(state)
        if row is not None:
            history.open_counts[job.id, row["stage"]] += 1
            history.by_segment[job.id, row["stage"], row["segment"]] = state
        return state

    def _apply(self, state: TaskState, event: Event) -> None:
        """Believe the log, so that one broken rule is reported once."""
        if event.to_status != state.status:
            self._move(state, event)
        state.last = event
        if event.event in moves.TASK_CONTROLS:
            self._order.change_task(state, is_paused=event.event == "pause")
            state.since = state.paused_at = event.logged_at
        if event.event == "claim":
            self._lease(state, event)
        elif event.event in ("renew", "cut"):
            state.expires = event.lease_expires_at or state.expires
        elif state.owner is not None and event.to_status != "RUNNING":
            self._unlease(state, event)
        if event.event in ("create", "fail") and event.available_at is not None:
            state.not_before = event.available_at
        if event.attempt is not None:
            if event.event == "release" and event.attempt < state.attempt:
                state.refunds += 1
            state.attempt = event.attempt
        if event.epoch is not None:
            state.epoch = event.epoch

    def _move(self, state: TaskState, event: Event) -> None:
        counts = state.job.counts
        if state.status:
            counts[state.status] -= 1
        if state.status == "READY":
            self._order.leave(state, event)
        was_open = state.status not in moves.DONE
        state.status = event.to_status or ""
        state.since = event.logged_at
        counts[state.status] += 1
        if state.status == "READY":
            self._order.enter(state)
        is_open = state.status not in moves.DONE
        if state.row is not None and was_open != is_open:
            self.history.open_counts[state.job.id, state.row["stage"]] += 1 if is_open else -1

    def _lease(self, state: TaskState, event: Event) -> None:
        if state.owner is not None:
            self.history.worker(state.owner).load -= 1
        state.owner, state.nonce = event.worker_id, event.nonce_hash
        state.expires, state.claimed = event.lease_expires_at, event
        if event.worker_id is not None:
            worker = self.history.worker(event.worker_id)
            worker.load += 1
            worker.idle_since = event.logged_at

    def _unlease(self, state: TaskState, event: Event) -> None:
        worker = self.history.worker(state.owner or "")
        ability = self.history.abilities.get(worker.id)
        if ability is None or worker.load >= ability.slots:
            worker.idle_since = event.logged_at
        worker.load -= 1
        state.owner = state.nonce = state.expires = None

    def _job(self, event: Event) -> None:
        job = self.history.job(event.job_id or "")
        if event.event == "create":
            if job.last is not None:
                self.history.break_job("I19", "created twice", job, job.last, event)
            self._order.begin_job(job)
        else:
            moves.check_job(self.history, job, event)
        if event.event in ("pause", "resume"):
            self._order.change(job, is_paused=event.event == "pause")
            job.paused_at = event.logged_at
            for state in job.tasks:
                state.since = event.logged_at
        elif event.event == "set_priority" and (event.reason or "").isdecimal():
            self._order.change(job, priority=int(event.reason or 0))
        job.status = event.to_status or job.status
        job.last = event

    def _worker(self, event: Event) -> None:
        worker = self.history.worker(event.worker_id or "")
        if not moves.check_worker(self.history, worker, event):
            self._heartbeats.check(self.history, worker, event)
        self._note_worker(worker, event)

    def _note_worker(self, worker: WorkerState, event: Event) -> None:
        if event.event == "disable":
            worker.is_disabled = True
        elif event.event == "quarantine":
            worker.is_quarantined = True
        elif event.event == "enable":
            worker.is_disabled = worker.is_quarantined = False
        if event.event in ("register", "revive"):
            worker.seen = event.logged_at
        if worker.status != event.to_status or event.event in ("register", *moves.WORKER_SWITCHES):
            worker.since = worker.idle_since = event.logged_at
        worker.status = event.to_status
        worker.last = event


def _malformed(history: History, event: Event) -> str | None:
    """Why this row cannot be of the log: it is about nothing, or about a job that is over and done with."""
    named = {
        "task": event.task_id and event.job_id,
        "job": event.job_id,
        "worker": event.worker_id,
        "message": event.message_id,
    }
    if event.noun not in named:
        return f"a row about a {event.noun}"
    if not named[event.noun]:
        return f"{event.event} of a {event.noun} that it does not name"
    if event.job_id is not None and event.job_id in history.settled:
        return f"{event.noun} {event.event} after the job was {history.settled[event.job_id]}"
    return None
