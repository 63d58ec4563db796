"""What all measurements share: turns in a changing order, each with what a commit cost around it.

Disks that are slowed down after too much use make everything equally slow, so turns with a free disk and
turns with a slow one are told apart, and a ratio is taken only between two turns of the same kind.
"""

import contextlib
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

import asyncpg

from tests.services import PostgresServer

PROBE_COMMITS = 5
FREE_COMMIT_MS = 1.0
SERVER_SETTINGS = {
    "synchronous_commit": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
}
"""Memory for a million rows, and no checkpoint in the middle of one contender's turn."""

T = TypeVar("T")


class Sample(NamedTuple):
    """What a turn measured (a rate, a latency), and what a commit alone cost around it."""

    value: float
    commit_ms: float


def is_free(sample: Sample) -> bool:
    return sample.commit_ms <= FREE_COMMIT_MS


def split(turns: Sequence[Sample]) -> tuple[list[float], list[float]]:
    """What was measured with a free disk, and what with a slow one."""
    return [s.value for s in turns if is_free(s)], [s.value for s in turns if not is_free(s)]


def in_order(contenders: Sequence[T], turn: int) -> list[T]:
    """Another first in every turn, and every second turn backwards, so that nobody has the best place."""
    first = turn % max(len(contenders), 1)
    return [*contenders[first:], *contenders[:first]][:: -1 if turn % 2 else 1]


def ratios(ours: list[list[Sample]], others: list[list[Sample]]) -> tuple[list[float], list[float]]:
    """Round by round and turn by turn, for a free disk and for a slow one; pairs that saw both are left out.

    Who has one turn in a round is compared with our mean of that round, of turns on a disk as it had.
    """
    found: tuple[list[float], list[float]] = ([], [])
    for our_turns, other_turns in zip(ours, others, strict=True):
        if len(our_turns) == len(other_turns):
            pairs = [
                (a.value, b) for a, b in zip(our_turns, other_turns, strict=True) if is_free(a) is is_free(b)
            ]
        else:
            alike = [(b, [a.value for a in our_turns if is_free(a) is is_free(b)]) for b in other_turns]
            pairs = [(statistics.harmonic_mean(row), b) for b, row in alike if row]
        for value, other in pairs:
            found[0 if is_free(other) else 1].append(value / other.value)
    return found


@contextlib.asynccontextmanager
async def open_probe(server: PostgresServer) -> AsyncIterator[Callable[[], Awaitable[float]]]:
    """What one commit costs now, in milliseconds."""
    await server.create_database("bench_probe")
    connection = await asyncpg.connect(server.dsn("bench_probe"))
    await connection.execute("CREATE TABLE probe AS SELECT 0 AS n")

    async def probe() -> float:
        started = time.monotonic()
        for _ in range(PROBE_COMMITS):
            await connection.execute("UPDATE probe SET n = n + 1")
        return (time.monotonic() - started) / PROBE_COMMITS * 1000

    try:
        yield probe
    finally:
        await connection.close()
        await server.drop_database("bench_probe")
