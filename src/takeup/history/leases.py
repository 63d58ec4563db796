"""I1–I6: one holder, tokens that never repeat, and who may extend, end or take back a lease, and when."""

from datetime import timedelta

from takeup.core.model import Event
from takeup.history.states import History, TaskState

HOLDER_ENDS = frozenset({"complete", "fail", "give_up", "release"})
MICROSECOND = timedelta(microseconds=1)


def check(history: History, state: TaskState, event: Event) -> bool:
    """Whether this event breaks a rule of leases; the first broken one is noted."""
    name = event.event
    if name == "claim":
        return _claim(history, state, event)
    if name == "renew":
        return _renew(history, state, event)
    if name == "cut":
        return _cut(history, state, event)
    if name in HOLDER_ENDS:
        return _end(history, state, event)
    if name in ("expire", "bury"):
        return _recover(history, state, event)
    return False


def check_epoch(history: History, state: TaskState, event: Event) -> bool:
    """I2: epochs count the claims, and a nonce is used once."""
    if event.event != "claim":
        if event.epoch is not None and event.epoch != state.epoch:
            history.break_task(
                "I2",
                f"{event.event} moved the epoch from {state.epoch} to {event.epoch}",
                state,
                state.last,
                event,
            )
            return True
        return False
    if event.epoch != state.epoch + 1:
        history.break_task(
            "I2", f"epoch {event.epoch} follows epoch {state.epoch}", state, state.claimed, event
        )
        return True
    if event.nonce_hash is None or event.nonce_hash in history.nonces:
        history.break_task("I2", "the nonce of this claim was used before", state, state.claimed, event)
        return True
    history.nonces.add(event.nonce_hash)
    return False


def _claim(history: History, state: TaskState, event: Event) -> bool:
    if state.status == "RUNNING":
        history.break_task(
            "I1", f"claimed by {event.worker_id} while {state.owner} holds it", state, state.claimed, event
        )
        return True
    if state.row is not None and event.lease_expires_at is not None:
        started = event.lease_expires_at - timedelta(seconds=state.row["lease_s"])
        if not event.logged_at - history.settings.log_lag <= started <= event.logged_at + MICROSECOND:
            history.break_task("I5", "the lease does not last its length from the claim", state, event)
            return True
    return False


def _holds(state: TaskState, event: Event) -> str | None:
    """Why the sender of this event does not hold the task."""
    if state.status != "RUNNING":
        return f"it is {state.status}"
    if event.nonce_hash != state.nonce or event.epoch != state.epoch:
        return f"the token is not that of epoch {state.epoch}"
    if event.worker_id != state.owner:
        return f"{event.worker_id} is not its owner {state.owner}"
    return None


def _is_over(history: History, state: TaskState, event: Event) -> bool:
    return state.expires is not None and event.logged_at - history.settings.log_lag >= state.expires


def _end(history: History, state: TaskState, event: Event) -> bool:
    why = _holds(state, event)
    if why is None and _is_over(history, state, event):
        why = f"the lease was over at {state.expires}"
    if why:
        history.break_task("I3", f"{event.event} was accepted though {why}", state, state.claimed, event)
    return why is not None


def _renew(history: History, state: TaskState, event: Event) -> bool:
    why = _holds(state, event)
    if why is None and _is_over(history, state, event):
        why = f"the lease was over at {state.expires}"
    if why is None:
        why = _bad_extension(history, state, event)
    if why:
        history.break_task("I5", f"renewed though {why}", state, state.last, event)
    return why is not None


def _bad_extension(history: History, state: TaskState, event: Event) -> str | None:
    if event.lease_expires_at is None or state.expires is None:
        return "the log names no expiry"
    if event.lease_expires_at < state.expires:
        return "the lease became shorter"
    if state.row is not None and event.lease_expires_at > state.expires:
        started = event.lease_expires_at - timedelta(seconds=state.row["lease_s"])
        if not event.logged_at - history.settings.log_lag <= started <= event.logged_at + MICROSECOND:
            return "the new lease does not last its length from the renewal"
    return None


def _cut(history: History, state: TaskState, event: Event) -> bool:
    """I5, the one exception: the owner's own newer process ends the lease of the older one."""
    why = _holds(state, event)
    if why is None and (event.lease_expires_at is None or event.lease_expires_at > event.logged_at):
        why = "the lease goes on"
    if why:
        history.break_task("I5", f"cut short though {why}", state, state.last, event)
    return why is not None


def _recover(history: History, state: TaskState, event: Event) -> bool:
    why = None
    if state.status != "RUNNING":
        why = f"it is {state.status}"
    elif event.epoch != state.epoch or event.nonce_hash not in (None, state.nonce):
        why = f"another epoch than {state.epoch} ran out"
    elif state.expires is not None and event.logged_at < state.expires:
        why = f"the lease lasts until {state.expires}"
    if why:
        history.break_task("I6", f"{event.event} though {why}", state, state.last, event)
    return why is not None
