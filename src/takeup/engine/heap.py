"""The garbage collector of a process that stays: what is loaded stays too, and is not looked at again."""

import gc

ALLOCATIONS = 10_000
"""So many new objects make a collection; by default 700, a few tasks' worth."""


def settle_heap(*, allocations: int | None = ALLOCATIONS) -> None:
    """Leave what is there now out of later collections, and collect less often if told so."""
    gc.collect()
    gc.freeze()
    if allocations is not None:
        gc.set_threshold(allocations, *gc.get_threshold()[1:])
