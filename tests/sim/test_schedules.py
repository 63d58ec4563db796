"""Thousands of schedules with everything going wrong, and not one invariant broken."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from takeup.testing import crash
from takeup.testing.sim import Rules, run, run_plan
from takeup.testing.sim.plan import CRASH_POINTS, KINDS, JobDraw, Plan, draw
from takeup.testing.sim.plan import Action as Act
from takeup.testing.sim.world import OPERATIONS

CHUNKS, CHUNK = 20, 500


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_schedule_breaks_an_invariant(chunk: int):
    broken, counts = [], Counter()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        outcome = run(seed)
        counts += outcome.counts
        if outcome.violations:
            broken.append(
                f"python -m takeup.testing.chaos --replay {seed} --verbose  # {outcome.violations[0]}"
            )
    assert broken == []
    assert {kind for kind in KINDS if not counts[kind]} == set(), "a kind of fault never happened"


def test_a_calm_world_finishes_its_work():
    worker = draw(1).workers[0]
    jobs = (JobDraw(2, 5, "k", None),)
    outcome = run_plan(Plan(1, (worker,), jobs, (Act(0.5, "submit", 0),), (), drifts=(1.0,)))
    assert outcome.violations == []
    assert [job["status"] for job in outcome.tables.jobs] == ["completed"]
    assert {"split", "encode", "join"} <= {task["stage"] for task in outcome.tables.tasks}
    assert [row["status"] for row in outcome.tables.outbox] == ["SENT"]


def test_without_any_hint_everything_is_done_all_the_same():
    outcomes = [run(seed, Rules(hints=False)) for seed in range(100)]
    assert [str(violation) for outcome in outcomes for violation in outcome.violations] == []


def test_the_same_seed_gives_the_same_history():
    first = [run(seed).digest() for seed in range(50)]
    assert [run(seed).digest() for seed in reversed(range(50))] == first[::-1]
    assert len(set(first)) == 50


def test_a_history_does_not_depend_on_the_order_of_hashes():
    command = [sys.executable, "-m", "takeup.testing.chaos", "--digest", "12"]
    prints = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(prints) == 1


def test_every_named_crash_point_is_passed_and_every_operation_is_used():
    armed = crash.Armed({}, crash.collapse)
    with crash.armed(armed):
        for seed in range(150):
            plan = draw(seed)
            calm = tuple(fault for fault in plan.faults if fault.kind != "crash_point")
            run_plan(Plan(**{name: getattr(plan, name) for name in plan.__slots__} | {"faults": calm}))
    assert set(CRASH_POINTS) - set(armed.passes) == set()
    assert set(OPERATIONS) - {name.partition(".")[0] for name in armed.passes} == set()
