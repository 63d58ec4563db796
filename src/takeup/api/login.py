"""How people come in and go: log in, set up the first admin, log out, and change one's own password."""

import re
from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from takeup.api.access import Anyone, Own, TwoCredentials, address_of
from takeup.api.crossing import check_origin, csrf_token
from takeup.api.desk import Desk, Entered
from takeup.api.edge import large_body
from takeup.api.gate import Gate
from takeup.api.jobs import CHANGE, LOOK, app_of
from takeup.api.pages import Body
from takeup.api.problems import refusals
from takeup.api.strict import OpenRoute, StrictRoute
from takeup.core.access import ROLES, SCOPES, Role, Scope
from takeup.core.keys import parse_key
from takeup.telemetry.logs import logger

HOME = "/"
RELATIVE = re.compile(r"/(?![/\\])[!-\[\]-~]*\Z")
"""A place on this server: one slash, then nothing that a browser would drop or take for a slash."""
WORD_CHARS_MAX = 1024
STRANGER_BYTES_MAX = 10_000
"""The body of somebody who is not known yet."""

log = logger("api")

strangers = APIRouter(prefix="/api", tags=["people"], route_class=OpenRoute)
own = APIRouter(prefix="/api", tags=["people"], route_class=StrictRoute)


class LoginBody(Body):
    """Who wants to come in."""

    name: str = Field(min_length=1, max_length=WORD_CHARS_MAX)
    password: str = Field(min_length=1, max_length=WORD_CHARS_MAX)
    next: str = Field(default=HOME, max_length=WORD_CHARS_MAX)
    """Where he wanted to go; only a place on this server is answered."""


class SetupBody(Body):
    """The first admin, with what stands behind the `#` of the link that the server printed."""

    token: str = Field(min_length=1, max_length=WORD_CHARS_MAX)
    name: str = Field(min_length=1, max_length=WORD_CHARS_MAX)
    password: str = Field(min_length=1, max_length=WORD_CHARS_MAX)


class PasswordBody(Body):
    """Another password for oneself."""

    old: str = Field(min_length=1, max_length=WORD_CHARS_MAX)
    new: str = Field(min_length=1, max_length=WORD_CHARS_MAX)


class Me(BaseModel):
    """Who one is: a person with a role, or a key."""

    user: str
    name: str
    role: Role | None
    scopes: list[Scope]
    csrf_token: str | None
    """What a page sends as `X-CSRF-Token` with every change."""


class LoggedIn(Me):
    """Who one is, and where to go."""

    next: str


@strangers.post("/login", responses=refusals(400, 401, 403, 413, 415, 422, 429, 431, 500, 503))
@large_body(STRANGER_BYTES_MAX)
async def log_in(request: Request, response: Response, body: LoginBody) -> LoggedIn:
    """Begin a session; one that the same browser had ends."""
    _check_stranger(request)
    entered = await desk_of(request).log_in(body.name, body.password, address_of(request))
    await _end_shown(request)
    me = _welcome(request, response, entered)
    return LoggedIn(**me.model_dump(), next=within(body.next))


@strangers.post("/setup", responses=refusals(400, 401, 403, 409, 413, 415, 422, 429, 431, 500, 503))
@large_body(STRANGER_BYTES_MAX)
async def set_up(request: Request, response: Response, body: SetupBody) -> Me:
    """Make the first admin, and log him in."""
    _check_stranger(request)
    entered = await desk_of(request).set_up(body.token, body.name, body.password, address_of(request))
    return _welcome(request, response, entered)


@own.post("/logout", status_code=HTTPStatus.NO_CONTENT, responses=CHANGE, response_class=Response)
async def log_out(request: Request, response: Response, session: Own) -> None:
    """Log out: the cookie opens nothing any more."""
    await app_of(request).store.people.end_session(session.id)
    gate = gate_of(request)
    gate.sessions.forget(session.hash)
    gate.cookies.take_back(request, response)
    log.info("a person logged out", person=session.person.id)


@own.get("/me", responses=LOOK)
async def me(caller: Anyone) -> Me:
    """Who one is, and what one may do."""
    session = caller.session
    return Me(
        user=caller.user,
        name=caller.name,
        role=session.person.role if session else None,
        scopes=_in_order(caller.scopes),
        csrf_token=session.csrf_token if session else None,
    )


@own.post("/me/password", responses=CHANGE)
async def change_password(request: Request, response: Response, session: Own, body: PasswordBody) -> Me:
    """Change one's own password; every session ends, and a new one begins here."""
    desk = desk_of(request)
    entered = await desk.change_password(session.person, body.old, body.new, address_of(request))
    gate_of(request).sessions.forget(session.hash)
    return _welcome(request, response, entered)


def desk_of(request: Request) -> Desk:
    """Where people are let in."""
    desk: Desk = request.app.state.desk
    return desk


def gate_of(request: Request) -> Gate:
    """Where callers are known."""
    gate: Gate = request.app.state.gate
    return gate


def within(place: str) -> str:
    """The place, if it is one on this server."""
    return place if RELATIVE.match(place) else HOME


def _check_stranger(request: Request) -> None:
    """Refuse what another site makes a browser send, and whoever is somebody already."""
    check_origin(request)
    if request.headers.getlist("authorization"):
        raise TwoCredentials("there is an Authorization header as well")


async def _end_shown(request: Request) -> None:
    """End what the same browser showed before: a session never goes on in other hands."""
    gate, people = gate_of(request), app_of(request).store.people
    for text in gate.cookies.shown(request)[:1]:
        shown = parse_key(text)
        seen = await people.find_session(shown) if shown is not None and shown.kind == "ses" else None
        if seen is not None:
            await people.end_session(seen.session_id)
            gate.sessions.forget(seen.session_hash)


def _welcome(request: Request, response: Response, entered: Entered) -> Me:
    gate_of(request).cookies.give(request, response, entered.session.text)
    person = entered.person
    return Me(
        user=f"person:{person.id}",
        name=person.name,
        role=person.role,
        scopes=_in_order(ROLES[person.role]),
        csrf_token=csrf_token(entered.session),
    )


def _in_order(scopes: frozenset[Scope]) -> list[Scope]:
    return [scope for scope in SCOPES if scope in scopes]
