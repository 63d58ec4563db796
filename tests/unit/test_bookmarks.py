"""Bookmarks: where each lane goes on, and how long that holds."""

from datetime import UTC, datetime

import pytest

from takeup.store.bookmarks import FRESH_S, SHELF_MAX, Bookmark, Bookmarks, Shelf
from takeup.testing.clocks import ManualClock

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)


def row(task_id: int, lane_id: int = 1, priority: int = 5) -> dict[str, object]:
    return {"id": task_id, "lane_id": lane_id, "priority": priority, "available_at": MOMENT}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def bookmarks(clock: ManualClock) -> Bookmarks:
    return Bookmarks(lambda: clock.now().timestamp())


def test_a_lane_is_marked_at_the_last_of_its_tasks(bookmarks):
    bookmarks.note([row(3), row(7), row(1, priority=9), row(9, lane_id=2)], 4, is_look_at_all=True)
    assert bookmarks.fresh() == {1: Bookmark(-5, MOMENT, 7), 2: Bookmark(-5, MOMENT, 9)}


def test_a_look_at_everything_may_move_a_mark_back(bookmarks):
    bookmarks.note([row(7)], 1, is_look_at_all=True)
    bookmarks.note([row(2, priority=9)], 1, is_look_at_all=True)
    assert bookmarks.fresh() == {1: Bookmark(-9, MOMENT, 2)}
    bookmarks.note([], 1, is_look_at_all=True)
    assert bookmarks.fresh() == {1: Bookmark(-9, MOMENT, 2)}


def test_a_look_at_everything_that_stops_early_moves_back_the_marks_of_all_lanes(bookmarks):
    bookmarks.note([row(7), row(8, lane_id=2)], 2, is_look_at_all=True)
    bookmarks.note([row(9, priority=10)], 1, is_look_at_all=True)
    assert bookmarks.fresh() == {1: Bookmark(-10, MOMENT, 9), 2: Bookmark(-10, MOMENT, 9)}


def test_marks_hold_for_a_moment_after_a_look_at_everything(bookmarks, clock):
    assert bookmarks.fresh() == {}
    bookmarks.note([row(1)], 1, is_look_at_all=True)
    clock.advance(FRESH_S / 2)
    bookmarks.note([row(2)], 1, is_look_at_all=False)
    assert bookmarks.fresh() == {1: Bookmark(-5, MOMENT, 2)}
    clock.advance(FRESH_S / 2)
    assert bookmarks.fresh() == {}, "a claim from the marks on does not renew them"


def test_less_than_wanted_behind_the_marks_ends_them(bookmarks):
    bookmarks.note([row(1)], 1, is_look_at_all=True)
    bookmarks.note([row(2)], 5, is_look_at_all=False)
    assert bookmarks.fresh() == {}


def test_every_worker_has_bookmarks_of_its_own():
    shelf = Shelf()
    mine = shelf.of("me")
    mine.note([row(1)], 1, is_look_at_all=True)
    assert (shelf.of("me") is mine, shelf.of("you").fresh()) == (True, {})
    for number in range(SHELF_MAX):
        shelf.of(str(number))
    assert shelf.of("me") is not mine, "there are not ever more of them"
