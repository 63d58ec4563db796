"""People and sessions on every database: what ended stays ended, and an admin is always left."""

import asyncio

import pytest

from takeup.core.errors import InvalidInput, NotFound
from takeup.core.keys import Key, parse_key
from takeup.store.ops.people import Known, LastAdmin, NameTaken
from takeup.store.ops.sessions import (
    IDLE_S,
    LIFE_S,
    SESSIONS_A_PERSON_MAX,
    SETUP_LIFE_S,
    AlreadySetUp,
    SetupRefused,
)
from takeup.store.store import Store
from tests.store.scenes import Clock


@pytest.fixture
def store(every_store: Store) -> Store:
    return every_store


async def add(store: Store, name: str = "Ann", role="admin") -> Known:
    return Known(await store.people.add(name, "hash", role), "hash")


async def begin(store: Store, known: Known) -> Key:
    session = await store.people.begin_session(known)
    assert session is not None
    assert parse_key(session.text) == session
    return session


async def is_in(store: Store, session: Key) -> bool:
    seen = await store.people.find_session(session)
    assert seen is not None
    return not seen.is_over


async def test_people_are_found_by_name_in_any_case(store: Store, clock: Clock):
    ann, bob = await add(store), await add(store, "bob", "viewer")
    found = await store.people.by_name("ANN")
    assert found == ann
    assert (ann.person.name, ann.person.role, ann.person.disabled) == ("Ann", "admin", False)
    assert ann.person.created_at == clock.now()
    assert await store.people.by_name("carl") is None
    assert await store.people.by_name("a\x00b") is None
    assert [one.name for one in await store.people.list()] == ["Ann", "bob"]
    assert await store.people.list(after="Ann", limit=1) == [bob.person]
    with pytest.raises(NameTaken):
        await add(store, "aNN")
    for name, role in ((" ann", "admin"), ("carl", "root")):
        with pytest.raises(InvalidInput):
            await add(store, name, role)
    assert await store.people.person(bob.person.id) == bob.person
    with pytest.raises(NotFound):
        await store.people.person("0" * 12)


async def test_a_session_is_found_by_its_secret_alone(store: Store):
    ann = await add(store)
    session = await begin(store, ann)
    seen = await store.people.find_session(session)
    assert seen is not None
    assert (seen.person, seen.is_over, seen.session_hash) == (ann.person, False, session.hash)
    assert await store.people.find_session(session._replace(secret=session.secret[::-1])) is None
    assert await store.people.find_session(session._replace(id="0" * 12)) is None
    assert (await store.people.end_session(session.id), await store.people.end_session(session.id)) == (
        True,
        False,
    )
    assert not await is_in(store, session)


async def test_a_session_ends_unused_and_at_its_age(store: Store, clock: Clock):
    ann = await add(store)
    idle, used = await begin(store, ann), await begin(store, ann)
    for _ in range(2):
        clock.pass_s(IDLE_S - 1)
        await store.people.note_session(used.id)
    assert (await is_in(store, idle), await is_in(store, used)) == (False, True)
    for _ in range(round(LIFE_S / IDLE_S) - 2):
        clock.pass_s(IDLE_S - 1)
        await store.people.note_session(used.id)
    assert await is_in(store, used)
    clock.pass_s(LIFE_S / IDLE_S + 1)
    assert not await is_in(store, used)


@pytest.mark.parametrize("change", ["password", "disable", "remove"])
async def test_a_change_ends_every_session(store: Store, change: str):
    await add(store, "other")
    ann, bob = await add(store), await add(store, "bob", "viewer")
    sessions = [await begin(store, ann) for _ in range(2)]
    bobs = await begin(store, bob)
    if change == "password":
        await store.people.change(ann.person.id, password_hash="new")  # noqa: S106 - a test's own
    elif change == "disable":
        assert (await store.people.change(ann.person.id, disabled=True)).disabled
    else:
        await store.people.remove(ann.person.id)
    assert [await is_in(store, session) for session in sessions] == [False, False]
    assert await is_in(store, bobs)
    assert await store.people.begin_session(ann) is None, "who was let in by the old password is too late"


