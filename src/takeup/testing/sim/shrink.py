"""Makes a failing schedule small: drops its faults one by one as long as it still fails."""

from takeup.testing.sim.plan import draw
from takeup.testing.sim.run import FAIR, Outcome, run
from takeup.testing.sim.world import Rules


def shrink(seed: int, rules: Rules = FAIR) -> tuple[frozenset[int], Outcome]:
    """The faults, by their place in the plan, that the schedule needs to fail; and how it then ends."""
    kept = frozenset(range(len(draw(seed).faults)))
    outcome = run(seed, rules)
    wanted = {violation.invariant for violation in outcome.violations}
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for number in sorted(kept, reverse=True):
            attempt = run(seed, rules, only=kept - {number})
            if wanted & {violation.invariant for violation in attempt.violations}:
                kept, outcome, is_smaller = kept - {number}, attempt, True
    return kept, outcome
