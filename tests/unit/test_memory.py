"""What the edge keeps in mind is bounded, in time and in size."""

import pytest

from takeup.api import memory
from takeup.api.memory import Lately, Rarely, Tries


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(memory, "KEPT_MAX", 3)


def test_tries_are_too_many_until_the_window_has_moved_on(time: Time):
    tries = Tries(time, most=2, within_s=60.0)
    for at, is_too_many in ((0, False), (30, True), (59, True), (61, False)):
        time.now = 100.0 + at
        if at <= 30:
            tries.add("a")
        assert tries.are_too_many("a") is is_too_many, at
    assert not tries.are_too_many("b")


def test_whoever_tried_last_is_remembered(time: Time):
    tries = Tries(time, most=1, within_s=60.0)
    for who in "abcad":
        tries.add(who)
    assert [who for who in "abcd" if tries.are_too_many(who)] == ["a", "c", "d"]


def test_what_was_found_is_kept_for_a_moment(time: Time):
    lately: Lately[str] = Lately(time, for_s=0.5)
    lately.keep("a", "x")
    assert (lately.get("a"), lately.get("b")) == ("x", None)
    time.now += 0.6
    assert lately.get("a") is None
    for name in "abcd":
        lately.keep(name, name)
    lately.forget("d")
    assert [lately.get(name) for name in "abcd"] == [None, "b", "c", None]


def test_it_is_time_now_and_then(time: Time):
    rarely = Rarely(time, every_s=60.0)
    assert [rarely.is_time("a"), rarely.is_time("a"), rarely.is_time("b")] == [True, False, True]
    time.now += 61
    assert rarely.is_time("a")