async def test_a_role_changes_and_sessions_go_on(store: Store):
    ann = await add(store, role="viewer")
    session = await begin(store, ann)
    assert (await store.people.change(ann.person.id, role="operator")).role == "operator"
    seen = await store.people.find_session(session)
    assert seen is not None
    assert (seen.is_over, seen.person.role) == (False, "operator")
    with pytest.raises(InvalidInput, match="no role"):
        await store.people.change(ann.person.id, role="root")  # type: ignore[arg-type]


async def test_a_removed_person_is_gone_and_his_name_is_free(store: Store):
    await add(store)
    for _ in range(2):
        bob = await add(store, "bob", "viewer")
        await store.people.remove(bob.person.id)
        assert await store.people.by_name("bob") is None
        for gone in (store.people.person(bob.person.id), store.people.remove(bob.person.id)):
            with pytest.raises(NotFound):
                await gone
    assert [one.name for one in await store.people.list()] == ["Ann"]


async def test_an_admin_is_always_left(store: Store):
    ann, bob = await add(store), await add(store, "bob")
    await store.people.change(bob.person.id, role="viewer")
    for change in (
        store.people.change(ann.person.id, role="operator"),
        store.people.change(ann.person.id, disabled=True),
        store.people.remove(ann.person.id),
    ):
        with pytest.raises(LastAdmin):
            await change
    await store.people.change(bob.person.id, role="admin")
    assert (await store.people.change(ann.person.id, role="operator")).role == "operator"


async def test_two_admins_that_take_each_other_away_leave_one(store: Store):
    ids = [(await add(store, name)).person.id for name in ("Ann", "bob")]
    ends = await asyncio.gather(*map(store.people.remove, ids), return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["LastAdmin", "NoneType"]
    assert await store.people.has_admin()


async def test_sessions_of_one_person_are_bounded_and_forgotten(store: Store, clock: Clock):
    ann = await add(store)
    sessions = []
    for _ in range(SESSIONS_A_PERSON_MAX + 2):
        clock.pass_s(1)
        sessions.append(await begin(store, ann))
    found = [await store.people.find_session(session) for session in sessions]
    alive = [seen is not None and not seen.is_over for seen in found]
    assert alive == [False, False, *[True] * SESSIONS_A_PERSON_MAX]
    assert found[0] is None, "what ended is forgotten at the next login"


async def test_the_same_password_hashed_anew(store: Store):
    ann = await add(store)
    session = await begin(store, ann)
    anew = await store.people.rehash(ann, "better")
    assert await store.people.by_name("Ann") == anew
    assert await is_in(store, session)
    late = await store.people.rehash(ann, "late")
    assert await store.people.begin_session(late) is None, "it had changed before"


async def test_a_link_makes_one_admin_once(store: Store):
    old, link = [await store.people.offer_setup() for _ in range(2)]
    assert old is not None
    assert link is not None
    assert [await store.people.knows_setup(one) for one in (old, link)] == [True, True]
    wrong = link._replace(secret=link.secret[::-1])
    assert not await store.people.knows_setup(wrong)
    with pytest.raises(SetupRefused):
        await store.people.set_up(wrong, "Ann", "hash")
    ann = await store.people.set_up(link, "Ann", "hash")
    assert (ann.name, ann.role) == ("Ann", "admin")
    for used in (old, link):
        assert not await store.people.knows_setup(used)
        with pytest.raises(SetupRefused):
            await store.people.set_up(used, "Eve", "hash")
    assert await store.people.offer_setup() is None
    assert await store.people.add_first("admin", "hash") is None
    assert [one.name for one in await store.people.list()] == ["Ann"]


async def test_a_link_is_over_after_a_day_and_once_there_is_an_admin(store: Store, clock: Clock):
    late = await store.people.offer_setup()
    assert late is not None
    clock.pass_s(SETUP_LIFE_S + 1)
    with pytest.raises(SetupRefused):
        await store.people.set_up(late, "Ann", "hash")
    link = await store.people.offer_setup()
    assert link is not None
    await add(store)
    with pytest.raises(AlreadySetUp):
        await store.people.set_up(link, "Eve", "hash")


async def test_two_who_set_up_at_once_make_one_admin(store: Store):
    links = [await store.people.offer_setup() for _ in range(2)]
    made = await asyncio.gather(
        *(store.people.set_up(link, f"p{n}", "hash") for n, link in enumerate(links) if link),
        store.people.add_first("admin", "hash"),
        return_exceptions=True,
    )
    assert len(await store.people.list()) == 1, made
