"""The run: rounds in which every contender has one turn, in another order each time.

A turn loads a queue, starts a worker, takes from the system's own records when each job was done, and then
enqueues single jobs to the idle worker.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from bench.engine.homes import open_home
from bench.engine.marks import Marks
from bench.engine.system import Contender, System
from bench.turns import FREE_COMMIT_MS, in_order, open_probe
from tests.services import PostgresServer

WARM_SHARE = 0.1
"""Of the jobs: done before the clock starts, so that no rate contains the start of a process."""

REST_S = 1.0
RESTS_MAX = 20
"""How long a turn waits for a free disk that the one before it used up."""

SETTLE_S = 0.5
PAUSE_S = (0.02, 0.06)
WARM_SINGLES = 5
MARK_TIMEOUT_S = 15.0


class Turn(NamedTuple):
    """No-op jobs a second, how long single jobs took to start, and what commits cost around both."""

    rate: float
    rate_commit_ms: float
    latencies_ms: list[float]
    latency_commit_ms: float


class Sizes(NamedTuple):
    rounds: int
    singles: int
    """Single jobs a turn."""
    is_quick: bool

    def count(self, contender: Contender) -> int:
        return contender.quick_count if self.is_quick else contender.count


Turns = dict[str, list[Turn]]
"""For each contender, by name, a turn a round."""

Probe = Callable[[], Awaitable[float]]


async def measure(
    server: PostgresServer,
    contenders: Sequence[Contender],
    sizes: Sizes,
    *,
    say: Callable[[str], None] = print,
) -> Turns:
    turns: Turns = {contender.name: [] for contender in contenders}
    pauses = random.Random(0)
    marks = Marks()
    try:
        async with open_probe(server) as probe:
            for number in range(sizes.rounds):
                started = time.monotonic()
                for contender in in_order(contenders, number):
                    async with open_home(contender.home, server) as url:
                        turn = await _turn(contender, url, sizes, _Tools(marks, probe, pauses))
                    turns[contender.name].append(turn)
                    p50 = percentile(turn.latencies_ms, 50)
                    say(f"  {contender.name}: {turn.rate:,.0f} a second, p50 {p50:.1f} ms")
                say(f"round {number + 1} of {sizes.rounds}: {time.monotonic() - started:.0f} s")
    finally:
        marks.close()
    return turns


class _Tools(NamedTuple):
    marks: Marks
    probe: Probe
    pauses: random.Random


async def _turn(contender: Contender, url: str, sizes: Sizes, tools: _Tools) -> Turn:
    count = sizes.count(contender)
    system = contender.open()
    try:
        await system.prepare(url)
        await system.load(count)
        before_ms = await _rest(tools.probe)
        await system.start_worker()
        moments = await system.wait_done(count)
        between_ms = await tools.probe()
        assert len(moments) == count, f"{contender.name} says it did {len(moments)} of {count} jobs"
        latencies_ms = await _singles(system, sizes.singles, tools)
        after_ms = await tools.probe()
    finally:
        await system.stop()
    return Turn(drain_rate(moments), max(before_ms, between_ms), latencies_ms, max(between_ms, after_ms))


async def _rest(probe: Probe) -> float:
    """Let the disk recover for a while, and answer with what a commit costs now."""
    for _ in range(RESTS_MAX):
        if (commit_ms := await probe()) <= FREE_COMMIT_MS:
            return commit_ms
        await asyncio.sleep(REST_S)
    return await probe()


async def _singles(system: System, count: int, tools: _Tools) -> list[float]:
    """From the start of the enqueueing call to the start of the job's body, one by one."""
    await asyncio.sleep(SETTLE_S)
    latencies_ms: list[float] = []
    for _ in range(WARM_SINGLES + count):
        await asyncio.sleep(tools.pauses.uniform(*PAUSE_S))
        started_ns = time.monotonic_ns()
        await system.enqueue_one(tools.marks.address)
        latencies_ms.append((await tools.marks.wait(MARK_TIMEOUT_S) - started_ns) / 1e6)
    return latencies_ms[WARM_SINGLES:]


def drain_rate(moments: Sequence[float]) -> float:
    """Jobs a second after the first tenth of them; those of one batch share their moment."""
    start = moments[math.ceil(len(moments) * WARM_SHARE) - 1]
    later = [moment for moment in moments if moment > start]
    assert later, "everything was done at one moment: too few jobs to measure"
    return len(later) / (moments[-1] - start)


def percentile(numbers: Sequence[float], percent: int) -> float:
    """The smallest number that so many percent do not exceed."""
    return sorted(numbers)[math.ceil(len(numbers) * percent / 100) - 1]
