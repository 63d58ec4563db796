"""The machine tables themselves: complete, connected, with no way out of a final state."""

import pytest

from takeup.core.machine import (
    CONTROL_STATUS,
    JOB,
    LEASE,
    MACHINES,
    OUTBOX,
    PHASES,
    TASK,
    VIDEO_STATUS,
    WORKER,
    Actor,
    Machine,
)
from takeup.store.store import OperatorStore, OrchestratorStore, RecoveryStore, WorkerStore

machines = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.noun)


@machines
def test_states_and_moves_are_named_once(machine: Machine):
    assert len(set(machine.states)) == len(machine.states)
    names = [move.name for move in machine.moves]
    assert len(set(names)) == len(names)
    assert set(machine.initial) <= set(machine.live)


@machines
def test_moves_speak_of_states_there_are(machine: Machine):
    for move in machine.moves:
        assert set(move.sources) <= set(machine.states), move.name
        assert move.target in machine.states, move.name
        assert move.sources, move.name
        assert move.guard, move.name


@machines
def test_final_states_have_no_way_out(machine: Machine):
    for move in machine.moves:
        assert not set(move.sources) & set(machine.final), move.name


@machines
def test_every_state_can_be_reached_and_every_live_one_can_end(machine: Machine):
    reached = set(machine.initial)
    for _ in machine.states:
        reached |= {target for source, target in machine.pairs() if source in reached}
    assert reached == set(machine.states)
    if machine.final:
        ending = set(machine.final)
        for _ in machine.states:
            ending |= {source for source, target in machine.pairs() if target in ending}
        assert ending == set(machine.states)


@machines
def test_pairs_and_illegal_pairs_share_nothing_and_miss_nothing(machine: Machine):
    legal = {pair for pair in machine.pairs() if pair[0] != pair[1]}
    illegal = set(machine.illegal_pairs())
    assert not legal & illegal
    assert len(legal) + len(illegal) == len(machine.states) * (len(machine.states) - 1)


def test_the_tokens_fence_exactly_the_holders_moves():
    for machine in MACHINES:
        for move in machine.moves:
            assert move.fenced == (move.actor is Actor.HOLDER), move.name


def test_a_token_is_given_by_claim_alone_and_void_after_every_other_move_from_running():
    assert [move.name for move in TASK.moves if "epoch" in move.sets] == ["claim"]
    for move in TASK.moves:
        if "RUNNING" in move.sources and move.target != "RUNNING":
            assert set(LEASE) <= set(move.sets), f"{move.name} keeps a lease"


def test_final_moves_set_the_end():
    for machine in (TASK, JOB, OUTBOX):
        for move in machine.moves:
            assert ("finished_at" in move.sets) == (move.target in machine.final), move.name


def test_the_design_of_a_task_is_kept():
    assert TASK.live == ("NEW", "READY", "RUNNING", "ERROR")
    assert TASK.final == ("DONE", "FAILED", "CANCELLED", "SKIPPED")
    by_name = {move.name: (set(move.sources), move.target, move.actor) for move in TASK.moves}
    assert by_name["ready"] == ({"NEW"}, "READY", Actor.ORCHESTRATOR)
    assert by_name["claim"] == ({"READY"}, "RUNNING", Actor.WORKER)
    assert by_name["complete"] == ({"RUNNING"}, "DONE", Actor.HOLDER)
    assert by_name["fail"] == ({"RUNNING"}, "ERROR", Actor.HOLDER)
    assert by_name["release"] == ({"RUNNING"}, "READY", Actor.HOLDER)
    assert by_name["expire"] == ({"RUNNING"}, "READY", Actor.RECOVERY)
    assert by_name["wake"] == ({"ERROR"}, "READY", Actor.RECOVERY)
    assert by_name["cancel"] == (set(TASK.live), "CANCELLED", Actor.OPERATOR)
    assert by_name["skip"] == ({"NEW", "READY", "ERROR"}, "SKIPPED", Actor.OPERATOR)


def test_a_job_only_goes_forward():
    order = {phase: rank for rank, phase in enumerate(PHASES)}
    for source, target in JOB.pairs():
        assert target in JOB.final or order[source] < order[target]


def test_the_orchestrator_ends_no_work_and_a_worker_advances_none():
    targets = {move.target for move in TASK.moves_of(Actor.ORCHESTRATOR)}
    assert targets == {"READY", "CANCELLED"}
    assert {m.name for m in TASK.moves_of(Actor.WORKER)} == {"claim", "cut"}


def test_each_facade_has_its_actors_moves():
    methods = {
        Actor.ORCHESTRATOR: (OrchestratorStore, {"ready": "advance", "abandon": "advance"}),
        Actor.WORKER: (WorkerStore, {"claim": "claim", "cut": "register"}),
        Actor.HOLDER: (
            WorkerStore,
            {
                "renew": "renew",
                "complete": "complete",
                "fail": "fail",
                "give_up": "fail",
                "release": "release",
            },
        ),
        Actor.RECOVERY: (RecoveryStore, {"expire": "expire", "bury": "expire", "wake": "wake"}),
        Actor.OPERATOR: (
            OperatorStore,
            {"revoke": "set_task_control", "skip": "set_control", "cancel": "cancel"},
        ),
    }
    for actor, (facade, names) in methods.items():
        assert {move.name for move in TASK.moves_of(actor)} == set(names)
        assert all(hasattr(facade, method) for method in names.values())
    foreign = {"advance", "expire", "wake", "cancel", "set_control"}
    assert not foreign & set(dir(WorkerStore))
    assert not {"complete", "fail", "release", "claim"} & set(dir(OrchestratorStore))


def test_outside_words_are_total():
    assert set(VIDEO_STATUS) == set(JOB.states)
    assert set(VIDEO_STATUS.values()) == {"pending", "processing", "ready", "failed"}
    assert set(CONTROL_STATUS) == set(TASK.states)


def test_an_unknown_move_is_an_error():
    with pytest.raises(StopIteration):
        WORKER.move("explode")
