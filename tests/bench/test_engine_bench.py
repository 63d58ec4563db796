"""The end-to-end benchmark's own code: its mathematics, and one system measured with tiny counts."""

from functools import partial
from typing import Any

import pytest

from bench.engine.raw_loop import RawLoop
from bench.engine.report import compare_latencies, compare_rates, markdown, write
from bench.engine.rounds import Sizes, Turn, drain_rate, measure, percentile
from bench.engine.system import Contender
from bench.tables import verdict
from bench.turns import Sample, in_order, ratios

TINY = Sizes(rounds=1, singles=3, is_quick=True)
RAW = Contender(
    system="raw-postgres",
    batch=10,
    home="postgres",
    open=partial(RawLoop, 10),
    count=200,
    quick_count=100,
)


def contender(system: str, **options: Any) -> Contender:
    return Contender(
        system=system, home="postgres", open=partial(RawLoop, 1), count=1, quick_count=1, **options
    )


def test_a_rate_begins_after_the_first_tenth_and_counts_no_part_of_a_batch():
    assert drain_rate([0.0, *(10.0 + i for i in range(9))]) == pytest.approx(9 / 18)
    assert drain_rate([0.0] * 10 + [1.0] * 10 + [2.0] * 10) == pytest.approx(20 / 2)


def test_percentiles():
    assert percentile(range(1, 101), 50) == 50
    assert percentile(range(1, 101), 99) == 99
    assert percentile([7.0], 99) == 7.0


def test_a_ratio_is_taken_between_turns_with_a_disk_of_the_same_kind():
    ours = [[Sample(10, 0.5)], [Sample(30, 5.0)], [Sample(10, 0.5)]]
    others = [[Sample(5, 0.5)], [Sample(10, 5.0)], [Sample(5, 5.0)]]
    assert ratios(ours, others) == ([2.0], [3.0])


def test_everybody_is_first_once():
    assert {in_order("abc", turn)[0] for turn in (0, 2, 4)} == set("abc")
    assert all(sorted(in_order("abc", turn)) == list("abc") for turn in range(6))


def test_a_target_is_a_floor_or_a_ceiling():
    assert verdict([2.0] * 4, 1.5) == "met (≥ 1.5)"
    assert verdict([2.0] * 4, 1.5, at_most=True) == "MISSED (≤ 1.5)"
    assert verdict([2.0] * 3, 1.5).startswith("undecided")
    assert verdict([], None) == ""


def test_only_durable_peers_and_equal_batches_are_judged():
    ours = [contender("takeup-postgres", batch=100), contender("takeup-sqlite", batch=100)]
    others = [
        contender("pgqueuer", batch=100),
        contender("pgqueuer", batch=500),
        contender("celery", variant="durable"),
        contender("celery", is_durable=False),
        RAW,
    ]
    everybody = [*ours, *others]
    turns = {each.name: [Turn(100.0, 0.5, [2.0], 0.5)] for each in everybody}
    rates = {c.name: c.target for c in compare_rates(everybody, turns)}
    latencies = {c.name: c.target for c in compare_latencies(everybody, turns)}
    assert {name: target for name, target in rates.items() if target} == {
        "takeup-postgres-100 / pgqueuer-100": 1.0,
        "takeup-postgres-100 / celery-durable": 5.0,
    }
    assert len(rates) == len(latencies) == len(ours) * len(others)
    assert latencies["takeup-postgres-100 / celery"] is None
    assert latencies["takeup-postgres-100 / celery-durable"] == 1.5
    assert latencies["takeup-postgres-100 / raw-postgres-10"] is None, "the ceiling"


async def test_a_system_is_measured_and_reported(get_postgres, tmp_path):
    said: list[str] = []
    turns = await measure(get_postgres("postgres15"), [RAW], TINY, say=said.append)
    (turn,) = turns["raw-postgres-10"]
    assert turn.rate > 0
    assert len(turn.latencies_ms) == TINY.singles
    assert min(turn.latencies_ms) > 0
    write(tmp_path, [RAW], TINY, {"command": "make bench"}, turns)
    page = (tmp_path / "engine.md").read_text()
    assert page == markdown([RAW], TINY, {"command": "make bench"}, turns)
    assert "| raw-postgres-10 | yes | 100 |" in page
    assert "raw-postgres-10" in (tmp_path / "engine.json").read_text()
