"""From rates to tables: medians over all turns, of rates and of the ratios of neighbouring turns."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.claims.cases import PROCRASTINATE_CONCURRENCY, STATES, Case, Sizes, System
from bench.claims.loading import SEGMENTS_MAX
from bench.claims.measuring import Samples
from bench.tables import about_lines, row, spread, verdict
from bench.turns import FREE_COMMIT_MS, ratios, split


class Comparison(NamedTuple):
    """One ratio with a free disk and with a slow one, and the target it has to reach if there is one."""

    name: str
    mode: str
    clients: int
    free: list[float]
    slow: list[float]
    target: float | None

    @property
    def verdict(self) -> str:
        return verdict(self.free, self.target)


class Summary(NamedTuple):
    rates: dict[str, tuple[list[float], list[float]]]
    """For each case the rates with a free disk and with a slow one."""
    comparisons: list[Comparison]


def summarize(sizes: Sizes, samples: Samples) -> Summary:
    comparisons = [
        Comparison(name, _mode(ours), ours.clients, *ratios(samples[ours.key], samples[other.key]), target)
        for name, ours, other, target in _pairs(sizes)
        if ours.key in samples and other.key in samples
    ]
    rates = {key: split([s for row in rows for s in row]) for key, rows in samples.items()}
    return Summary(rates, comparisons)


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
        *about_lines(about),
        f"- rounds: {sizes.rounds} of {sizes.turns} turns",
        f"- full tables: {sizes.fill:,} rows; all jobs of {SEGMENTS_MAX:,} segments",
        "",
        "## Ratios",
        "",
        "Taken turn by turn: their median, their middle half and how many turns. A disk is free as long",
        f"as a commit alone takes at most {FREE_COMMIT_MS} ms; targets are judged on those turns only. On a",
        "slow disk everything waits for it and all ratios go to 1.",
        "",
        "| what | claimed | processes | free disk | slow disk | target |",
        "| --- | --- | --- | --- | --- | --- |",
        *(
            row(c.name, c.mode, c.clients, spread(c.free, ".2f"), spread(c.slow, ".2f"), c.verdict)
            for c in summary.comparisons
        ),
        "",
        "## Rates",
        "",
        "Tasks claimed and completed a second: median of the turns, their middle half and how many.",
        "",
        "| system | table | claimed | processes | free disk | slow disk |",
        "| --- | --- | --- | --- | --- | --- |",
        *_rate_rows(summary.rates),
    ]
    return "\n".join(lines) + "\n"


def _rate_rows(rates: dict[str, tuple[list[float], list[float]]]) -> Iterator[str]:
    cases = [_case(key) for key in rates]
    for case in sorted(cases, key=lambda c: (c.system, STATES.index(c.state), c.batch, c.clients)):
        free, slow = (spread(numbers, ",.0f") for numbers in rates[case.key])
        yield row(case.system, _table(case.state), _mode(case), case.clients, free, slow)


def write(folder: Path, sizes: Sizes, about: dict[str, str], summary: Summary, samples: Samples) -> None:
    """Record a run as a page to read and as numbers."""
    folder.mkdir(exist_ok=True)
    (folder / "claims.md").write_text(markdown(sizes, about, summary))
    numbers = {
        "about": about,
        "rounds": sizes.rounds,
        "fill": sizes.fill,
        "free_commit_ms": FREE_COMMIT_MS,
        "samples": {
            key: [[[round(s.value, 1), round(s.commit_ms, 2)] for s in row] for row in rows]
            for key, rows in samples.items()
        },
        "ratios": [
            {
                "what": c.name,
                "claimed": c.mode,
                "processes": c.clients,
                "free": [round(ratio, 3) for ratio in c.free],
                "slow": [round(ratio, 3) for ratio in c.slow],
                "target": c.target,
            }
            for c in summary.comparisons
        ],
    }
    (folder / "claims.json").write_text(json.dumps(numbers) + "\n")


def _case(key: str) -> Case:
    system, state, batch, clients = key.split("/")
    return Case(system, state, int(batch), int(clients))  # type: ignore[arg-type]


def _mode(case: Case) -> str:
    if case.system == "procrastinate":
        return f"one by one, {case.batch} at once"
    return "one by one" if case.batch == 1 else f"by {case.batch}"


def _table(state: str) -> str:
    return f"{state} table" if state == "empty" else f"full of {state} tasks"
