"""The oracle has the facades of the store, and stops at a move that no table knows."""

import inspect

import pytest

from takeup.store.schedules import SchedulerStore
from takeup.store.store import OperatorStore, OrchestratorStore, ReadStore, RecoveryStore, WorkerStore
from takeup.testing.clocks import START, ManualClock
from takeup.testing.conformance import World
from takeup.testing.oracle import OracleStore
from takeup.testing.oracle.operator import OracleOperator
from takeup.testing.oracle.read import OracleRead
from takeup.testing.oracle.recovery import OracleOrchestrator, OracleRecovery
from takeup.testing.oracle.scheduler import OracleScheduler
from takeup.testing.oracle.worker import OracleWorker

PAIRS = [
    (ReadStore, OracleRead),
    (WorkerStore, OracleWorker),
    (OrchestratorStore, OracleOrchestrator),
    (RecoveryStore, OracleRecovery),
    (OperatorStore, OracleOperator),
    (SchedulerStore, OracleScheduler),
]


@pytest.mark.parametrize(("store", "oracle"), PAIRS)
def test_the_facades_are_the_same(store: type, oracle: type):
    """What a facade inherits is only looked at by people and decides nothing; the oracle has none of it."""
    for name, method in vars(store).items():
        if not inspect.iscoroutinefunction(method):
            continue
        twin = getattr(oracle, name, None)
        assert twin, f"the oracle has no {name}"
        ours, theirs = inspect.signature(method), inspect.signature(twin)
        assert list(ours.parameters) == list(theirs.parameters), name
        for parameter, mine in ours.parameters.items():
            assert mine.default == theirs.parameters[parameter].default, (name, parameter)
            assert mine.kind == theirs.parameters[parameter].kind, (name, parameter)


async def test_an_illegal_move_stops_the_oracle():
    store = OracleStore(ManualClock())
    world = World(store, ManualClock())
    job_id = await world.submit()
    row = store.state.tasks_of(job_id)[0]
    for name in ("complete", "wake", "ready", "renew"):
        with pytest.raises(AssertionError, match="no move"):
            store.state.move_task(row, name)
    with pytest.raises(AssertionError):
        store.state.move_task(row, "claim")  # no lease was handed over


def test_a_manual_clock_stands_still_until_it_is_moved():
    clock = ManualClock()
    assert clock.now() == clock.now() == START
    assert (clock.advance(1.5) - START).total_seconds() == 1.5
    assert (clock.set_back(2) - START).total_seconds() == -0.5
    assert clock.set(START) == clock.now() == START
    for move in (clock.advance, clock.set_back):
        with pytest.raises(ValueError, match="-1"):
            move(-1)
