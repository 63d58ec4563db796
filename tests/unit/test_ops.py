"""Operations without a database: each is fed rows at its yields, and what it asks for next is looked at."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from takeup.core.errors import IllegalMove, InvalidInput, InvalidResult, NotFound, VersionMismatch
from takeup.core.ids import Token, nonce_hash
from takeup.core.model import Completion, Failure, Held, Progress
from takeup.core.policy import REFUNDS_MAX
from takeup.store.op import Op, Query, Rows
from takeup.store.ops import claim, operate, orchestrate, recover, report
from takeup.store.ops.claim import ClaimRequest

HELD = Held(7, Token(3, "secret"))
Answers = Mapping[str, Rows | Callable[[Query], Rows]]


def play(op: Op[Any], answers: Answers) -> tuple[Any, list[Query]]:
    """Run an operation; a query that is not listed finds nothing. Answers with its result and its queries."""
    asked: list[Query] = []
    rows: Rows = []
    try:
        step = next(op)
        while True:
            if isinstance(step, Query):
                asked.append(step)
                answer = answers.get(step.name, [])
                rows = answer(step) if callable(answer) else answer
            step = op.send(rows)
            rows = []
    except StopIteration as stop:
        return stop.value, asked


def names(asked: list[Query]) -> list[str]:
    return [query.name for query in asked]


def test_a_move_is_made_only_from_its_sources():
    rows = [
        {"id": 1, "job_id": "j", "status": "NEW", "epoch": 0, "lease_owner": None, "nonce_hash": None},
        {"id": 2, "job_id": "j", "status": "DONE", "epoch": 1, "lease_owner": None, "nonce_hash": None},
    ]
    result, asked = play(operate.move_tasks("skip", rows), {"move_tasks": [{"id": 1}]})
    assert result == [1]
    assert asked[0].params["g"] == [(1, 0, "NEW", "SKIPPED")]
    assert names(asked) == ["move_tasks", "log_tasks"]


def test_a_row_that_changed_meanwhile_is_not_logged():
    rows = [{"id": 1, "status": "NEW", "epoch": 0}]
    result, asked = play(operate.move_tasks("ready", rows), {"move_tasks": []})
    assert result == []
    assert names(asked) == ["move_tasks"]


def test_a_refused_completion_writes_no_log_and_no_artifact():
    refusal = {
        "id": 7, "status": "READY", "ended_by": "expire", "ended_as": "READY", "ended_for": "w",
        "reason": None, "is_held": 0, "is_disabled": 0,
    }  # fmt: skip
    answers, asked = play(report.complete("w", [Completion(HELD)]), {"explain_refusals": [refusal]})
    assert (answers[0].accepted, answers[0].order, answers[0].status) == (False, "lost", "READY")
    assert names(asked) == ["complete_tasks", "explain_refusals"]


def test_a_refused_renewal_asks_for_nothing_but_the_reason():
    refusal = {
        "id": 7, "status": "READY", "ended_by": "expire", "ended_as": "READY", "ended_for": "w",
        "reason": None, "is_held": 0, "is_disabled": 0,
    }  # fmt: skip
    _, asked = play(report.renew("w", [Progress(HELD)]), {"explain_refusals": [refusal]})
    assert names(asked) == ["renew_tasks", "explain_refusals"]


def test_only_the_hash_of_a_nonce_is_sent():
    for op in (
        report.complete("w", [Completion(HELD)]),
        report.renew("w", [Progress(HELD)]),
        report.release("w", [HELD]),
        report.fail("w", [Failure(HELD, "x")], luck=lambda: 0.0),
    ):
        explained = {
            "id": 7, "status": None, "ended_by": None, "ended_as": None, "ended_for": None,
            "reason": None, "is_held": 0, "is_disabled": 0,
        }  # fmt: skip
        _, asked = play(op, {"explain_refusals": [explained]})
        text = str(asked)
        assert "'secret'" not in text
        assert nonce_hash("secret") in text


@pytest.mark.parametrize(
    ("ended_by", "ended_for", "accepted"),
    [("complete", "w", True), ("complete", "x", False), ("fail", "w", False), (None, None, False)],
)
def test_a_repeated_completion_is_known_by_its_end(ended_by, ended_for, accepted):
    row = {
        "id": 7, "status": "DONE", "ended_by": ended_by, "ended_as": "DONE", "ended_for": ended_for,
        "reason": None, "is_held": 0, "is_disabled": 0,
    }  # fmt: skip
    answers, _ = play(report.complete("w", [Completion(HELD)]), {"explain_refusals": [row]})
    assert answers[0].accepted is accepted


@pytest.mark.parametrize(
    ("attempt", "retryable", "status", "delay_s"),
    [
        (1, True, "ERROR", 10.0),
        (2, True, "ERROR", 20.0),
        (3, True, "FAILED", 40.0),
        (1, False, "FAILED", 10.0),
    ],
)
def test_a_failure_ends_by_its_attempts(attempt, retryable, status, delay_s):
    task = {"id": 7, "job_id": "j", "attempt": attempt, "max_attempts": 3, "refunds": 0}
    context = {**task, "retry": "{}", "error": None}
    answers, asked = play(
        report.fail("w", [Failure(HELD, "boom", retryable)], luck=lambda: 0.0),
        {"failure_context": [context], "fail_tasks": [{"id": 7, "job_id": "j", "status": status}]},
    )
    assert answers[0].status == status
    fail = next(query for query in asked if query.name == "fail_tasks")
    assert fail.params["g"] == [(7, 3, nonce_hash("secret"), status, "boom", delay_s)]
    assert ("closable_jobs" in names(asked)) == (status == "FAILED")


@pytest.mark.parametrize(
    ("attempt", "refunds", "expected"),
    [
        (1, 0, ("READY", 1)),
        (3, REFUNDS_MAX - 1, ("READY", 1)),
        (2, REFUNDS_MAX, ("READY", 0)),
        (3, REFUNDS_MAX, ("FAILED", 0)),
    ],
)
def test_a_release_refunds_a_few_times(attempt, refunds, expected):
    context = {
        "id": 7,
        "job_id": "j",
        "attempt": attempt,
        "max_attempts": 3,
        "refunds": refunds,
        "retry": "{}",
    }
    _, asked = play(
        report.release("w", [HELD]),
        {"failure_context": [context], "release_tasks": [{"id": 7, "job_id": "j", "status": expected[0]}]},
    )
    sent = next(query for query in asked if query.name == "release_tasks").params["g"][0]
    assert sent[3:5] == expected


def test_a_claim_takes_the_most_urgent_of_all_lanes_and_leaves_the_preferred_theirs():
    lanes = [{"lane_id": 1, "slots": 3, "deferred_count": 0}, {"lane_id": 2, "slots": 3, "deferred_count": 1}]
    made = {"job_id": "j", "job_status": "pending", "pipeline": "p", "phase": "processing", "available_at": 0}
    found = {
        1: [{**made, "id": 10, "priority": 5, "is_fresh": 1}],
        2: [{**made, "id": i, "priority": p, "is_fresh": 1} for i, p in ((20, 10), (21, 9), (22, 1))],
    }
    _, asked = play(
        claim.claim(ClaimRequest("w", "r", "s" * 32, limit=2)),
        {
            "claim_lanes": lanes,
            "claim_slots": [{"lease_slot": 2}],
            "claim_candidates": lambda query: found[query.params["lane_id"]],
        },
    )
    taken = next(query for query in asked if query.name == "claim_tasks").params["g"]
    assert [(task_id, slot) for task_id, slot, _ in taken] == [(21, 1), (10, 3)]


def test_an_overdue_lease_is_expired_with_its_reason():
    overdue = {"id": 7, "epoch": 3, "lease_owner": "w", "nonce_hash": "h", "attempt": 3, "max_attempts": 3}
    ids, asked = play(
        recover.expire(10),
        {"overdue_tasks": [overdue], "expire_tasks": [{"id": 7, "job_id": "j", "status": "FAILED"}]},
    )
    assert ids == [7]
    entry = next(query for query in asked if query.name == "log_tasks").params["g"][0]
    assert entry[:5] == (7, "bury", "RUNNING", "w", "h")
    assert "attempt 3 of 3" in entry[5]


def test_jobs_that_cannot_be_changed_are_told_apart():
    def job(**change: Any) -> dict[str, Any]:
        return {"id": "j", "status": "pending", "control": "READY", "priority": 5, "version": 2, **change}

    with pytest.raises(NotFound):
        play(operate.set_priority(["j"], 1), {})
    with pytest.raises(IllegalMove, match="completed"):
        play(operate.set_priority(["j"], 1), {"jobs_for_change": [job(status="completed")]})
    with pytest.raises(VersionMismatch, match="version 2, not 1"):
        play(operate.set_priority(["j"], 1, version=1), {"jobs_for_change": [job()]})
    with pytest.raises(InvalidInput):
        play(operate.set_control(["j"], "STOP"), {})  # type: ignore[arg-type]


def test_a_splitters_row_written_by_other_hands_fails_loudly():
    stage = {"job_id": "j", "stage": "encode", "status": "DONE", "result": '{"segments": "many"}'}
    with pytest.raises(InvalidResult, match="job j, stage encode"):
        play(
            orchestrate.expand([("j",)]),
            {"splittable_stages": [stage], "expand_stage": [{"stage": "encode"}]},
        )


def test_a_stage_that_another_expanded_is_left_alone():
    stage = {"job_id": "j", "stage": "encode", "status": "DONE", "result": '{"segments": 3}'}
    count, asked = play(orchestrate.expand([("j",)]), {"splittable_stages": [stage], "expand_stage": []})
    assert (count, names(asked)) == (0, ["splittable_stages", "expand_stage"])
