"""People, as an admin sees them: added, listed, changed, removed."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from takeup.api.access import Admin
from takeup.api.jobs import CHANGE, LOOK, Changed, app_of
from takeup.api.login import WORD_CHARS_MAX, desk_of
from takeup.api.pages import LIMIT_DEFAULT, Body, Limit, Page, page_of
from takeup.api.strict import StrictRoute
from takeup.core.access import Role
from takeup.core.people import NAME_CHARS_MAX, Person, check_name, check_password
from takeup.telemetry.logs import logger

log = logger("api")

router = APIRouter(prefix="/api/people", tags=["people"], route_class=StrictRoute)
PersonId = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")]


class NewPersonBody(Body):
    """Somebody who may log in."""

    name: str = Field(min_length=1, max_length=NAME_CHARS_MAX)
    password: str = Field(min_length=1, max_length=WORD_CHARS_MAX)
    role: Role = "viewer"


class PersonBody(Body):
    """What of a person is changed; what is not given stays."""

    role: Role | None = None
    disabled: bool | None = None
    password: str | None = Field(default=None, min_length=1, max_length=WORD_CHARS_MAX)


class NewPerson(BaseModel):
    """The new person."""

    id: str


@router.get("", responses=LOOK)
async def list_people(
    request: Request,
    _caller: Admin,
    after: Annotated[str, Query(max_length=NAME_CHARS_MAX)] = "",
    limit: Limit = LIMIT_DEFAULT,
) -> Page[Person]:
    """People in the order of their names; `next` is a name."""
    rows = await app_of(request).store.people.list(after=after, limit=limit)
    return page_of(rows, limit, "name")


@router.post("", status_code=HTTPStatus.CREATED, responses=CHANGE)
async def add_person(request: Request, caller: Admin, body: NewPersonBody) -> NewPerson:
    """Let somebody log in."""
    check_name(body.name)
    check_password(body.name, body.password)
    password_hash = await desk_of(request).passwords.hash_of(body.password)
    person = await app_of(request).store.people.add(body.name, password_hash, body.role)
    log.info("a person was added", person=person.id, role=person.role, by=caller.user)
    return NewPerson(id=person.id)


@router.get("/{person_id}", responses=LOOK)
async def person(request: Request, _caller: Admin, person_id: PersonId) -> Person:
    """One person."""
    return await app_of(request).store.people.person(person_id)


@router.patch("/{person_id}", responses=CHANGE)
async def change_person(request: Request, caller: Admin, person_id: PersonId, body: PersonBody) -> Person:
    """Change a role, let somebody in no more or again, set a password; it counts within a second."""
    people = app_of(request).store.people
    password_hash = None
    if body.password is not None:
        check_password((await people.person(person_id)).name, body.password)
        password_hash = await desk_of(request).passwords.hash_of(body.password)
    changed = await people.change(
        person_id, role=body.role, disabled=body.disabled, password_hash=password_hash
    )
    what = sorted(body.model_dump(exclude_none=True))
    log.info("a person was changed", person=person_id, what=", ".join(what), by=caller.user)
    return changed


@router.delete("/{person_id}", responses=CHANGE)
async def remove_person(request: Request, caller: Admin, person_id: PersonId) -> Changed:
    """Let somebody in no more, for good; what he did stays his."""
    await app_of(request).store.people.remove(person_id)
    log.info("a person was removed", person=person_id, by=caller.user)
    return Changed(id=person_id, changed=True)
