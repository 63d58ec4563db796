"""The simulator: many workers, loops and people over the real operations, interleaved by a seed."""

from takeup.testing.sim.plan import Fault, Plan, draw
from takeup.testing.sim.run import FAIR, Outcome, describe, run, run_plan
from takeup.testing.sim.shrink import shrink
from takeup.testing.sim.world import Rules

__all__ = ["FAIR", "Fault", "Outcome", "Plan", "Rules", "describe", "draw", "run", "run_plan", "shrink"]
