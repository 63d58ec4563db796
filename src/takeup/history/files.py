"""I11, I20 and I26: only the winner's files are published, the old ones stay until then, a zombie stops."""

from collections.abc import Sequence

from takeup.core.model import Event
from takeup.core.policy import trusted_until
from takeup.history.records import Call, Fence, Violation
from takeup.history.states import History


class Winners:
    """The tokens of accepted completions, for judging what was published."""

    def __init__(self, history: History) -> None:
        """Start before the first event."""
        self._history = history
        self._tokens: set[Fence] = set()

    def see(self, event: Event) -> None:
        """Remember an accepted completion."""
        if event.event != "complete" or event.task_id is None:
            return
        if event.epoch is not None and event.nonce_hash is not None:
            self._tokens.add((event.task_id, event.epoch, event.nonce_hash))

    def finish(self) -> None:
        """Judge the files of the client log."""
        _check_publishing(self._history, self._tokens)
        _check_removal(self._history)
        _check_trust(self._history)


def fence_of(call: Call) -> Fence:
    """The token under which a file was written."""
    return call.args["task"], call.args["epoch"], call.args["nonce_hash"]


def _break(history: History, rule: str, message: str, call: Call) -> None:
    history.violations.append(
        Violation(rule, message, call.args.get("task"), call.args.get("job"), calls=(call,))
    )


def _check_publishing(history: History, winners: set[Fence]) -> None:
    """I11: what is published belongs to an accepted completion, which its publisher knew of."""
    told: set[tuple[str, Fence]] = set()
    for call in history.calls:
        if call.op == "complete" and call.phase == "ok":
            for held, (_, accepted, _) in zip(call.args["held"], call.value, strict=True):
                if accepted:
                    told.add((call.process, (held[0], held[1], held[2])))
        elif call.op == "publish":
            fence = fence_of(call)
            if fence not in winners:
                _break(history, "I11", f"{call.process} published what was never accepted", call)
            elif call.args["source"] == "answer" and (call.process, fence) not in told:
                _break(history, "I11", f"{call.process} published before its completion was accepted", call)


def _check_removal(history: History) -> None:
    """I20: a published generation is removed only after a newer one was published."""
    newest: dict[str, int] = {}
    for call in history.calls:
        subject = call.args.get("subject") if call.op in ("publish", "remove") else None
        if subject is None:
            continue
        generation = int(call.args["generation"])
        if call.op == "publish":
            newest[subject] = max(newest.get(subject, 0), generation)
        elif newest.get(subject) == generation:
            _break(
                history, "I20", f"generation {generation} of {subject} was removed while it is served", call
            )


def _check_trust(history: History) -> None:
    """I26: past its trust window, or told that the lease is lost, a worker writes nothing more."""
    settings = history.settings
    trusts: dict[tuple[str, Fence], float] = {}
    lengths: dict[Fence, float] = {}
    invoked: dict[tuple[str, str | None], float] = {}
    for call in history.calls:
        place = (call.process, call.request_id)
        if call.op in ("claim", "renew") and call.phase == "invoke":
            invoked.setdefault(place, call.mono)  # a repeated request may be answered from its first try
        elif call.op == "claim" and call.phase == "ok":
            for task, epoch, nonce, lease_s in call.value:
                lengths[task, epoch, nonce] = lease_s
                until = trusted_until(invoked[place], lease_s, settings.margin_s)
                trusts[call.process, (task, epoch, nonce)] = until
        elif call.op == "renew" and call.phase == "ok":
            _renewed(call, invoked[place], trusts, lengths, settings.margin_s)
        elif call.op == "stage":
            limit = trusts.get((call.process, fence_of(call)))
            if limit is None or call.mono > limit + settings.stop_s:
                _break(history, "I26", f"{call.process} wrote for a lease that it could not trust", call)


def _renewed(
    call: Call,
    begun: float,
    trusts: dict[tuple[str, Fence], float],
    lengths: dict[Fence, float],
    margin_s: float,
) -> None:
    held: Sequence[Fence] = call.args["held"]
    for fence, (_, accepted, _) in zip(held, call.value, strict=True):
        key = (call.process, (fence[0], fence[1], fence[2]))
        if key not in trusts:
            continue
        until = trusted_until(begun, lengths[key[1]], margin_s)
        trusts[key] = max(trusts[key], until) if accepted else min(trusts[key], call.mono)
