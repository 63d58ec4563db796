"""I13–I15: what was acknowledged is in the log, and a repeated call gives the same answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from takeup.core.model import Event
from takeup.history.records import FINISHES, Call, Fence, Violation
from takeup.history.states import History

ENDS = frozenset(event for events in FINISHES.values() for event in events)


@dataclass(slots=True)
class _Lease:
    fence: Fence
    claimed: datetime
    ended: datetime | None = None


class Acknowledged:
    """I13: every answer has its server row, every server row of a request its invocation."""

    def __init__(self, history: History) -> None:
        """Start before the first event."""
        self._history = history
        self._claims: set[Fence] = set()
        self._ends: dict[tuple[str, Fence], datetime] = {}
        self._leases: dict[str, list[_Lease]] = {}
        """The leases that each claim request was given."""
        self._held: dict[int, _Lease] = {}
        self._renewals: set[tuple[str | None, int]] = set()
        self._created: dict[str, str | None] = {}

    def see(self, event: Event) -> None:
        """Remember an accepted change; report one that nobody asked for."""
        if event.request_id is not None and event.request_id not in self._history.requests:
            violation = Violation(
                "I13", f"nobody asked for this {event.event}", event.task_id, event.job_id, events=(event,)
            )
            self._history.violations.append(violation)
        if event.noun == "job":
            if event.event == "create" and event.job_id is not None:
                self._created[event.job_id] = event.request_id
            return
        self._see_end(event)
        if event.task_id is None or event.epoch is None or event.nonce_hash is None:
            return
        fence = (event.task_id, event.epoch, event.nonce_hash)
        if event.event == "claim":
            self._claims.add(fence)
            self._held[event.task_id] = lease = _Lease(fence, event.logged_at)
            self._leases.setdefault(event.request_id or "", []).append(lease)
        elif event.event == "renew":
            self._renewals.add((event.request_id, event.task_id))
        elif event.event in ENDS:
            self._ends.setdefault((event.event, fence), event.logged_at)

    def _see_end(self, event: Event) -> None:
        if event.to_status != "RUNNING" and event.task_id in self._held:
            self._held.pop(event.task_id).ended = event.logged_at

    def finish(self) -> None:
        """Look for what was acknowledged but never happened, then check creation and repetition."""
        begun: dict[tuple[str, str | None], datetime | None] = {}
        for call in self._history.calls:
            place = (call.process, call.request_id)
            if call.phase == "invoke":
                begun[place] = call.wall
            elif call.phase == "ok":
                self._check_repeated(call, begun.get(place))
                for task_id, job_id, what in self._missing(call):
                    violation = Violation(
                        "I13", f"{what} was acknowledged but is not in the log", task_id, job_id
                    )
                    self._history.violations.append(violation)
        _check_keys(self._history)
        _check_requests(self._history, self._created)
        _check_repetition(self._history)

    def _check_repeated(self, call: Call, begun: datetime | None) -> None:
        """I15: what was done before a try began is what this try is told."""
        if begun is None or call.wall is None:
            return
        if call.op == "claim":
            given = {tuple(lease[:3]) for lease in call.value}
            for lease in self._leases.get(call.request_id or "", ()):
                is_held = lease.claimed < begun and (lease.ended is None or lease.ended > call.wall)
                if is_held and lease.fence not in given:
                    message = "a repeated claim was not given the lease that it holds"
                    self._history.violations.append(Violation("I15", message, lease.fence[0], calls=(call,)))
        elif call.op in FINISHES:
            for fence, (task_id, accepted, _) in zip(call.args["held"], call.value, strict=True):
                ends = [self._ends.get((event, tuple(fence))) for event in FINISHES[call.op]]
                if not accepted and any(end is not None and end < begun for end in ends):
                    message = f"a repeated {call.op} was refused to the one who had made it"
                    self._history.violations.append(Violation("I15", message, task_id, calls=(call,)))

    def _missing(self, call: Call) -> list[tuple[int | None, str | None, str]]:
        if call.op == "submit":
            return [(None, job, "a job") for job in call.value if job not in self._created]
        if call.op == "claim":
            return [
                (lease[0], None, "a lease") for lease in call.value if tuple(lease[:3]) not in self._claims
            ]
        if call.op == "renew":
            return [
                (task, None, "a renewal")
                for task, accepted, _ in call.value
                if accepted and (call.request_id, task) not in self._renewals
            ]
        if call.op in FINISHES:
            return [
                (fence[0], None, f"a {call.op}")
                for fence, (_, accepted, _) in zip(call.args["held"], call.value, strict=True)
                if accepted and not any((event, tuple(fence)) in self._ends for event in FINISHES[call.op])
            ]
        return []


def _check_keys(history: History) -> None:
    """I14: one job a key, the same for everybody who asked with the same body."""
    by_key: dict[tuple[str, str], tuple[str, str]] = {}
    for call in history.calls:
        if call.op != "submit" or call.phase != "ok":
            continue
        for job_id, asked in zip(call.value, call.args["jobs"], strict=True):
            if asked["key"] is None:
                continue
            key = (asked["user"], asked["key"])
            first = by_key.setdefault(key, (job_id, asked["spec_hash"]))
            if first != (job_id, asked["spec_hash"]):
                what = "another job" if first[0] != job_id else "another body"
                _break(
                    history,
                    f"key {key} was answered with {first[0]} and then accepted for {what}",
                    job_id,
                    call,
                )


def _check_requests(history: History, created: dict[str, str | None]) -> None:
    """I14: a request with a key creates its jobs once, however often it is sent."""
    counts: dict[str, list[str]] = {}
    for job_id, request_id in created.items():
        if request_id is not None:
            counts.setdefault(request_id, []).append(job_id)
    for request_id, jobs in counts.items():
        invoked = history.requests.get(request_id)
        if invoked is None or any(asked["key"] is None for asked in invoked.args["jobs"]):
            continue  # only a key makes a repeated creation safe
        if len(jobs) > len(invoked.args["jobs"]):
            _break(history, f"one request created {len(jobs)} jobs: {', '.join(jobs)}", jobs[-1], invoked)


def _break(history: History, message: str, job_id: str, call: Call) -> None:
    history.violations.append(Violation("I14", message, job_id=job_id, calls=(call,)))


def _check_repetition(history: History) -> None:
    """I15: once a finish was acknowledged, the same finish is acknowledged the same way ever after."""
    known: dict[tuple[str, Fence], str] = {}
    before: dict[tuple[str, str | None], dict[tuple[str, Fence], str]] = {}
    for call in history.calls:
        if call.op not in FINISHES:
            continue
        place = (call.process, call.request_id)
        keys = [(call.op, (held[0], held[1], held[2])) for held in call.args["held"]]
        if call.phase == "invoke":
            before[place] = {key: known[key] for key in keys if key in known}
        elif call.phase == "ok":
            _compare(history, call, keys, before.get(place, {}))
            for key, (_, accepted, status) in zip(keys, call.value, strict=True):
                if accepted:
                    known.setdefault(key, status)


def _compare(
    history: History,
    call: Call,
    keys: Sequence[tuple[str, Fence]],
    settled: dict[tuple[str, Fence], str],
) -> None:
    answers: Sequence[Any] = call.value
    for key, (task_id, accepted, status) in zip(keys, answers, strict=True):
        if not accepted and call.wall is not None:
            continue  # judged by the log already
        if key in settled and (not accepted or status != settled[key]):
            message = f"{call.op} was accepted as {settled[key]}, repeated it got {accepted}, {status}"
            history.violations.append(Violation("I15", message, task_id, calls=(call,)))
