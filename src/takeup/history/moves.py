"""I7, I8, I18, I19 (in part): terminal is final, every move is in the machine table and made by its actor."""

from datetime import timedelta

from takeup.core.machine import JOB, OUTBOX, TASK, WORKER, Actor, Move
from takeup.core.model import Event
from takeup.history.records import Violation
from takeup.history.states import History, JobState, TaskState, WorkerState

TASK_MOVES = {move.name: move for move in TASK.moves}
JOB_MOVES = {move.name: move for move in JOB.moves}
MESSAGE_MOVES = {move.name: move for move in OUTBOX.moves}
WORKER_MOVES = {move.name: move for move in WORKER.moves}
WORKER_SWITCHES = {"enable": Actor.OPERATOR, "disable": Actor.OPERATOR, "quarantine": Actor.RECOVERY}
"""What happens to a worker without a change of its status, and who may do it."""
TASK_CONTROLS = frozenset({"pause", "resume"})
JOB_CONTROLS = frozenset({"pause", "resume", "skip", "set_priority"})
DECIDED = frozenset({"cancel", "complete"})
DONE = ("DONE", "SKIPPED")


def check_final(history: History, state: TaskState, event: Event) -> bool:
    """I4, I7, I18: nothing happens to a finished task."""
    if state.status not in TASK.final or state.last is None:
        return False
    if event.event == "complete" and state.last.event == "complete":
        history.break_task("I4", "completed twice", state, state.last, event)
    elif {event.event, state.last.event} == DECIDED:
        history.break_task("I18", f"{event.event} after {state.last.event}", state, state.last, event)
    else:
        history.break_task("I7", f"{event.event} after it was {state.status}", state, state.last, event)
    return True


def check_task(history: History, state: TaskState, event: Event) -> bool:
    """I8: a legal move, by its actor, under its guard; I19: from the state that the log gives."""
    if event.event in TASK_CONTROLS:
        why = None if event.actor == Actor.OPERATOR else f"{event.event} is not for the {event.actor}"
    elif illegal := _illegal(TASK_MOVES.get(event.event), state.status, event):
        why = illegal
    elif event.event == "ready":
        why = _waits_for(history, state)
    elif event.event == "claim" and _is_paused(history, state, event):
        why = "claimed while it was paused"
    elif event.event == "abandon" and not (state.job.counts["FAILED"] or state.job.counts["CANCELLED"]):
        why = "abandoned in a job in which nothing failed"
    else:
        why = None
    if why:
        history.break_task("I8", why, state, state.last, event)
    elif event.from_status != state.status:
        why = f"the log says from {event.from_status}, but it was {state.status}"
        history.break_task("I19", why, state, state.last, event)
    return why is not None


def check_birth(history: History, state: TaskState, event: Event) -> None:
    """I8: a task is born READY only if nothing comes before it; I19: by a log row of its own."""
    if event.event != "create":
        history.break_task("I19", f"the log begins with {event.event}", state, event)
    elif event.to_status == "READY" and (why := _waits_for(history, state)):
        history.break_task("I8", why, state, event)
    elif event.to_status not in TASK.initial:
        history.break_task("I8", f"born {event.to_status}", state, event)


def _is_paused(history: History, state: TaskState, event: Event) -> bool:
    """Whether it was held back, and for long enough that no claim can have begun before that."""
    for held in (state, state.job):
        if held.is_paused and held.paused_at is not None:
            settled_s = 0.0 if history.settings.is_serial else history.settings.race_s
            if event.logged_at - held.paused_at >= timedelta(seconds=settled_s):
                return True
    return False


def _waits_for(history: History, state: TaskState) -> str | None:
    """The prerequisite that a task which was made ready still waits for."""
    if state.row is None:
        return None
    job, stage, segment = state.job.id, state.row["stage"], state.row["segment"]
    for need in history.needs.get((job, stage), ()):
        if need["per_segment"]:
            other = history.by_segment.get((job, need["needs"], segment))
            is_open = other is None or other.status not in DONE
        else:
            is_open = history.open_counts[job, need["needs"]] > 0
        if is_open:
            return f"made ready while its prerequisite {need['needs']} is not done"
    return None


def check_job(history: History, state: JobState, event: Event) -> bool:
    """I7, I8, I18 and I19 for jobs."""
    if state.status in JOB.final and state.last is not None:
        both = {event.event, state.last.event}
        rule = "I18" if both == DECIDED else "I7"
        history.break_job(rule, f"{event.event} after it was {state.status}", state, state.last, event)
        return True
    if event.event in JOB_CONTROLS:
        return False
    why = _illegal(JOB_MOVES.get(event.event), state.status, event)
    if why is None and event.to_status in JOB.final:
        why = _bad_rollup(state, event.event)
    if why:
        history.break_job("I8", why, state, state.last, event)
    elif event.from_status != state.status:
        why = f"the log says from {event.from_status}, but it was {state.status}"
        history.break_job("I19", why, state, state.last, event)
    return why is not None


def _illegal(move: Move | None, status: str, event: Event) -> str | None:
    """Why the table does not allow this move from this state, if it does not."""
    if move is None:
        return f"there is no move {event.event}"
    if status not in move.sources or event.to_status != move.target:
        return f"{event.event} does not lead from {status} to {event.to_status}"
    return None if event.actor == move.actor else f"{event.event} is not for the {event.actor}"


def _bad_rollup(state: JobState, event: str) -> str | None:
    counts = state.counts
    if any(counts[status] for status in TASK.live):
        return f"{event} while tasks are live"
    expected = "fail" if counts["FAILED"] else "cancel" if counts["CANCELLED"] else "complete"
    return None if event == expected else f"{event}, but its tasks say {expected}"


def check_worker(history: History, state: WorkerState, event: Event) -> bool:
    """I8 for workers; whether it may be lost is I17."""
    if event.event in WORKER_SWITCHES:
        why = _bad_switch(state, event)
        if why:
            history.break_worker("I8", why, state, state.last, event)
        return why is not None
    if event.event == "enrol":
        is_birth = (state.status, event.to_status, event.actor) == (None, "offline", Actor.OPERATOR)
        if not is_birth:
            history.break_worker("I8", "enrolled, though it was known", state, state.last, event)
        return not is_birth
    move = WORKER_MOVES.get(event.event)
    is_legal = move is not None and event.to_status == move.target
    if move is not None and state.status is not None:
        is_legal = is_legal and state.status in move.sources
    if not is_legal:
        history.break_worker(
            "I8", f"{event.event} of a worker that was {state.status}", state, state.last, event
        )
    return not is_legal


def _bad_switch(state: WorkerState, event: Event) -> str | None:
    if event.actor != WORKER_SWITCHES[event.event]:
        return f"{event.event} is not for the {event.actor}"
    if event.event != "quarantine":
        return None
    if state.is_quarantined or state.is_disabled:
        return "quarantined, though it was switched off anyway"
    if event.to_status != state.status:
        return f"quarantined as {event.to_status}, though it was {state.status}"
    return None


def check_message(history: History, event: Event) -> None:
    """I12: a message is sent or parked, and then it is done with."""
    message_id = event.message_id or 0
    status = history.messages.get(message_id, OUTBOX.initial[0])
    move = MESSAGE_MOVES.get(event.event)
    if move is None or status not in move.sources or event.to_status != move.target:
        message = f"{event.event} of message {message_id}, which was {status}"
        history.violations.append(Violation("I12", message, events=(event,)))
    history.messages[message_id] = event.to_status or ""
