"""Sessions: begun at login, found by what a cookie shows, ended; and the one-time way to the first admin."""

from typing import NamedTuple

from takeup.core.errors import Conflict, TakeupError
from takeup.core.keys import Key
from takeup.core.people import Person
from takeup.store.op import Op, query
from takeup.store.ops import people

LIFE_S, IDLE_S = 7 * 86_400.0, 12 * 3600.0
"""So long a session lasts at most, and so long without being used."""
SETUP_LIFE_S = 86_400.0
SESSIONS_A_PERSON_MAX = 20


class SetupRefused(TakeupError):
    """The link is unknown, was used, or is too old."""

    http_status = 403
    help = "Start `takeup serve` again: as long as there is no admin, it prints a new link."


class AlreadySetUp(Conflict):
    """There is an admin."""

    help = "Log in, or let an admin add you; `takeup people` on the server does that too."


class Seen(NamedTuple):
    """A session as it is now."""

    session_id: str
    session_hash: str
    person: Person
    is_over: bool


def begin(session: Key, known: people.Known) -> Op[bool]:
    """Let somebody in whose password was right; not if he was changed since. What is over is forgotten."""
    rows = yield query("person_for_change", id=known.person.id)
    if not rows or rows[0]["disabled"] or rows[0]["password_hash"] != known.password_hash:
        return False
    person_id = known.person.id
    yield query("forget_sessions", person_id=person_id, life_s=LIFE_S, idle_s=IDLE_S)
    yield query("end_unseen_sessions", person_id=person_id, kept_count=SESSIONS_A_PERSON_MAX - 1)
    yield query("add_session", id=session.id, session_hash=session.hash, person_id=person_id)
    return True


def find(session_id: str, session_hash: str) -> Op[Seen | None]:
    """A session and whose it is."""
    rows = yield query(
        "session_by_secret", id=session_id, session_hash=session_hash, life_s=LIFE_S, idle_s=IDLE_S
    )
    if not rows:
        return None
    row = rows[0]
    return Seen(row["session_id"], row["session_hash"], people.person_of(row), bool(row["is_over"]))


def see(session_id: str) -> Op[None]:
    """It was used now."""
    yield query("see_session", id=session_id)


def end(session_id: str) -> Op[bool]:
    """Log out; whether it was alive."""
    return bool((yield query("end_session", id=session_id)))


def offer_setup(link: Key) -> Op[bool]:
    """A one-time way to the first admin; False if there is one already."""
    if (yield from people.has_admin()):
        return False
    yield query("forget_setups")
    yield query("add_setup", id=link.id, token_hash=link.hash, life_s=SETUP_LIFE_S)
    return True


def setup_hash(setup_id: str) -> Op[str | None]:
    """The hash of a link that can be used."""
    rows = yield query("setup_by_id", id=setup_id)
    return None if not rows or rows[0]["is_over"] else rows[0]["token_hash"]


def set_up(link: Key, person_id: str, *, name: str, password_hash: str) -> Op[Person]:
    """The first admin, by his link; no link can be used after it."""
    used = yield query("use_setups")
    if (link.id, link.hash) not in {(row["id"], row["token_hash"]) for row in used}:
        raise SetupRefused("this link cannot be used")
    if (yield from people.has_admin()):
        raise AlreadySetUp("there is an admin already")
    return (yield from people.add(person_id, name=name, password_hash=password_hash, role="admin"))


def add_first(person_id: str, *, name: str, password_hash: str) -> Op[Person | None]:
    """The first admin, by whoever starts the server; None if there is one already."""
    yield query("use_setups")  # first, so that whoever uses one at the same time waits
    if (yield from people.has_admin()):
        return None
    return (yield from people.add(person_id, name=name, password_hash=password_hash, role="admin"))
