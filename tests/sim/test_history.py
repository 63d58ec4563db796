"""Every invariant has a history that breaks it, and only it; and histories that are fine are left alone."""

import time
from collections.abc import Callable

import pytest

from takeup.testing.history import Settings, check
from tests.sim import bad_calls, bad_logs
from tests.sim.histories import BAD, SETTINGS, Case, Log, at, one_task

assert bad_calls
assert bad_logs


def judged(log: Log, settings: Settings | None = None, *, rows: bool = True) -> list[str]:
    found = check(log.events, log.calls, log.tables() if rows else None, settings or SETTINGS)
    return [violation.invariant for violation in found]


@pytest.mark.parametrize(("invariant", "case"), BAD, ids=[f"{i}-{case.__name__}" for i, case in BAD])
def test_bad_history_is_flagged_by_exactly_its_invariant(invariant: str, case: Case):
    log = one_task()
    settings = case(log)
    assert judged(log, settings) == [invariant]


def test_every_decidable_invariant_has_a_bad_history():
    undecidable = {"I21", "I22", "I29"}
    assert {invariant for invariant, _ in BAD} == {f"I{n}" for n in range(1, 29)} - undecidable | {"ORDER"}


def good_retry(log: Log) -> None:
    log.move(1, "claim")
    log.move(2, "fail")
    log.move(12, "wake")
    log.move(13, "claim")
    log.move(16, "renew")
    log.move(27, "expire")
    log.move(28, "claim")
    log.move(29, "complete")
    log.finished()


def good_publication(log: Log) -> None:
    file_before = (1, 1, "nonce-1-1")
    bad_calls.wins(log)
    bad_calls.file(log, 3, "publish")
    log.call(4, "complete", "invoke", "r2", worker="w1", held=[file_before])
    log.call(4, "complete", "ok", "r2", worker="w1", held=[file_before], value=[(1, True, "DONE")])


def good_loss(log: Log) -> None:
    log.call(1, "heartbeat", "invoke", "h1", worker="w1")
    log.call(1, "heartbeat", "ok", "h1", worker="w1", value="active")
    log.worker_event(40, "lose", after="offline")
    log.worker_event(41, "revive", before="offline")
    log.move(42, "claim")


def good_unknown(log: Log) -> None:
    held = [(1, 1, "nonce-1-1")]
    log.call(2, "complete", "invoke", "r2", worker="w1", held=held)
    log.call(3, "complete", "info", "r2", worker="w1", held=held)
    log.move(1, "claim")


def good_cancel(log: Log) -> None:
    log.task(2, "NEW", stage="after")
    log.move(1, "claim")
    log.move(2, "cancel", from_status="RUNNING", actor="operator")
    log.move(3, "abandon", 2)
    log.job_event(3, "cancel", "cancelled")
    log.message("j1", "cancelled")


@pytest.mark.parametrize("case", [good_retry, good_publication, good_loss, good_unknown, good_cancel])
def test_good_history_is_left_alone(case: Callable[[Log], None]):
    log = one_task()
    case(log)
    assert judged(log) == []


def test_without_tables_and_calls_the_log_alone_is_judged():
    log = one_task()
    bad_logs.completed_with_a_stale_token(log)
    assert judged(log, rows=False) == ["I3"]


def test_a_violation_says_where_and_shows_its_events():
    log = one_task()
    bad_logs.claimed_while_held(log)
    (violation,) = check(log.events, rows=log.tables(), settings=SETTINGS)
    assert str(violation).startswith("I1 task 1 j1: claimed by w2 while w1 holds it")
    assert [event.event for event in violation.events] == ["claim", "claim"]


def test_a_million_events_take_less_than_a_minute():
    log = one_task(max_attempts=20_000)
    for turn in range(10_000):
        log.move(turn * 3, "claim")
        log.move(turn * 3 + 1, "renew")
        log.move(turn * 3 + 2, "fail", available_at=at(turn * 3 + 3), attempt=turn + 1)
        log.move(turn * 3 + 3, "wake")
    begun = time.process_time()
    assert judged(log) == []
    assert time.process_time() - begun < 60 * len(log.events) / 1_000_000
