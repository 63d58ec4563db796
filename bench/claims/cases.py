"""What is measured: which system, on what table, in what batches, by how many client processes."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Literal, get_args

System = Literal[
    "takeup-postgres", "raw-postgres", "takeup-sqlite", "takeup-duckdb", "procrastinate", "pgqueuer"
]
State = Literal["empty", "waiting", "finished"]

SYSTEMS: tuple[System, ...] = get_args(System)
STATES: tuple[State, ...] = get_args(State)
PEERS: tuple[System, ...] = ("procrastinate", "pgqueuer")
PROCRASTINATE_CONCURRENCY = 20


@dataclass(frozen=True, slots=True)
class Case:
    """One cell of the table of rates."""

    system: System
    state: State
    batch: int
    clients: int

    @property
    def key(self) -> str:
        return f"{self.system}/{self.state}/{self.batch}/{self.clients}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is done."""

    rounds: int
    fill: int
    """Rows of the full tables."""
    counts: Mapping[System, tuple[int, int]]
    """Tasks a turn: one by one, and in batches."""
    turns: int = 5
    """Turns a round."""
    batch: int = 100
    big_batch: int = 500
    """Where PgQueuer is at its best; measured on the empty table only."""
    warm_cycles: int = 6
    """Claims before the clock starts: PostgreSQL plans a session's first five executions each anew."""

    def quota(self, case: Case) -> int:
        """How many tasks each client does in a turn: a multiple of the batch."""
        single, batched = self.counts[case.system]
        count = (single if case.batch == 1 or not batched else batched) // case.clients
        return count if case.system in PEERS else max(case.batch, count // case.batch * case.batch)

    def warm_up(self, case: Case) -> int:
        """Tasks that each client does before; the peers run their own workers, which have no such phase."""
        return 0 if case.system in PEERS else self.warm_cycles * case.batch


def _counts(
    postgres: tuple[int, int], sqlite: tuple[int, int], duckdb: tuple[int, int], procrastinate: int
) -> dict[System, tuple[int, int]]:
    return {
        "takeup-postgres": postgres,
        "raw-postgres": postgres,
        "pgqueuer": postgres,
        "takeup-sqlite": sqlite,
        "takeup-duckdb": duckdb,
        "procrastinate": (procrastinate, 0),
    }


FULL = Sizes(rounds=5, fill=1_000_000, counts=_counts((200, 2_500), (200, 1_500), (8, 200), 80))
QUICK = Sizes(rounds=1, fill=5_000, counts=_counts((60, 1_000), (60, 500), (2, 100), 40), turns=4)
TINY = Sizes(
    rounds=1,
    fill=20,
    counts=_counts((2, 20), (2, 20), (1, 10), 2),
    turns=2,
    batch=10,
    big_batch=20,
    warm_cycles=1,
)


def groups(sizes: Sizes, systems: Container[str], states: Container[str]) -> list[list[Case]]:
    """The cases that are compared with each other, so that each round measures them one after the other."""
    every = [cases(clients) for cases in (_single_cases, partial(_batch_cases, sizes)) for clients in (1, 2)]
    return [[case for case in cases if case.system in systems and case.state in states] for cases in every]


def _single_cases(clients: int) -> list[Case]:
    empty, *full = _state_cases(1, clients)
    return [*empty, Case("procrastinate", "empty", PROCRASTINATE_CONCURRENCY, clients), *chain(*full)]


def _batch_cases(sizes: Sizes, clients: int) -> list[Case]:
    empty, *full = _state_cases(sizes.batch, clients)
    big: tuple[System, ...] = ("takeup-postgres", "raw-postgres", "pgqueuer")
    peers = [
        Case("pgqueuer", "empty", sizes.batch, clients),
        *(Case(system, "empty", sizes.big_batch, clients) for system in big),
    ]
    return [*empty, *peers, *chain(*full)]


def _state_cases(batch: int, clients: int) -> list[list[Case]]:
    systems: list[System] = ["takeup-postgres", "raw-postgres", "takeup-sqlite"]
    if clients == 1:
        systems.append("takeup-duckdb")  # one process owns the file
    return [[Case(system, state, batch, clients) for system in systems] for state in STATES]
