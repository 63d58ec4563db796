"""ORDER: within a lane, nothing waits behind a less urgent task; judged for the log of one writer."""

from collections import Counter

from takeup.core.model import Event
from takeup.history.states import History, JobState, TaskState


class Order:
    """Counts what is READY in each lane by priority, and compares at the end of each claim."""

    def __init__(self, history: History) -> None:
        """Start before the first event."""
        self._history = history
        self._waiting: dict[int, Counter[int]] = {}
        self._batch: list[tuple[TaskState, Event, int]] = []
        self._request: str | None = None
        self.is_on = history.settings.is_serial and history.tables is not None
        self._asked = {
            job: asked["priority"]
            for call in history.calls
            if call.op == "submit" and call.phase == "ok"
            for job, asked in zip(call.value, call.args["jobs"], strict=True)
        }

    def begin_job(self, job: JobState) -> None:
        """A job's first priority, from the client log, or from its row while nobody changed it."""
        job.priority = self._asked.get(job.id)

    def enter(self, state: TaskState) -> None:
        """The task became READY."""
        self._count(state, 1)

    def leave(self, state: TaskState, event: Event) -> None:
        """The task is READY no more."""
        priority = self._count(state, -1)
        if event.event == "claim" and priority is not None:
            self._batch.append((state, event, priority))

    def at(self, event: Event) -> None:
        """Judge the last claim once its log rows are all read."""
        if self._batch and (event.event != "claim" or event.request_id != self._request):
            self.finish()
        self._request = event.request_id

    def finish(self) -> None:
        """Judge the last claim."""
        for state, event, priority in self._batch:
            row = state.row
            waiting = self._waiting.get(row["lane_id"]) if row is not None else None
            ahead = [p for p, count in (waiting or {}).items() if p > priority and count > 0]
            if ahead:
                message = f"priority {priority} was claimed while priority {max(ahead)} waited"
                self._history.break_task("ORDER", message, state, event)
                break
        self._batch.clear()

    def change(self, job: JobState, *, is_paused: bool | None = None, priority: int | None = None) -> None:
        """Count a job's waiting tasks anew after a pause, a resumption or a new priority."""
        ready = [state for state in job.tasks if state.status == "READY"]
        for state in ready:
            self._count(state, -1)
        if is_paused is not None:
            job.is_paused = is_paused
        if priority is not None:
            job.priority = priority
        for state in ready:
            self._count(state, 1)

    def change_task(self, state: TaskState, *, is_paused: bool) -> None:
        """Count a waiting task anew after it was paused or resumed."""
        if state.status == "READY":
            self._count(state, -1)
        state.is_paused = is_paused
        if state.status == "READY":
            self._count(state, 1)

    def _count(self, state: TaskState, step: int) -> int | None:
        lane = self._history.lane(state) if self.is_on else None
        if lane is None or lane.prefers or state.job.is_paused or state.is_paused:
            return None
        priority = state.job.priority
        if priority is None or state.row is None:
            return None
        self._waiting.setdefault(state.row["lane_id"], Counter())[priority] += step
        return priority
