"""Named places where a process may die; nothing happens there unless a test armed them.

`takeup.testing.crash` arms points by seed or by name and ends the process, simulated or real, on the spot.
"""

from collections.abc import Callable

_reach: Callable[[str], None] | None = None


def point(name: str) -> None:
    """A place where a process may die; free of cost unless armed."""
    if _reach is not None:
        _reach(name)


def arm(reach: Callable[[str], None] | None) -> Callable[[str], None] | None:
    """Let every point call this; None disarms. Answers with what was armed before."""
    global _reach
    before, _reach = _reach, reach
    return before


def is_armed() -> bool:
    """Whether any point may fire: lets a hot loop skip the making of names."""
    return _reach is not None
