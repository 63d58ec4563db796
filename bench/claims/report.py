"""From rates to tables: medians over all turns, of rates and of the ratios of neighbouring turns."""

import itertools
import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.claims.cases import PROCRASTINATE_CONCURRENCY, STATES, Case, Sizes, System
from bench.claims.loading import SEGMENTS_MAX
from bench.claims.measuring import Rates


class Spread(NamedTuple):
    """The median of a row of numbers, and the middle half of them: its lower and upper quartile."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, numbers: list[float]) -> "Spread":
        if len(numbers) == 1:
            return cls(*numbers * 3)
        low, _, high = statistics.quantiles(numbers, n=4, method="inclusive")
        return cls(statistics.median(numbers), low, high)


class Comparison(NamedTuple):
    """One ratio, and the target it has to reach if there is one."""

    name: str
    mode: str
    clients: int
    ratio: Spread
    target: float | None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return f"{'met' if self.ratio.median >= self.target else 'MISSED'} (≥ {self.target})"


class Summary(NamedTuple):
    rates: dict[str, Spread]
    comparisons: list[Comparison]


def summarize(sizes: Sizes, rates: Rates) -> Summary:
    comparisons = [
        Comparison(
            name, _mode(ours), ours.clients, Spread.of(_ratios(rates[ours.key], rates[other.key])), target
        )
        for name, ours, other, target in _pairs(sizes)
        if ours.key in rates and other.key in rates
    ]
    return Summary({key: Spread.of(list(itertools.chain(*rows))) for key, rows in rates.items()}, comparisons)


def _ratios(ours: list[list[float]], others: list[list[float]]) -> list[float]:
    """Turn by turn; against a peer, which has one turn a round, our mean of the round."""
    return [
        ratio
        for our_turns, other_turns in zip(ours, others, strict=True)
        for ratio in (
            [a / b for a, b in zip(our_turns, other_turns, strict=True)]
            if len(our_turns) == len(other_turns)
            else [statistics.harmonic_mean(our_turns) / statistics.harmonic_mean(other_turns)]
        )
    ]


def _pairs(sizes: Sizes) -> Iterator[tuple[str, Case, Case, float | None]]:
    """What is compared with what, and the target of the ratio."""
    modes = (1, sizes.batch)
    for batch, clients in itertools.product(modes, (1, 2)):
        for state in STATES:
            ours = Case("takeup-postgres", state, batch, clients)
            target = (0.7 if batch == 1 else 0.6) if (state, clients) == ("empty", 1) else None
            yield (
                f"ours / raw SQL, {_table(state)}",
                ours,
                Case("raw-postgres", state, batch, clients),
                target,
            )
        procrastinate = Case("procrastinate", "empty", PROCRASTINATE_CONCURRENCY, clients)
        yield "ours / procrastinate", Case("takeup-postgres", "empty", batch, clients), procrastinate, 1.0
    batches = (sizes.batch, sizes.big_batch)
    for clients, ours_batch, batch in itertools.product((1, 2), batches, batches):
        ours = Case("takeup-postgres", "empty", ours_batch, clients)
        peer = Case("pgqueuer", "empty", batch, clients)
        yield f"ours / pgqueuer by {batch}", ours, peer, 1.0 if ours_batch == batch else None
    for clients in (1, 2):
        ours = Case("takeup-postgres", "empty", sizes.big_batch, clients)
        yield (
            "ours / raw SQL, empty table",
            ours,
            Case("raw-postgres", "empty", sizes.big_batch, clients),
            None,
        )
    systems: tuple[System, ...] = ("takeup-postgres", "takeup-sqlite", "takeup-duckdb")
    for system, batch, clients, state in itertools.product(systems, modes, (1, 2), STATES[1:]):
        target = 0.85 if (system, state) == ("takeup-postgres", "waiting") else None
        full, empty = (Case(system, each, batch, clients) for each in (state, STATES[0]))
        yield f"{system}: {_table(state)} / empty table", full, empty, target


def markdown(sizes: Sizes, about: dict[str, str], summary: Summary) -> str:
    """The whole page."""
    lines = [
        "# Claim and complete, no-op tasks",
        "",
        "Written by `bench/claims`; `bench/README.md` says how it is measured. On a noisy machine trust the",
        "ratios, which are taken turn by turn, more than the rates.",
        "",
        *(f"- {name}: {f'`{text}`' if name == 'command' else text}" for name, text in about.items()),
        f"- rounds: {sizes.rounds} of {sizes.turns} turns",
        f"- full tables: {sizes.fill:,} rows; all jobs of {SEGMENTS_MAX:,} segments",
        "",
        "## Ratios",
        "",
        "Taken turn by turn: their median, and their middle half.",
        "",
        "| what | claimed | processes | ratio | spread | target |",
        "| --- | --- | --- | --- | --- | --- |",
        *(
            _row(
                c.name,
                c.mode,
                c.clients,
                f"{c.ratio.median:.2f}",
                f"{c.ratio.low:.2f}–{c.ratio.high:.2f}",
                c.verdict,
            )
            for c in summary.comparisons
        ),
        "",
        "## Rates",
        "",
        "Tasks claimed and completed a second: median of the turns, and their middle half.",
        "",
        "| system | table | claimed | one process | two processes |",
        "| --- | --- | --- | --- | --- |",
        *_rate_rows(summary.rates),
    ]
    return "\n".join(lines) + "\n"


def _rate_rows(rates: dict[str, Spread]) -> Iterator[str]:
    cases = [_case(key) for key in rates]
    for case in sorted(cases, key=lambda c: (c.system, STATES.index(c.state), c.batch)):
        if case.clients == 1:
            two = rates.get(Case(case.system, case.state, case.batch, 2).key)
            both = (_rate(rates[case.key]), _rate(two) if two else "one owns the file")
            yield _row(case.system, _table(case.state), _mode(case), *both)


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def write(folder: Path, sizes: Sizes, about: dict[str, str], summary: Summary, rates: Rates) -> None:
    """Record a run as a page to read and as numbers."""
    folder.mkdir(exist_ok=True)
    (folder / "claims.md").write_text(markdown(sizes, about, summary))
    numbers = {
        "about": about,
        "rounds": sizes.rounds,
        "fill": sizes.fill,
        "rates": {key: [[round(rate, 1) for rate in row] for row in rows] for key, rows in rates.items()},
        "ratios": [
            {
                "what": c.name,
                "claimed": c.mode,
                "processes": c.clients,
                **c.ratio._asdict(),
                "target": c.target,
            }
            for c in summary.comparisons
        ],
    }
    (folder / "claims.json").write_text(json.dumps(numbers, indent=1) + "\n")


def _case(key: str) -> Case:
    system, state, batch, clients = key.split("/")
    return Case(system, state, int(batch), int(clients))  # type: ignore[arg-type]


def _mode(case: Case) -> str:
    if case.system == "procrastinate":
        return f"one by one, {case.batch} at once"
    return "one by one" if case.batch == 1 else f"by {case.batch}"


def _table(state: str) -> str:
    return f"{state} table" if state == "empty" else f"full of {state} tasks"


def _rate(spread: Spread) -> str:
    return f"{spread.median:,.0f} ({spread.low:,.0f}–{spread.high:,.0f})"
