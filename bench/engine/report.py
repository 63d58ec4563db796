"""From turns to tables: medians over the rounds, of rates and latencies and of ratios within a round."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.engine.rounds import PAUSE_S, WARM_SHARE, Sizes, Turn, Turns, percentile
from bench.engine.system import Contender
from bench.tables import about_lines, row, spread, verdict
from bench.turns import FREE_COMMIT_MS, Sample, ratios, split

OURS = "takeup-"
JUDGED = "takeup-postgres"
"""The targets are about a fleet on PostgreSQL; our other stores are shown."""

RATE_TARGETS = {"procrastinate": 5.0, "dbos": 5.0, "celery": 5.0}
PGQUEUER_TARGET = 1.0
LATENCY_TARGET = 1.5
"""No worse than so many times the best is: not worse than that with each of them."""
CEILING = "raw-postgres"


class Comparison(NamedTuple):
    """One ratio with a free disk and with a slow one, and the target it has to reach if there is one."""

    name: str
    free: list[float]
    slow: list[float]
    target: float | None

    def cells(self, *, at_most: bool) -> str:
        judged = verdict(self.free, self.target, at_most=at_most)
        return row(self.name, spread(self.free, ".2f"), spread(self.slow, ".2f"), judged)


def rate_of(turn: Turn) -> Sample:
    return Sample(turn.rate, turn.rate_commit_ms)


def p50_of(turn: Turn) -> Sample:
    return Sample(percentile(turn.latencies_ms, 50), turn.latency_commit_ms)


def compare_rates(contenders: Sequence[Contender], turns: Turns) -> list[Comparison]:
    """Ours over theirs: more is better."""
    rows = {name: [[rate_of(turn)] for turn in each] for name, each in turns.items()}
    return [
        Comparison(f"{ours.name} / {other.name}", *ratios(rows[ours.name], rows[other.name]), target)
        for ours, other in _pairs(contenders, turns)
        for target in (_rate_target(ours, other) if ours.system == JUDGED else None,)
    ]


def compare_latencies(contenders: Sequence[Contender], turns: Turns) -> list[Comparison]:
    """Our median over theirs: less is better."""
    rows = {name: [[p50_of(turn)] for turn in each] for name, each in turns.items()}
    return [
        Comparison(f"{ours.name} / {other.name}", *ratios(rows[ours.name], rows[other.name]), target)
        for ours, other in _pairs(contenders, turns)
        for target in (_latency_target(other) if ours.system == JUDGED else None,)
    ]


def _pairs(contenders: Sequence[Contender], turns: Turns) -> Iterator[tuple[Contender, Contender]]:
    measured = [contender for contender in contenders if contender.name in turns]
    for ours in measured:
        if ours.system.startswith(OURS):
            yield from ((ours, other) for other in measured if not other.system.startswith(OURS))


def _rate_target(ours: Contender, other: Contender) -> float | None:
    if other.system == "pgqueuer":
        return PGQUEUER_TARGET if ours.batch == other.batch else None
    return RATE_TARGETS.get(other.system) if other.is_durable else None


def _latency_target(other: Contender) -> float | None:
    """The raw loop is what no queue with jobs and leases can reach, so it is shown and not aimed at."""
    return LATENCY_TARGET if other.is_durable and other.system != CEILING else None


def markdown(contenders: Sequence[Contender], sizes: Sizes, about: dict[str, str], turns: Turns) -> str:
    """The whole page."""
    rates, latencies = compare_rates(contenders, turns), compare_latencies(contenders, turns)
    measured = [contender for contender in contenders if contender.name in turns]
    low_ms, high_ms = (pause_s * 1000 for pause_s in PAUSE_S)
    lines = [
        "# End to end, no-op tasks",
        "",
        "Written by `bench/engine`; `bench/README.md` says how it is measured. On a noisy machine trust the",
        "ratios, which are taken within a round, more than the numbers.",
        "",
        *about_lines(about),
        f"- rounds: {sizes.rounds}, each with {sizes.singles} single jobs for every system",
        "",
        f"A disk is free as long as a commit alone takes at most {FREE_COMMIT_MS} ms; targets are judged on",
        "those turns only. Every cell gives the median over the rounds, the middle half and how many rounds.",
        "",
        "## Rates: ours / theirs",
        "",
        *_comparison_rows(rates, at_most=False),
        "",
        "## Idle latency, p50: ours / theirs",
        "",
        *_comparison_rows(latencies, at_most=True),
        "",
        "## Rates",
        "",
        f"No-op jobs finished a second by one worker, after the first {WARM_SHARE:.0%} of them.",
        "",
        "| system | durable commits | jobs a turn | free disk | slow disk |",
        "| --- | --- | --- | --- | --- |",
        *(_rate_row(contender, sizes, turns[contender.name]) for contender in measured),
        "",
        "## Idle latency",
        "",
        "Milliseconds from the start of the enqueueing call to the start of the job's body; the worker was",
        f"idle for {low_ms:.0f} to {high_ms:.0f} ms. p50 is taken in each round, p99 over all of them.",
        "",
        "| system | durable commits | p50, free disk | p50, slow disk | p99 |",
        "| --- | --- | --- | --- | --- |",
        *(_latency_row(contender, turns[contender.name]) for contender in measured),
    ]
    return "\n".join(lines) + "\n"


def _comparison_rows(comparisons: list[Comparison], *, at_most: bool) -> list[str]:
    if not comparisons:
        return ["None of our own systems was in this run."]
    head = ["| what | free disk | slow disk | target |", "| --- | --- | --- | --- |"]
    return [*head, *(comparison.cells(at_most=at_most) for comparison in comparisons)]


def _rate_row(contender: Contender, sizes: Sizes, turns: list[Turn]) -> str:
    free, slow = (spread(numbers, ",.0f") for numbers in split([rate_of(turn) for turn in turns]))
    return row(contender.name, _durable(contender), f"{sizes.count(contender):,}", free, slow)


def _latency_row(contender: Contender, turns: list[Turn]) -> str:
    free, slow = (spread(numbers, ".1f") for numbers in split([p50_of(turn) for turn in turns]))
    p99 = percentile([latency for turn in turns for latency in turn.latencies_ms], 99)
    return row(contender.name, _durable(contender), free, slow, f"{p99:.1f}")


def _durable(contender: Contender) -> str:
    return "yes" if contender.is_durable else "no"


def write(
    folder: Path, contenders: Sequence[Contender], sizes: Sizes, about: dict[str, str], turns: Turns
) -> None:
    """Record a run as a page to read and as numbers."""
    folder.mkdir(exist_ok=True)
    (folder / "engine.md").write_text(markdown(contenders, sizes, about, turns))
    numbers = {
        "about": about,
        "rounds": sizes.rounds,
        "free_commit_ms": FREE_COMMIT_MS,
        "turns": {
            name: [
                {
                    "rate": round(turn.rate, 1),
                    "rate_commit_ms": round(turn.rate_commit_ms, 2),
                    "latencies_ms": [round(latency, 2) for latency in turn.latencies_ms],
                    "latency_commit_ms": round(turn.latency_commit_ms, 2),
                }
                for turn in each
            ]
            for name, each in turns.items()
        },
        "rates": [_numbers(comparison) for comparison in compare_rates(contenders, turns)],
        "latencies": [_numbers(comparison) for comparison in compare_latencies(contenders, turns)],
    }
    (folder / "engine.json").write_text(json.dumps(numbers) + "\n")


def _numbers(comparison: Comparison) -> dict[str, object]:
    return {
        "what": comparison.name,
        "free": [round(ratio, 3) for ratio in comparison.free],
        "slow": [round(ratio, 3) for ratio in comparison.slow],
        "target": comparison.target,
    }
