"""I16 and I17: the right worker claims, and being offline is only a display."""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta

from takeup.core.model import Event
from takeup.history.records import Call
from takeup.history.states import History, TaskState, WorkerState


def check_claim(history: History, state: TaskState, event: Event) -> bool:
    """I16: the worker could do it, was switched on and had a free slot."""
    if event.event != "claim" or event.worker_id is None:
        return False
    worker = history.worker(event.worker_id)
    why = _cannot(history, state, worker, event)
    if why:
        history.break_task("I16", f"{event.worker_id} {why}", state, worker.last, event)
    return why is not None


def _cannot(history: History, state: TaskState, worker: WorkerState, event: Event) -> str | None:
    ability = history.abilities.get(worker.id)
    if ability is not None:
        lane = history.lane(state)
        if lane is not None and not lane.fits(ability.capabilities, ability.stages):
            return f"cannot do {lane.name}"
        if worker.load >= ability.slots:
            return f"holds {worker.load} leases and has {ability.slots} slots"
    flags = {"disabled": worker.is_disabled, "quarantined": worker.is_quarantined}
    off = [name for name, is_set in flags.items() if is_set]
    if worker.status in ("draining", "offline"):
        off.append(worker.status)
    return f"is {off[0]}" if off and _is_settled(history, worker, event) else None


def _is_settled(history: History, worker: WorkerState, event: Event) -> bool:
    """Whether no transaction that began before the worker's change can have made this claim."""
    if history.settings.is_serial or worker.since is None:
        return True
    return event.logged_at - worker.since > timedelta(seconds=history.settings.race_s)


class Heartbeats:
    """I17: a worker is lost only when its last sign of life is older than the threshold."""

    def __init__(self, calls: Sequence[Call]) -> None:
        """Pair the invocations and answers of all heartbeats and registrations in the client log."""
        started: dict[tuple[str, str | None], Call] = {}
        self._beats: dict[str, list[tuple[datetime, datetime]]] = {}
        for call in calls:
            if call.op not in ("heartbeat", "register") or call.wall is None:
                continue
            key = (call.process, call.request_id)
            if call.phase == "invoke":
                started[key] = call
            elif call.phase == "ok" and key in started and call.value != "disabled":
                first = started[key]
                if first.wall is not None:
                    beats = self._beats.setdefault(str(first.args["worker"]), [])
                    beats.append((call.wall, first.wall))
        for beats in self._beats.values():
            beats.sort()

    def check(self, history: History, worker: WorkerState, event: Event) -> bool:
        """Whether this `lose` came though the worker was alive."""
        if event.event != "lose":
            return False
        settings = history.settings
        limit = event.logged_at - timedelta(seconds=settings.offline_s)
        alive = worker.seen if worker.seen is not None and worker.seen - settings.log_lag > limit else None
        beats = self._beats.get(worker.id, [])
        for _, begun in beats[: bisect_left(beats, (event.logged_at - settings.log_lag,))]:
            if begun > limit:
                alive = begun
        if alive is not None:
            history.break_worker(
                "I17", f"called offline, though it was alive at {alive}", worker, worker.last, event
            )
        return alive is not None
