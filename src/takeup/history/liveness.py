"""I24, I25, I27 and I28: with nothing in the way, leases are recovered and work is taken and done in time."""

from datetime import datetime, timedelta

from takeup.core.machine import JOB, TASK
from takeup.core.model import Event
from takeup.history.states import History, JobState, TaskState


class Liveness:
    """Judges only what happened in the quiet phase."""

    def __init__(self, history: History) -> None:
        """Start before the first event."""
        self._history = history
        settings = history.settings
        self._limit = timedelta(seconds=settings.recovery_s + settings.slack_s)
        self._poll = timedelta(seconds=settings.poll_s + settings.slack_s)
        self._defer = timedelta(seconds=settings.defer_s)
        self._restarts = [
            call.wall for call in history.calls if call.op == "restart" and call.wall is not None
        ]

    def before(self, state: TaskState, event: Event) -> None:
        """Look at a task at the moment when something happens to it."""
        quiet = self._history.settings.quiet_from
        if quiet is None or event.logged_at < quiet:
            return
        if event.event in ("expire", "bury"):
            self._overdue(state, event.logged_at, quiet, event)
        elif event.event == "claim":
            self._starving(state, event.logged_at, quiet, event)

    def finish(self) -> None:
        """Look at everything at the end of the quiet phase."""
        quiet, end = self._history.settings.quiet_from, self._history.settings.ended_at
        if quiet is None or end is None:
            return
        for job in self._history.jobs.values():
            is_judged = False
            for state in job.tasks:
                is_judged |= state.status == "RUNNING" and self._overdue(state, end, quiet, None)
                is_judged |= state.status == "READY" and self._starving(state, end, quiet, None)
            stuck = [state for state in job.tasks if state.status in TASK.live]
            if not is_judged and (stuck or job.status not in JOB.final) and not _is_held_back(job):
                names = ", ".join(f"{state.id} {state.status}" for state in stuck) or "no task is live"
                self._history.break_job("I25", f"{job.status} at the end: {names}", job, job.last)

    def _overdue(self, state: TaskState, at: datetime, quiet: datetime, event: Event | None) -> bool:
        if state.expires is None:
            return False
        due = max(state.expires, quiet)
        if at - due <= self._limit:
            return False
        restarts = sum(due <= wall <= at for wall in self._restarts)
        rule, also = ("I28", f", over {restarts} restarts") if restarts else ("I24", "")
        late = (at - due).total_seconds()
        self._history.break_task(
            rule, f"its lease was over for {late:.1f} s{also} and not taken back", state, state.last, event
        )
        return True

    def _starving(self, state: TaskState, at: datetime, quiet: datetime, event: Event | None) -> bool:
        lane = self._history.lane(state)
        if lane is None or state.since is None or state.job.is_paused or state.is_paused:
            return False
        begun = max(state.since, quiet)
        if at - begun <= self._poll:
            return False
        for worker in self._history.workers.values():
            ability = self._history.abilities.get(worker.id)
            if ability is None or worker.idle_since is None or worker.load >= ability.slots:
                continue
            if worker.status != "active" or worker.is_disabled or worker.is_quarantined:
                continue
            if not lane.fits(ability.capabilities, ability.stages):
                continue
            wait = self._poll if lane.suits(ability.capabilities) else self._poll + self._defer
            idle = at - max(begun, worker.idle_since)
            if idle > wait:
                message = f"READY for {idle.total_seconds():.1f} s while {worker.id} was idle"
                self._history.break_task("I27", message, state, state.last, event)
                return True
        return False


def _is_held_back(job: JobState) -> bool:
    return job.is_paused or any(state.is_paused for state in job.tasks)
