"""People: added, found, changed, removed; there is always an admin left who can let others in."""

from typing import NamedTuple

from takeup.core.access import ROLES, Role
from takeup.core.errors import Conflict, InvalidInput, NotFound
from takeup.core.people import Person, check_name, is_name, name_key
from takeup.store.op import Op, Row, Rows, query

PAGE_MAX = 200


class NameTaken(Conflict):
    """Somebody is called so already."""

    help = "Choose another name; upper and lower case do not make it another one."


class LastAdmin(Conflict):
    """Nobody would be left who can let others in."""

    help = "Make somebody else an admin first."


class Known(NamedTuple):
    """A person with the hash of his password."""

    person: Person
    password_hash: str


def add(person_id: str, *, name: str, password_hash: str, role: Role) -> Op[Person]:
    """A new person."""
    check_name(name)
    if role not in ROLES:
        raise InvalidInput(f"{role!r} is no role; there are: {', '.join(ROLES)}")
    if (yield query("person_by_name", name_key=name_key(name))):
        raise NameTaken(f"there is a person named {name!r}")
    yield query(
        "add_person", id=person_id, name=name, name_key=name_key(name), password_hash=password_hash, role=role
    )
    return (yield from _for_change(person_id)).person


def by_name(name: str) -> Op[Known | None]:
    """The person of this name."""
    if not is_name(name):
        return None
    rows = yield query("person_by_name", name_key=name_key(name))
    return known_of(rows[0]) if rows else None


def one(person_id: str) -> Op[Person]:
    """One person."""
    rows = yield query("person_by_id", id=person_id)
    return _only(rows, person_id).person


def page(after: str, limit_count: int) -> Op[list[Person]]:
    """A page of people in the order of their names; `after` is the last name of the page before."""
    rows = yield query("people_after", after=name_key(after), limit_count=min(max(limit_count, 1), PAGE_MAX))
    return [person_of(row) for row in rows]


def has_admin() -> Op[bool]:
    """Whether somebody can let others in."""
    return bool((yield query("acting_admin")))


def change(
    person_id: str,
    *,
    role: Role | None = None,
    disabled: bool | None = None,
    password_hash: str | None = None,
) -> Op[Person]:
    """Change what is given; a new password ends every session, and so does being disabled."""
    if role is not None and role not in ROLES:
        raise InvalidInput(f"{role!r} is no role; there are: {', '.join(ROLES)}")
    if disabled or role not in (None, "admin"):
        yield from _check_last(person_id)
    before, old_hash = yield from _for_change(person_id)
    now_role = before.role if role is None else role
    is_disabled = before.disabled if disabled is None else disabled
    yield query(
        "set_person",
        id=person_id,
        role=now_role,
        disabled=is_disabled,
        password_hash=old_hash if password_hash is None else password_hash,
    )
    if is_disabled or password_hash is not None:
        yield query("end_sessions_of", person_id=person_id)
    return (yield from _for_change(person_id)).person


def remove(person_id: str) -> Op[None]:
    """Let a person in no more; his name is free again."""
    yield from _check_last(person_id)
    yield from _for_change(person_id)
    yield query("end_sessions_of", person_id=person_id)
    yield query("remove_person", id=person_id)


def rehash(person_id: str, old_hash: str, password_hash: str) -> Op[None]:
    """The same password, hashed anew."""
    yield query("set_password_hash", id=person_id, old_hash=old_hash, password_hash=password_hash)


def _for_change(person_id: str) -> Op[Known]:
    return _only((yield query("person_for_change", id=person_id)), person_id)


def _only(rows: Rows, person_id: str) -> Known:
    if not rows:
        raise NotFound(
            f"no person has the id {person_id!r}", advice="`takeup people list` shows who there is."
        )
    return known_of(rows[0])


def _check_last(person_id: str) -> Op[None]:
    """Refuse to take away the last admin; all are locked, first and in one order: no ring of waiting."""
    admins = yield query("acting_admins_for_change")
    if [row["id"] for row in admins] == [person_id]:
        raise LastAdmin("this is the only admin")


def known_of(row: Row) -> Known:
    return Known(person_of(row), row["password_hash"])


def person_of(row: Row) -> Person:
    return Person(
        id=row["id"],
        name=row["name"],
        role=row["role"],
        disabled=bool(row["disabled"]),
        created_at=row["created_at"],
        changed_at=row["changed_at"],
    )
