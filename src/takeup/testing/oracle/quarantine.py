"""The oracle's error budget: from its own log, event by event, which workers fail what others finish."""

from dataclasses import replace

from takeup.core.budget import ErrorBudget, Judged
from takeup.core.errors import InvalidInput
from takeup.core.machine import Actor
from takeup.core.model import Event, Worker
from takeup.core.plan import LanePlan
from takeup.testing.oracle.state import State


def is_able(worker: Worker) -> bool:
    """Whether a worker may take something new."""
    return worker.status == "active" and not worker.disabled and worker.quarantined_at is None


def judge(state: State, budget: ErrorBudget) -> Judged:
    """Quarantine the worst first, as long as no lane loses more than half of its workers."""
    if budget.tasks < 1:
        raise InvalidInput("an error budget must be 1 at least")
    blamed = {worker.id: _blamed(state, worker, budget.window_s) for worker in state.workers.values()}
    quarantined, spared = [], []
    for worker_id in sorted(blamed, key=lambda name: (-_count(blamed[name]), name)):
        failures = blamed[worker_id]
        count = _count(failures)
        lanes = {_lane(state, event) for event in failures}
        finished = _finished(state, worker_id, lanes, min((e.seq for e in failures), default=0))
        if count < budget.tasks or finished >= count:
            continue
        if not _may_go(state, state.workers[worker_id], lanes):
            spared.append(worker_id)
            continue
        reason = (
            f"it failed {count} tasks within {budget.window_s:g} s that other workers finished, "
            f"and finished {finished} like them"
        )
        worker = replace(state.workers[worker_id], quarantined_at=state.now(), quarantine_reason=reason)
        state.workers[worker_id] = worker
        quarantined.append(worker_id)
        state.log_worker(worker_id, "quarantine", Actor.RECOVERY, worker.status, reason)
    return Judged(tuple(quarantined), tuple(spared))


def _blamed(state: State, worker: Worker, window_s: float) -> list[Event]:
    """Its failures that count, whether it is still there or not."""
    if worker.disabled or worker.quarantined_at is not None:
        return []
    since = state.ago(window_s)
    if worker.trusted_at is not None:
        since = max(since, worker.trusted_at)
    return [
        event
        for event in state.events
        if (event.noun, event.event, event.worker_id) == ("task", "fail", worker.id)
        if event.logged_at > since and _others(state, event) == {"complete"}
        if event.excuse is None
    ]


def _others(state: State, failure: Event) -> set[str]:
    """What other workers did with the same task: failed it, finished it."""
    return {
        event.event
        for event in state.events
        if event.task_id == failure.task_id and event.worker_id != failure.worker_id
        if event.event in ("fail", "complete")
    }


def _count(failures: list[Event]) -> int:
    return len({event.task_id for event in failures})


def _lane(state: State, event: Event) -> LanePlan:
    return state.tasks[event.task_id or 0].plan.lane


def _finished(state: State, worker_id: str, lanes: set[LanePlan], first_seq: int) -> int:
    return sum(
        _lane(state, event) in lanes
        for event in state.events
        if event.seq > first_seq
        and (event.noun, event.event, event.worker_id) == ("task", "complete", worker_id)
    )


def _may_go(state: State, worker: Worker, blamed: set[LanePlan]) -> bool:
    there = [one for one in state.workers.values() if one.status == "active" or one.id == worker.id]
    online = [one for one in there if not one.disabled]
    for lane in {row.plan.lane for row in state.tasks.values()}:
        if not lane.fits(worker.capabilities, worker.stages):
            continue
        ready = [row.task for row in state.tasks.values() if row.plan.lane == lane]
        is_waiting = any(t.status == t.control == t.job_control == "READY" for t in ready)
        serving = [one for one in online if lane.fits(one.capabilities, one.stages)]
        kept_away = sum(one.quarantined_at is not None for one in serving)
        if (is_waiting or lane in blamed) and 2 * (kept_away + 1) > len(serving):
            return False
    return True
