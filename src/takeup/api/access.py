"""Who calls, and whether he may: keys are known by their form first, then by their row."""

import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer

from takeup.api.problems import HttpError
from takeup.core.access import Scope
from takeup.core.errors import TakeupError, WorkerRefused
from takeup.core.keys import parse_key
from takeup.store.keys import Found, KeyStore
from takeup.telemetry.logs import logger

KNOWN_S, KNOWN_MAX = 0.5, 10_000
"""So long a key is taken as it was seen last: a revoked one is refused a second later at the latest."""
FAILURES_MAX, FAILURES_S = 20, 60.0
ADDRESSES_MAX = 10_000
NOTE_EVERY_S, NOTED_MAX = 60.0, 1000

log = logger("api")

bearer = HTTPBearer(auto_error=False, description="A key made by `takeup keys create`.")
"""Only for the document: the header is read here, where two of them are seen."""


class Unauthenticated(HttpError):
    """Nobody is known by what was shown."""

    http_status = 401
    help = "Send `Authorization: Bearer KEY` with a key that `takeup keys create` printed."
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class KeyExpired(Unauthenticated):
    """The key was good until it expired."""

    help = "Ask for a new key: `takeup keys create`."


class OutOfScope(HttpError):
    """The key is good, but not for this."""

    http_status = 403
    help = "Use a key with the scope that the message names."

    @property
    def code(self) -> str:
        return "scope"


class TwoCredentials(HttpError):
    """More than one credential was sent."""

    http_status = 400
    help = "Send one `Authorization` header and nothing else that says who you are."


class TooManyFailures(HttpError):
    """Too many keys were wrong from one address."""

    http_status = 429
    help = "Wait for as long as `Retry-After` says, and send a key that is right."
    headers: Mapping[str, str] = {"Retry-After": str(round(FAILURES_S))}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls."""

    key_id: str
    name: str
    scopes: frozenset[Scope]
    worker_id: str | None

    @property
    def user(self) -> str:
        """Whose the jobs are that he creates."""
        return f"key:{self.key_id}"


class Failures:
    """Counts wrong keys by address, in a window that moves on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, address: str) -> None:
        """One more from there."""
        times = self._at.setdefault(address, deque(maxlen=FAILURES_MAX))
        times.append(self._clock())
        self._at.move_to_end(address)
        if len(self._at) > ADDRESSES_MAX:
            self._at.popitem(last=False)

    def are_too_many(self, address: str) -> bool:
        """Whether nothing unknown is looked at from there for now."""
        times = self._at.get(address)
        return times is not None and len(times) == FAILURES_MAX and self._clock() - times[0] < FAILURES_S


class Gate:
    """Knows callers by their keys, and forgets what it knows in a moment."""

    def __init__(self, keys: KeyStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Found]] = OrderedDict()
        self._failures = Failures(clock)
        self._used: dict[str, float] = {}

    async def caller(self, request: Request) -> Caller:
        """Who sent this; raises if nobody may be known by it."""
        shown = request.headers.getlist("authorization")
        if len(shown) > 1:
            raise TwoCredentials("there are several Authorization headers")
        scheme, _, text = shown[0].partition(" ") if shown else ("", "", "")
        address = request.client.host if request.client else ""
        found = await self._found(text.strip(), address) if scheme.lower() == "bearer" else None
        if found is None:
            raise Unauthenticated("no key, or none that is known here")
        if found.is_over:
            is_expired = found.key.revoked_at is None
            raise KeyExpired("the key has expired") if is_expired else Unauthenticated("the key was revoked")
        if found.is_disabled:
            raise WorkerRefused(f"worker {found.key.worker_id} is disabled")
        await self._note(found.key.id)
        return Caller(found.key.id, found.key.name, found.key.scopes, found.key.worker_id)

    async def _found(self, text: str, address: str) -> Found | None:
        key = parse_key(text)
        if key is None:
            self._fail(address)
            return None
        now = self._clock()
        seen = self._known.get(key.hash)
        if seen is not None and now - seen[0] < KNOWN_S:
            return seen[1]
        found = await self._keys.find(key)  # also from where many were wrong: others may call from there
        if found is None or found.is_over:
            self._fail(address)
            self._known.pop(key.hash, None)
            return found
        self._known[key.hash] = now, found
        self._known.move_to_end(key.hash)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return found

    def fail(self, request: Request) -> None:
        """Something that was shown is wrong, whatever it is; too often, and nobody is listened to."""
        self._fail(request.client.host if request.client else "")

    def _fail(self, address: str) -> None:
        if self._failures.are_too_many(address):
            raise TooManyFailures("too many wrong keys came from this address")
        self._failures.add(address)

    async def _note(self, key_id: str) -> None:
        """Write down now and then that a key is in use; nothing depends on it."""
        now = self._clock()
        if now - self._used.get(key_id, -NOTE_EVERY_S) < NOTE_EVERY_S:
            return
        if len(self._used) >= NOTED_MAX:
            self._used.clear()
        self._used[key_id] = now
        try:
            await self._keys.note_use([key_id])
        except TakeupError as error:
            log.warning("the use of a key was not noted", key=key_id, error=str(error))


async def known_caller(request: Request) -> Caller:
    """Who calls, asked once a request."""
    if not hasattr(request.state, "caller"):
        gate: Gate = request.app.state.gate
        request.state.caller = await gate.caller(request)
    caller: Caller = request.state.caller
    return caller


def need(scope: Scope) -> Callable[..., Awaitable[Caller]]:
    """A caller with this scope."""

    async def check(request: Request, _documented: Annotated[object, Security(bearer)]) -> Caller:
        caller = await known_caller(request)
        if scope not in caller.scopes:
            raise OutOfScope(f"the key {caller.name!r} has not the scope {scope!r}")
        return caller

    return check


Reader = Annotated[Caller, Depends(need("read"))]
Follower = Annotated[Caller, Depends(need("events"))]
Writer = Annotated[Caller, Depends(need("write"))]
Admin = Annotated[Caller, Depends(need("admin"))]
