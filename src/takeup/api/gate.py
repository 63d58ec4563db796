"""The gate: one credential a request, a key or the cookie of a session, and who guesses is slowed down."""

import time
from collections.abc import Callable

from fastapi import Request

from takeup.api.access import (
    FAILURES_MAX,
    FAILURES_S,
    KNOWN_S,
    Caller,
    KeyExpired,
    TooManyFailures,
    TwoCredentials,
    Unauthenticated,
    address_of,
)
from takeup.api.cookies import Cookies
from takeup.api.crossing import check_crossing
from takeup.api.memory import Lately, Rarely, Tries
from takeup.api.sessions import Sessions
from takeup.core.errors import TakeupError, WorkerRefused
from takeup.core.keys import parse_key
from takeup.store.keys import Found, KeyStore
from takeup.store.people import PeopleStore
from takeup.telemetry.logs import logger

NOTE_EVERY_S = 60.0
LOOKS = ("GET", "HEAD")
"""What changes nothing, so that it does not matter which page made a browser send it."""

WORKER_CALLS = "/api/worker/"
WORKERS = (
    "Make a key beside the server, `takeup workers register NAME`, and give it to the worker as "
    "TAKEUP_WORKER_API_KEY."
)

log = logger("api")


class Gate:
    """Knows callers by their keys and cookies, and forgets what it knows in a moment."""

    def __init__(
        self,
        keys: KeyStore,
        people: PeopleStore,
        cookies: Cookies,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cookies = cookies
        self.sessions = Sessions(people, clock)
        self._keys = keys
        self._known: Lately[Found] = Lately(clock, for_s=KNOWN_S)
        self._failures = Tries(clock, most=FAILURES_MAX, within_s=FAILURES_S)
        self._noting = Rarely(clock, every_s=NOTE_EVERY_S)

    async def caller(self, request: Request) -> Caller:
        """Who sent this; raises if nobody may be known by it."""
        headers, cookies = request.headers.getlist("authorization"), self.cookies.shown(request)
        if len(headers) + len(cookies) > 1:
            raise TwoCredentials("there are several credentials")
        address = address_of(request)
        if cookies:
            return await self._by_cookie(request, cookies[0], address)
        scheme, _, text = headers[0].partition(" ") if headers else ("", "", "")
        found = await self._found(text.strip(), address) if scheme.lower() == "bearer" else None
        if found is None:
            is_worker = request.url.path.startswith(WORKER_CALLS)
            raise Unauthenticated("no key, or none that is known here", advice=WORKERS if is_worker else None)
        if found.is_over:
            is_expired = found.key.revoked_at is None
            raise KeyExpired("the key has expired") if is_expired else Unauthenticated("the key was revoked")
        if found.is_disabled:
            raise WorkerRefused(f"worker {found.key.worker_id} is disabled")
        await self._note(found.key.id)
        return Caller(f"key:{found.key.id}", found.key.name, found.key.scopes, found.key.worker_id)

    async def _by_cookie(self, request: Request, text: str, address: str) -> Caller:
        caller = await self.sessions.caller(text)
        if caller is None or caller.session is None:
            self._fail(address)
            raise Unauthenticated("no session, or none that is known here")
        if request.method not in LOOKS:
            check_crossing(request, caller.session.csrf_token)
        return caller

    async def _found(self, text: str, address: str) -> Found | None:
        key = parse_key(text)
        if key is None:
            self._fail(address)
            return None
        seen = self._known.get(key.hash)
        if seen is not None:
            return seen
        found = await self._keys.find(key)  # also from where many were wrong: others may call from there
        if found is None or found.is_over:
            self._fail(address)
            self._known.forget(key.hash)
        else:
            self._known.keep(key.hash, found)
        return found

    def fail(self, request: Request) -> None:
        """Something that was shown is wrong, whatever it is; too often, and nobody is listened to."""
        self._fail(address_of(request))

    def _fail(self, address: str) -> None:
        if self._failures.are_too_many(address):
            raise TooManyFailures("too many wrong credentials came from this address")
        self._failures.add(address)

    async def _note(self, key_id: str) -> None:
        """Write down now and then that a key is in use; nothing depends on it."""
        if not self._noting.is_time(key_id):
            return
        try:
            await self._keys.note_use([key_id])
        except TakeupError as error:
            log.warning("the use of a key was not noted", key=key_id, error=str(error))
