"""The conformance suite: what every store must do, as plain async functions over a `World`.

To try a driver of your own, run every case of `CASES` with `run_case` on a fresh World each:

    for case in CASES.values():
        store = await Store.open(url_of_an_empty_database, clock=clock, upgrade=True)
        await run_case(case, World(store, clock))

A case that is `large` makes 10,000 tasks; one with `any_clock` also runs on the database's own clock.
"""

from takeup.testing.conformance import (  # noqa: F401 - importing a module registers its cases
    adopt,
    advance,
    archive,
    batches,
    briefs,
    cancel,
    claim,
    claim_task,
    complete,
    control,
    fail,
    fan,
    late,
    matrix,
    matrix_other,
    outbox,
    prefer,
    quarantine,
    read,
    recover,
    release,
    renew,
    retention,
    retry,
    schedule,
    submit,
    workers,
)
from takeup.testing.conformance.fold import check_fold
from takeup.testing.conformance.register import CASES, Case, run_case
from takeup.testing.conformance.world import World

__all__ = ["CASES", "Case", "World", "check_fold", "run_case"]
