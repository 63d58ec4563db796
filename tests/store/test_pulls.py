"""Pulls on every database: one holder at a time, and only he says how it ended."""

import pytest

from takeup.core.errors import NotFound
from takeup.core.pulls import Beat, Pull, PullEnd
from takeup.core.videos import About
from takeup.store.ops.uploads import Quota
from takeup.store.store import Store
from tests.store.scenes import Clock

LEASE_S = 60.0
ABOUT = About("A film", "film.mp4", slug="mine")


async def add(store: Store, user: str = "key:me") -> Pull:
    return await store.pulls.add(user, "https://example.com/film.mp4", ABOUT, count_max=3)


async def take(store: Store) -> list[Pull]:
    return await store.pulls.take(limit=5, lease_s=LEASE_S)


async def test_one_holder_at_a_time(every_store: Store, clock: Clock):
    store = every_store
    made = await add(store)
    assert (made.status, made.about, made.attempt, made.length_bytes) == ("WAITING", ABOUT, 0, None)
    (held,) = await take(store)
    assert (held.id, held.status, held.attempt, await take(store)) == (made.id, "RUNNING", 1, [])
    assert await store.pulls.beat(held, Beat(5, 10, '"tag"'), lease_s=LEASE_S)
    clock.pass_s(LEASE_S - 1)
    assert await take(store) == []
    assert await store.pulls.beat(held, Beat(6, 10, '"tag"'), lease_s=LEASE_S)
    clock.pass_s(LEASE_S + 1)
    (other,) = await take(store)
    assert (other.attempt, other.received_bytes, other.validator, other.failures) == (2, 6, '"tag"', 0)
    assert not await store.pulls.beat(held, Beat(7, 10, ""), lease_s=LEASE_S)
    assert not await store.pulls.end(held, PullEnd("FAILED", "late"))
    assert await store.pulls.end(other, PullEnd("DONE"))
    assert not await store.pulls.end(other, PullEnd("FAILED", "late"))
    now = await store.pulls.find(made.id, "key:me")
    assert (now.status, now.error, now.is_over, now.received_bytes) == ("DONE", None, True, 6)


async def test_again_after_a_while(every_store: Store, clock: Clock):
    store = every_store
    await add(store)
    (held,) = await take(store)
    assert await store.pulls.end(held, PullEnd("WAITING", "it answered 503", 1, delay_s=10.0))
    assert await take(store) == []
    clock.pass_s(10)
    (held,) = await take(store)
    assert (held.failures, held.error, held.attempt) == (1, "it answered 503", 2)


async def test_cancelled_it_is_nobodys(every_store: Store, clock: Clock):
    store = every_store
    first, second = await add(store), await add(store)
    assert await store.pulls.cancel(first.id, "key:me")
    (held,) = await take(store)
    assert held.id == second.id
    assert await store.pulls.cancel(second.id, "key:me")
    assert not await store.pulls.beat(held, Beat(1, 2, ""), lease_s=LEASE_S)
    assert not await store.pulls.cancel(second.id, "key:me")
    with pytest.raises(NotFound):
        await store.pulls.cancel(first.id, "key:other")
    assert await store.pulls.forget(100.0) == 0
    clock.pass_s(200)
    assert await store.pulls.forget(100.0) == 2
    assert await store.pulls.among([first.id, second.id]) == {}


async def test_everybody_has_so_many_and_sees_his_own(every_store: Store, clock: Clock):
    store = every_store
    mine = []
    for _ in range(3):
        mine.append(await add(store))
        clock.pass_s(1)
    with pytest.raises(Quota, match="3 files are being pulled"):
        await add(store)
    await add(store, "key:other")
    newest = [one.id for one in reversed(mine)]
    assert [one.id for one in await store.pulls.page("key:me")] == newest
    assert [one.id for one in await store.pulls.page("key:me", before=mine[1])] == newest[2:]
    assert [one.id for one in await store.pulls.page("key:me", limit=2)] == newest[:2]
    with pytest.raises(NotFound):
        await store.pulls.find(mine[0].id, "key:other")
    await store.pulls.cancel(mine[0].id, "key:me")
    await add(store)


async def test_users_are_taken_in_turn(every_store: Store, clock: Clock):
    store = every_store
    for user in ("key:me", "key:me", "key:me", "key:other", "key:third"):
        await add(store, user)
        clock.pass_s(1)
    order = []
    for _ in range(5):
        order += await store.pulls.take(limit=1, lease_s=LEASE_S)
        clock.pass_s(1)
    assert [one.user_id for one in order] == ["key:me", "key:other", "key:third", "key:me", "key:me"]


async def test_one_user_has_no_more_than_his_share(every_store: Store, clock: Clock):
    store = every_store
    for user in ("key:me", "key:me", "key:me", "key:other"):
        await add(store, user)
        clock.pass_s(1)
    took = await store.pulls.take(limit=3, lease_s=LEASE_S, share=2)
    assert sorted(one.user_id for one in took) == ["key:me", "key:me", "key:other"]
    assert await store.pulls.take(limit=3, lease_s=LEASE_S, share=2, held={"key:me": 2}) == []
    assert await store.pulls.next_user(2, {"key:me": 2}) is None
    assert await store.pulls.next_user(2, {"key:me": 1, "key:other": 1}) == "key:me"


async def test_how_long_it_is_waited_for(every_store: Store, clock: Clock):
    made = await add(every_store)
    clock.pass_s(99)
    assert not await every_store.pulls.has_waited(made, 100)
    clock.pass_s(1)
    assert await every_store.pulls.has_waited(made, 100)
