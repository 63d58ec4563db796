"""Every legal move of a task, a job, a worker and an outbox message, as data.

This is the only place that knows transitions. The guards of the store's statements, the triggers of the
databases, the role facades, the diagram in the docs and the tests are made from these tables or checked
against them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Actor(StrEnum):
    """Who makes a move; each has a facade with exactly its moves."""

    ORCHESTRATOR = "orchestrator"
    WORKER = "worker"
    HOLDER = "holder"
    RECOVERY = "recovery"
    OPERATOR = "operator"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class Move:
    """One legal change of state: a verb, where it starts and ends, who may do it and under which guard."""

    name: str
    sources: tuple[str, ...]
    target: str
    actor: Actor
    guard: str
    fenced: bool = False
    sets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """The states and moves of one kind of row."""

    noun: str
    initial: tuple[str, ...]
    live: tuple[str, ...]
    final: tuple[str, ...]
    moves: tuple[Move, ...]

    @property
    def states(self) -> tuple[str, ...]:
        """Every state, the live ones first."""
        return self.live + self.final

    def move(self, name: str) -> Move:
        """The move with this name."""
        return next(move for move in self.moves if move.name == name)

    def pairs(self) -> frozenset[tuple[str, str]]:
        """Every legal (from, to), moves that stay in their state included."""
        return frozenset((source, move.target) for move in self.moves for source in move.sources)

    def illegal_pairs(self) -> Iterator[tuple[str, str]]:
        """Every (from, to) of two different states that no move makes."""
        legal = self.pairs()
        for source in self.states:
            for target in self.states:
                if source != target and (source, target) not in legal:
                    yield source, target

    def moves_of(self, actor: Actor) -> tuple[Move, ...]:
        """The moves this actor may make."""
        return tuple(move for move in self.moves if move.actor is actor)


LEASE = ("lease_owner", "lease_slot", "nonce_hash", "lease_expires_at", "claimed_at", "claim_request")
"""The columns that are set exactly while a task is RUNNING."""

WAITING = ("NEW", "READY", "ERROR")
LIVE = ("NEW", "READY", "RUNNING", "ERROR")

TASK = Machine(
    noun="task",
    initial=("NEW", "READY"),
    live=LIVE,
    final=("DONE", "FAILED", "CANCELLED", "SKIPPED"),
    moves=(
        Move("ready", ("NEW",), "READY", Actor.ORCHESTRATOR, "every prerequisite is DONE or SKIPPED"),
        Move(
            "abandon",
            WAITING,
            "CANCELLED",
            Actor.ORCHESTRATOR,
            "a task of the same job is FAILED or CANCELLED",
            sets=("finished_at",),
        ),
        Move(
            "claim",
            ("READY",),
            "RUNNING",
            Actor.WORKER,
            "due, job and task control READY, capabilities fit, slot free, attempts left",
            sets=("attempt", "epoch", *LEASE),
        ),
        Move(
            "renew",
            ("RUNNING",),
            "RUNNING",
            Actor.HOLDER,
            "token matches, lease not over, progress within the no-progress limit",
            fenced=True,
            sets=("lease_expires_at",),
        ),
        Move(
            "complete",
            ("RUNNING",),
            "DONE",
            Actor.HOLDER,
            "token matches, lease not over",
            fenced=True,
            sets=("result", "finished_at", *LEASE),
        ),
        Move(
            "fail",
            ("RUNNING",),
            "ERROR",
            Actor.HOLDER,
            "token matches, lease not over, retryable, attempts left",
            fenced=True,
            sets=("error", "available_at", *LEASE),
        ),
        Move(
            "give_up",
            ("RUNNING",),
            "FAILED",
            Actor.HOLDER,
            "token matches, lease not over, not retryable or attempts spent",
            fenced=True,
            sets=("error", "finished_at", *LEASE),
        ),
        Move(
            "release",
            ("RUNNING",),
            "READY",
            Actor.HOLDER,
            "token matches, lease not over; the attempt is given back a few times",
            fenced=True,
            sets=("attempt", "refunds", *LEASE),
        ),
        Move(
            "cut",
            ("RUNNING",),
            "RUNNING",
            Actor.WORKER,
            "a newer process registered under the id of the owner, so the lease is over now",
            sets=("lease_expires_at",),
        ),
        Move(
            "expire",
            ("RUNNING",),
            "READY",
            Actor.RECOVERY,
            "lease over, attempts left",
            sets=("error", *LEASE),
        ),
        Move(
            "bury",
            ("RUNNING",),
            "FAILED",
            Actor.RECOVERY,
            "lease over, attempts spent",
            sets=("error", "finished_at", *LEASE),
        ),
        Move("wake", ("ERROR",), "READY", Actor.RECOVERY, "available_at has come"),
        Move(
            "revoke",
            ("RUNNING",),
            "READY",
            Actor.OPERATOR,
            "a running task is about to be skipped; the token is void at once",
            sets=LEASE,
        ),
        Move("skip", WAITING, "SKIPPED", Actor.OPERATOR, "control is SKIP", sets=("finished_at",)),
        Move(
            "cancel",
            LIVE,
            "CANCELLED",
            Actor.OPERATOR,
            "asked for; the token is void at once",
            sets=("finished_at", *LEASE),
        ),
    ),
)

PHASES = ("pending", "validating", "planning", "downloading_inputs", "processing", "uploading_outputs")
"""A job's live states, in the only direction it may go through them."""

