"""One schedule's world: the database, the network, the client log, and the rules its components follow."""

import zlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from takeup.core.ids import nonce_hash
from takeup.core.model import Answer as Report
from takeup.core.model import Lease
from takeup.store.ops import (
    claim,
    operate,
    orchestrate,
    outbox,
    quarantine,
    read,
    recover,
    report,
    submit,
    worker,
)
from takeup.testing.history import Call
from takeup.testing.sim.database import Database, Patch, open_session
from takeup.testing.sim.kernel import SECOND, Effect, Kernel, Process
from takeup.testing.sim.network import Answer, Hints, Network, hint_faults, message_faults
from takeup.testing.sim.plan import FAULTS_S, RPC_S, Plan

Operation = Callable[..., Any]
Handled = Generator[Effect, Any, Any]

OPERATIONS: dict[str, Operation] = {
    "register": worker.register,
    "heartbeat": worker.heartbeat,
    "leave": worker.leave,
    "drain": worker.drain,
    "set_disabled": worker.set_disabled,
    "lose": worker.lose,
    "quarantine": quarantine.quarantine,
    "claim": claim.claim,
    "renew": report.renew,
    "complete": report.complete,
    "fail": report.fail,
    "release": report.release,
    "expire": recover.expire,
    "wake": recover.wake,
    "advance": orchestrate.advance,
    "live_jobs": orchestrate.live_jobs,
    "submit": submit.submit,
    "cancel": operate.cancel,
    "set_control": operate.set_control,
    "set_task_control": operate.set_task_control,
    "set_priority": operate.set_priority,
    "take": outbox.take,
    "deliver": outbox.deliver,
    "retry": outbox.retry,
    "artifacts": read.artifacts,
}
"""The real operations, by the names under which the world calls them."""

HINTS = {
    "submit": ("worker",),
    "complete": ("orchestrator",),
    "fail": ("orchestrator",),
    "release": ("worker",),
    "cancel": ("orchestrator",),
    "set_control": ("orchestrator", "worker"),
}
"""Who is told to look after which operation."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How the components behave; a mutant replaces one of these."""

    patches: tuple[Patch, ...] = ()
    operations: Mapping[str, Operation] = field(default_factory=dict)
    is_guarded: bool = True
    hints: bool = True
    polls: bool = True
    grace_s: float = 0.0
    """How long a fresh recovery loop waits before it takes anything back."""
    claim_expires: bool = True
    publishes_early: bool = False
    removes_at_claim: bool = False
    keeps_on: bool = False
    """A worker that looks neither at its trust window nor at the answers to its renewals."""
    submits: Callable[["World", list[Any], dict[str, Any]], Handled] | None = None


