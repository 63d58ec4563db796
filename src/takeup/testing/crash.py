"""Named crash points: `point("worker.before publish")` does nothing unless somebody armed that name.

The simulator arms points by seed and ends the simulated process. A real process arms itself from its
environment (`TAKEUP_CRASH="complete.after complete_tasks#2, worker.*#7"`: the second and the seventh time)
and kills itself the hard way, so that nothing can clean up.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import wraps
from random import Random
from typing import NoReturn, ParamSpec, TypeVar

from takeup.core.points import arm, is_armed, point
from takeup.store.op import Op

__all__ = ["Armed", "Crashed", "arm_from_environment", "armed", "is_armed", "point", "watch"]

P = ParamSpec("P")
T = TypeVar("T")

VARIABLE = "TAKEUP_CRASH"
SEED_VARIABLE = "TAKEUP_CRASH_SEED"
"""`17:0.01` lets every point fire with a chance of 1 %, as seed 17 decides."""
TRACE_VARIABLE = "TAKEUP_CRASH_TRACE"
"""A file to which every point that is passed for the first time, and every one that fires, is added."""


class Crashed(BaseException):
    """The simulated process ends here; no handler of errors may catch it."""


Action = Callable[[str], None]


def kill(name: str) -> NoReturn:
    """End this very process at once, as a power cut would."""
    trace("fired", name)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def trace(what: str, name: str) -> None:
    """Note a point for the test that looks on."""
    path = os.environ.get(TRACE_VARIABLE)
    if path:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{what} {name}\n".encode())
        os.close(file)


def collapse(name: str) -> NoReturn:
    """End the simulated process."""
    raise Crashed(name)


class Armed:
    """The points that are to fire, and how often each was passed."""

    def __init__(
        self, points: Mapping[str, int], action: Action, chance: float = 0.0, random: Random | None = None
    ) -> None:
        """`points` maps a name, or a pattern with `*`, to the pass on which it fires."""
        self._exact = {name: nth for name, nth in points.items() if "*" not in name}
        self._patterns = {name: nth for name, nth in points.items() if "*" in name}
        self.passes: Counter[str] = Counter()
        """How often each point was passed."""
        self._action = action
        self._chance = chance
        self._traces = TRACE_VARIABLE in os.environ
        self._random = random or Random(0)

    def reach(self, name: str) -> None:
        """A point was reached: fire if its turn has come."""
        self.passes[name] += 1
        if self.passes[name] == 1 and self._traces:
            trace("passed", name)
        due = self._exact.get(name) == self.passes[name]
        for pattern, nth in self._patterns.items():
            if fnmatchcase(name, pattern):
                self.passes[pattern] += 1
                due = due or self.passes[pattern] == nth
        if due or (self._chance and self._random.random() < self._chance):
            self._action(name)


def watch(operation: Callable[P, Op[T]]) -> Callable[P, Op[T]]:
    """The same store operation with a crash point after each of its queries: `claim.after claim_tasks`."""

    @wraps(operation)
    def watched(*args: P.args, **kwargs: P.kwargs) -> Op[T]:
        op = operation(*args, **kwargs)
        try:
            step = next(op)
            while True:
                rows = yield step
                point(f"{operation.__name__}.after {getattr(step, 'name', 'script')}")
                step = op.send(rows)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            op.close()

    return watched


@contextmanager
def armed(armed_points: Armed) -> Iterator[None]:
    """Arm these points for a while, in this process."""
    before = arm(armed_points.reach)
    try:
        yield
    finally:
        arm(before)


def arm_from_environment(environment: Mapping[str, str]) -> bool:
    """Arm what the environment names; a firing point kills this process."""
    points = parse(environment.get(VARIABLE, ""))
    seed, _, chance = environment.get(SEED_VARIABLE, "").partition(":")
    is_watched = bool(points or chance or environment.get(TRACE_VARIABLE))
    if is_watched:
        arm(Armed(points, kill, float(chance or 0), Random(seed)).reach)
    return is_watched


def parse(text: str) -> dict[str, int]:
    """`name#2, other` as the pass on which each fires."""
    points = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, nth = part.partition("#")
        points[name.strip()] = int(nth or 1)
    return points