JOB = Machine(
    noun="job",
    initial=("pending",),
    live=PHASES,
    final=("completed", "failed", "cancelled"),
    moves=(
        *(
            Move(f"enter_{phase}", PHASES[:rank], phase, Actor.STORE, f"a task of phase {phase} is claimed")
            for rank, phase in enumerate(PHASES)
            if rank
        ),
        Move(
            "complete",
            PHASES,
            "completed",
            Actor.STORE,
            "every task is DONE or SKIPPED and every stage is expanded",
            sets=("finished_at", "live_subject"),
        ),
        Move(
            "fail",
            PHASES,
            "failed",
            Actor.STORE,
            "no task is live and one is FAILED",
            sets=("error", "finished_at", "live_subject"),
        ),
        Move(
            "cancel",
            PHASES,
            "cancelled",
            Actor.STORE,
            "no task is live, none is FAILED and one is CANCELLED",
            sets=("finished_at", "live_subject"),
        ),
    ),
)

WORKER = Machine(
    noun="worker",
    initial=("active", "offline"),
    live=("active", "draining", "offline"),
    final=(),
    moves=(
        Move("register", ("active", "draining", "offline"), "active", Actor.WORKER, "not disabled"),
        Move("revive", ("offline",), "active", Actor.WORKER, "a heartbeat came, not disabled"),
        Move("drain", ("active",), "draining", Actor.OPERATOR, "asked for by an operator or by the worker"),
        Move("leave", ("active", "draining"), "offline", Actor.WORKER, "the worker shut down"),
        Move(
            "lose",
            ("active", "draining"),
            "offline",
            Actor.RECOVERY,
            "last heartbeat older than the threshold, in the same statement",
        ),
    ),
)

OUTBOX = Machine(
    noun="message",
    initial=("WAITING",),
    live=("WAITING", "SENDING"),
    final=("SENT", "PARKED"),
    moves=(
        Move("take", ("WAITING",), "SENDING", Actor.STORE, "due", sets=("attempt", "lease_expires_at")),
        Move("deliver", ("SENDING",), "SENT", Actor.STORE, "delivered", sets=("finished_at",)),
        Move("retry", ("SENDING",), "WAITING", Actor.STORE, "refused or timed out, attempts left"),
        Move("free", ("SENDING",), "WAITING", Actor.STORE, "its sender's lease is over"),
        Move("park", ("SENDING",), "PARKED", Actor.STORE, "attempts spent", sets=("error", "finished_at")),
    ),
)

MACHINES = (TASK, JOB, WORKER, OUTBOX)

VIDEO_STATUS = {
    "pending": "pending",
    "validating": "processing",
    "planning": "processing",
    "downloading_inputs": "processing",
    "processing": "processing",
    "uploading_outputs": "processing",
    "completed": "ready",
    "failed": "failed",
    "cancelled": "failed",
}
"""A video's status as its newest job gives it."""

CONTROL_STATUS = {
    "NEW": "READY",
    "READY": "READY",
    "RUNNING": "IN_PROGRESS",
    "ERROR": "ERROR",
    "DONE": "COMPLETED",
    "FAILED": "ERROR",
    "CANCELLED": "ERROR",
    "SKIPPED": "COMPLETED",
}
"""The words of the control table (`status`) for each task state."""
