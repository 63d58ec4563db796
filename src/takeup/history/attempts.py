"""I9 and I10: every claim counts as an attempt, the last one ends the task, and back-off is kept."""

from datetime import timedelta

from takeup.core.model import Event
from takeup.core.policy import REFUNDS_MAX
from takeup.history.states import History, TaskState


def check_due(history: History, state: TaskState, event: Event) -> bool:
    """I10: nothing is claimed or woken before its time."""
    if event.event not in ("claim", "wake") or state.not_before is None:
        return False
    if event.logged_at >= state.not_before:
        return False
    history.break_task("I10", f"{event.event} before {state.not_before}", state, state.last, event)
    return True


def check(history: History, state: TaskState, event: Event) -> bool:
    """I9: the attempts are counted; I10: a failure is given the back-off of its policy."""
    why = _count(state, event) or _limit(history, state, event)
    if why:
        history.break_task("I9", why, state, state.claimed, event)
        return True
    if event.event == "fail" and (short := _short_delay(history, state, event)):
        history.break_task("I10", short, state, event)
        return True
    return False


def _count(state: TaskState, event: Event) -> str | None:
    """Whether the number of attempts moved as this event moves it."""
    if event.attempt is None:
        return None
    allowed = {state.attempt}
    if event.event == "claim":
        allowed = {state.attempt + 1}
    elif event.event == "release":
        allowed = {state.attempt - 1} if state.refunds < REFUNDS_MAX else {state.attempt}
    if event.attempt in allowed:
        return None
    return f"{event.event} moved the attempts from {state.attempt} to {event.attempt}"


def _limit(history: History, state: TaskState, event: Event) -> str | None:
    """Whether the task went on or ended as its limit of attempts says."""
    limit = state.max_attempts
    if limit is None:
        return None
    name, attempt = event.event, state.attempt
    if name == "claim" and attempt + 1 > limit:
        return f"claimed for the {attempt + 1}. time of {limit}"
    if name in ("fail", "expire") and attempt >= limit:
        return f"{name} in attempt {attempt} of {limit} leaves it to be tried again"
    if name == "bury" and attempt < limit:
        return f"given up in attempt {attempt} of {limit}"
    if name == "give_up" and attempt < limit and _was_retryable(history, state, event):
        return f"given up in attempt {attempt} of {limit}, though the failure was retryable"
    return None


def _was_retryable(history: History, state: TaskState, event: Event) -> bool:
    """As the client log says; without it, nobody knows."""
    call = history.requests.get(event.request_id or "")
    if call is None:
        return False
    if call.op == "release":
        return True
    place = [held[0] for held in call.args["held"]].index(state.id)
    return bool(call.args["retryable"][place])


def _short_delay(history: History, state: TaskState, event: Event) -> str | None:
    policy, call = history.policy(state), history.requests.get(event.request_id or "")
    if policy is None or call is None or event.available_at is None:
        return None
    place = [held[0] for held in call.args["held"]].index(state.id)
    asked: float | None = call.args["after_s"][place]
    least = policy.delay_s(state.attempt, 1.0) if asked is None else asked
    waits = event.available_at - event.logged_at + history.settings.log_lag
    if waits >= timedelta(seconds=least):
        return None
    return f"due again at {event.available_at}, sooner than the {least:g} s of its back-off"
