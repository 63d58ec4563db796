"""Who calls, and what he must be allowed: what every route is given; how he is known is in gate.py."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple, Protocol

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer
from starlette.requests import ClientDisconnect

from takeup.api.cookies import GUARDED_NAME
from takeup.api.problems import HttpError
from takeup.core.access import Scope
from takeup.core.people import Person

KNOWN_S = 0.5
"""So long somebody is taken as he was seen last, and not longer: a second later nobody lets him in."""
CHECK_S = 2.0
"""How often it is asked, while a call goes on, whether its caller may still do it."""
FAILURES_MAX, FAILURES_S = 20, 60.0

bearer = HTTPBearer(auto_error=False, description="A key made by `takeup keys create`.")
cookie = APIKeyCookie(
    name=GUARDED_NAME,
    scheme_name="Session",
    auto_error=False,
    description="The session of a person. Whatever changes something carries `X-CSRF-Token` as well.",
)
"""Only for the document: who calls is read in the gate, where two credentials are seen."""


class Unauthenticated(HttpError):
    """Nobody is known by what was shown."""

    http_status = 401
    help = "Log in, or send `Authorization: Bearer KEY` with a key that `takeup keys create` printed."
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class KeyExpired(Unauthenticated):
    """The key was good until it expired."""

    help = "Ask for a new key: `takeup keys create`."


class SessionOver(Unauthenticated):
    """The session was good until it ended."""

    help = "Log in again."


class OutOfScope(HttpError):
    """The caller is known, but may not do this."""

    http_status = 403
    help = "Use a key with the scope that the message names, or ask an admin for a role that has it."

    @property
    def code(self) -> str:
        return "scope"


class NotAPerson(HttpError):
    """Only people who logged in can do it."""

    http_status = 403
    help = "Log in; a key belongs to nobody and has no password."


class TwoCredentials(HttpError):
    """More than one credential was sent."""

    http_status = 400
    help = "Send one `Authorization` header, or the cookie of one session, and nothing of the kind besides."


class TooManyFailures(HttpError):
    """Too many credentials were wrong from one address."""

    http_status = 429
    help = "Wait for as long as `Retry-After` says, and send a key that is right."
    headers: Mapping[str, str] = {"Retry-After": str(round(FAILURES_S))}


class Session(NamedTuple):
    """What a person's cookie stands for."""

    id: str
    hash: str
    person: Person
    csrf_token: str


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls; `user` says whose the jobs are that he creates."""

    user: str
    name: str
    scopes: frozenset[Scope]
    worker_id: str | None = None
    session: Session | None = None


class Knowing(Protocol):
    """What knows callers; there is one in gate.py."""

    async def caller(self, request: Request) -> Caller:
        """Who sent this; raises if nobody may be known by it."""
        ...


def address_of(request: Request) -> str:
    """From where it was sent."""
    return request.client.host if request.client else ""


async def known_caller(request: Request) -> Caller:
    """Who calls, asked once a request."""
    if not hasattr(request.state, "caller"):
        gate: Knowing = request.app.state.gate
        request.state.caller = await gate.caller(request)
    caller: Caller = request.state.caller
    return caller


def need(scope: Scope) -> Callable[..., Awaitable[Caller]]:
    """A caller with this scope."""

    async def check(
        request: Request,
        _documented: Annotated[object, Security(bearer, scopes=[scope])],
        _also: Annotated[object, Security(cookie, scopes=[scope])],
    ) -> Caller:
        caller = await known_caller(request)
        _check_scope(caller, scope)
        return caller

    return check


def _check_scope(caller: Caller, scope: Scope) -> None:
    if scope not in caller.scopes:
        raise OutOfScope(f"{caller.name!r} has not the scope {scope!r}")


async def check_still(request: Request, scope: Scope) -> None:
    """Raise if who sent this may not do it any more: his key can have ended while he waited."""
    gate: Knowing = request.app.state.gate
    _check_scope(await gate.caller(request), scope)


async def body_of_caller(request: Request, scope: Scope) -> AsyncIterator[bytes]:
    """The body, as long as its sender may send it.

    Its last piece is held back until it is known that he still may: without it nothing is whole. What came
    before a body broke off is given out, too.
    """
    held, asked_at, broken = b"", time.monotonic(), None
    try:
        async for piece in request.stream():
            if time.monotonic() - asked_at >= CHECK_S:
                await check_still(request, scope)
                asked_at = time.monotonic()
            if piece and held:
                yield held
            held = piece or held
    except ClientDisconnect as error:
        broken = error
    await check_still(request, scope)
    if held:
        yield held
    if broken is not None:
        raise broken


async def known(
    request: Request,
    _documented: Annotated[object, Security(bearer)],
    _also: Annotated[object, Security(cookie)],
) -> Caller:
    """Whoever it is."""
    return await known_caller(request)


async def of_person(request: Request, _documented: Annotated[object, Security(cookie)]) -> Session:
    """The session of a person."""
    caller = await known_caller(request)
    if caller.session is None:
        raise NotAPerson(f"{caller.name!r} is a key, not a person")
    return caller.session


Reader = Annotated[Caller, Depends(need("read"))]
Follower = Annotated[Caller, Depends(need("events"))]
Writer = Annotated[Caller, Depends(need("write"))]
Admin = Annotated[Caller, Depends(need("admin"))]
Anyone = Annotated[Caller, Depends(known)]
Own = Annotated[Session, Depends(of_person)]
