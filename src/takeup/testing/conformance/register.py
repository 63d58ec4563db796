"""The register of cases."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from takeup.testing.conformance.fold import check_fold
from takeup.testing.conformance.world import World

Run = Callable[[World], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that every store must do."""

    name: str
    run: Run
    any_clock: bool = False
    large: bool = False


CASES: dict[str, Case] = {}


def case(*, any_clock: bool = False, large: bool = False) -> Callable[[Run], Run]:
    """Register the decorated function; its module and name are the name of the case."""

    def add(run: Run) -> Run:
        name = f"{run.__module__.rpartition('.')[2]}.{run.__name__}"
        if name in CASES:
            raise ValueError(f"two cases are named {name}")
        CASES[name] = Case(name, run, any_clock, large)
        return run

    return add


async def run_case(chosen: Case, world: World) -> None:
    """Run one case on a fresh world; whatever it did, the state must be the fold of the log."""
    await chosen.run(world)
    await check_fold(world)
