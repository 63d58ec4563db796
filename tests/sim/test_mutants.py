"""Each defect that the older designs had is caught, by name, by the invariant that it breaks."""

import pytest

from takeup.testing.mutants import MUTANTS, REAL, SIMULATED, Mutant
from takeup.testing.sim import Rules, run, shrink
from takeup.testing.sim.database import Patch, open_session

SCHEDULES_MAX = 1000


@pytest.mark.parametrize("mutant", SIMULATED, ids=[mutant.name for mutant in SIMULATED])
def test_mutant_is_caught(mutant: Mutant):
    caught = next(
        (
            (seed, ids)
            for seed in range(SCHEDULES_MAX)
            if (ids := broken(seed, mutant.rules)) & mutant.caught_by
        ),
        None,
    )
    assert caught is not None, f"{mutant.name} survived {SCHEDULES_MAX} schedules: {mutant.defect}"
    # The seeds before it are run without the defect by the ten thousand schedules.
    assert run(caught[0]).violations == []


def test_there_are_twenty_mutants():
    assert sorted([*MUTANTS, *REAL], key=lambda name: int(name[1:])) == [f"D{n}" for n in range(1, 21)]


QUARANTINE = {
    "a quarantined worker claims": ("I16", Patch("claim_lanes", " AND w.quarantined_at IS NULL", "")),
    "a restart clears it": (
        "I19",
        Patch(
            "register_again",
            "heartbeat_at = NULL",
            "heartbeat_at = NULL, quarantined_at = NULL, quarantine_reason = NULL",
        ),
    ),
}


@pytest.mark.parametrize("defect", QUARANTINE)
def test_a_quarantine_that_does_not_hold_is_caught(defect: str):
    invariant, patch = QUARANTINE[defect]
    assert any(invariant in broken(seed, Rules(patches=(patch,))) for seed in range(100, 400))


def test_a_patch_whose_text_is_gone_is_refused():
    with pytest.raises(AssertionError, match="does not hold"):
        open_session((Patch("claim_tasks", "no such text", ""),))


def test_the_database_itself_stops_the_mutant_that_leaves_a_terminal_state():
    guarded = Rules(operations=MUTANTS["D17"].rules.operations)
    found = [violation for seed in range(10) for violation in run(seed, guarded).violations]
    assert any("illegal move of a task" in str(violation) for violation in found)
    assert not any(violation.invariant == "I7" for violation in found)


def test_a_failing_schedule_is_shrunk_to_the_faults_it_needs():
    rules = MUTANTS["D1"].rules
    seed = next(s for s in range(200) if "I3" in broken(s, rules))
    kept, outcome = shrink(seed, rules)
    assert outcome.violations
    assert 0 < len(kept) < len(run(seed).plan.faults)
    for number in kept:
        assert not broken(seed, rules, kept - {number}) & broken(seed, rules)


def broken(seed: int, rules: Rules, only: frozenset[int] | None = None) -> set[str]:
    return {violation.invariant for violation in run(seed, rules, only=only).violations}