class World:
    """Everything that the processes of one schedule share."""

    def __init__(self, plan: Plan, rules: Rules) -> None:
        """An empty database and nobody there yet."""
        self.plan = plan
        self.rules = rules
        self.kernel = Kernel(Random(plan.seed ^ 0x7A6E), faults_until=int(FAULTS_S * SECOND))
        self.database = Database(self.kernel, open_session(rules.patches, is_guarded=rules.is_guarded))
        self.network = Network(self.kernel, message_faults(plan.faults))
        self.hints = Hints(self.kernel, hint_faults(plan.faults), is_on=rules.hints)
        self.operations = {**OPERATIONS, **rules.operations}
        self.calls: list[Call] = []
        self.subjects: dict[str, tuple[str | None, int]] = {}
        self.clocks: dict[str, float] = {
            spec.id: drift for spec, drift in zip(plan.workers, plan.drifts, strict=True)
        }
        self.job_ids: dict[int, str] = {}
        self.job_count = 0
        self.actions_left = len(plan.actions)
        self._request = 0

    def luck(self, *what: object) -> float:
        """A number in [0, 1) that depends on the seed and on this alone, not on what happened before."""
        return zlib.crc32(repr((self.plan.seed, *what)).encode()) / 2**32

    def mono(self, host: str) -> float:
        """A host's own monotonic clock."""
        return self.kernel.now / SECOND * self.clocks.get(host, 1.0) + 100.0

    def new_request(self, process: Process) -> str:
        """The id of a new request."""
        self._request += 1
        return f"{process.name}-{self._request}"

    def log(
        self,
        process: Process,
        op: str,
        phase: Any,
        args: Mapping[str, Any],
        value: Any = None,
        request_id: str | None = None,
    ) -> None:
        """Write a line of the client log."""
        mono, wall = self.mono(process.host), self.kernel.clock.now()
        self.calls.append(Call(process.name, op, phase, mono, request_id, args, value, wall))

    def call(
        self,
        process: Process,
        op: str,
        args: tuple[Any, ...],
        options: Mapping[str, Any],
        logged: Mapping[str, Any],
        *,
        request_id: str | None = None,
        tries: int = 4,
    ) -> Generator[Effect, Any, Answer]:
        """Ask the server; while the outcome is unknown, ask again with the same request id."""
        request = request_id or self.new_request(process)
        answer = Answer("unknown")
        for attempt in range(tries):
            if attempt:
                yield int((0.05 + 0.4 * self.kernel.random.random()) * SECOND)
            self.log(process, op, "invoke", logged, request_id=request)
            answer = yield from self.network.request(
                process, op, lambda: self.handle(op, args, dict(options)), int(RPC_S * SECOND)
            )
            if answer.kind == "ok":
                self.log(process, op, "ok", logged, shown(op, answer.value), request)
                return answer
            if answer.kind == "refused":
                self.log(process, op, "fail", logged, type(answer.value).__name__, request)
                return answer
            self.log(process, op, "info", logged, request_id=request)
        return answer

    def handle(self, op: str, args: tuple[Any, ...], options: dict[str, Any]) -> Handled:
        """What the server does for one request."""
        if op == "claim":
            value = yield from self._claim(*args)
        elif op == "submit":
            self.job_count += 1
            plans = [(f"job_{self.job_count:03}", *args)]
            value = yield from (self.rules.submits or _submit)(self, plans, options)
        else:
            value = yield from self.run(op, *args, **options)
        for topic in HINTS.get(op, ()):
            self.hints.push(topic)
        return value

    def run(self, op: str, *args: Any, **options: Any) -> Handled:
        """One operation as one transaction."""
        return (yield from self.database.transact(op, self.operations[op], *args, **options))

    def _claim(self, request: claim.ClaimRequest) -> Handled:
        """As the store's facade does it: a claim that finds nothing takes back a few leases that are over."""
        leases = yield from self.run("claim", request)
        if not leases and self.rules.claim_expires and (yield from self.run("expire", 8)):
            leases = yield from self.run("claim", request)
        return leases

    def subject_of(self, job_id: str) -> tuple[str | None, int]:
        """A job's subject and generation."""
        if job_id not in self.subjects:
            (row,) = self.database.peek(f"SELECT subject, generation FROM jobs WHERE id = '{job_id}'")  # noqa: S608
            self.subjects[job_id] = row["subject"], row["generation"]
        return self.subjects[job_id]

    def write_file(
        self, process: Process, op: str, fence: tuple[int, int, str], job: str, source: str
    ) -> None:
        """A file was staged or published under this token."""
        subject, generation = self.subject_of(job)
        self.log(
            process,
            op,
            "ok",
            {
                "task": fence[0],
                "epoch": fence[1],
                "nonce_hash": fence[2],
                "job": job,
                "subject": subject,
                "generation": generation,
                "source": source,
            },
        )

    def remove_files(self, process: Process, job: str) -> None:
        """Remove what was published before this job's generation."""
        subject, generation = self.subject_of(job)
        if subject is not None and generation > 1:
            self.log(process, "remove", "ok", {"subject": subject, "generation": generation - 1, "job": job})


def _submit(world: World, plans: list[Any], options: dict[str, Any]) -> Handled:
    return (yield from world.run("submit", plans, **options))


def shown(op: str, value: Any) -> Any:
    """An answer as the client log has it."""
    if op == "claim":
        leases: list[Lease] = value
        return [(*fence_of(lease), lease.lease_s) for lease in leases]
    if op in ("renew", "complete", "fail", "release"):
        answers: list[Report] = value
        return [(answer.task_id, answer.accepted, answer.status) for answer in answers]
    if op == "heartbeat":
        return next(iter(value.values()), None)
    return value if op == "submit" else None


def fence_of(lease: Lease) -> tuple[int, int, str]:
    """The token of a lease as the logs have it."""
    return lease.task_id, lease.token.epoch, nonce_hash(lease.token.nonce)
