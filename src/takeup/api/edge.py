"""What stands before every route: which hosts are meant, how large a body may be, and what answers carry."""

import asyncio
import contextlib
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote

from fastapi import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from takeup.api.problems import FAULT, answer
from takeup.core.keys import ANYWHERE
from takeup.telemetry.logs import logger
from takeup.telemetry.redact import presentable

BODY_BYTES_MAX = 1_200_000
"""A spec of the largest size, and some more."""
QUERY_NAMES = re.compile(r"(?i)(?:^|&)(?:api_?key|key|token|access_token|authorization)=")
MOVE = "Send it in the header `Authorization: Bearer KEY`, and make a new one: this one may be in a log."
TOO_LARGE = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
FRAMES_TOLD = 5
CLOSE = {"Connection": "close"}
PASSED_BY_BYTES_MAX, PASSED_BY_S_MAX = 32_000_000, 2.0
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": (
        "default-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "cache-control": "no-store",
}


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

log = logger("api")


class Room(NamedTuple):
    """Calls whose bodies have a bound of their own."""

    path: re.Pattern[str]
    methods: frozenset[str]
    bytes_max: int


def large_body(bytes_max: int) -> Callable[[Endpoint], Endpoint]:
    """Declare that the body of this call may be as large as this."""

    def declare(endpoint: Endpoint) -> Endpoint:
        endpoint.body_bytes_max = bytes_max  # type: ignore[attr-defined]
        return endpoint

    return declare


def rooms_of(routes: Iterable[object]) -> list[Room]:
    """The calls that were declared so."""
    return [
        Room(route.path_regex, frozenset(route.methods or ()), route.endpoint.body_bytes_max)
        for route in routes
        if isinstance(route, Route) and hasattr(route.endpoint, "body_bytes_max")
    ]


class _Broken(Exception):
    """An answer broke off; what was wrong is in the log."""


class Edge:
    """Refuses what no route should see."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        rooms: Sequence[Room] = (),
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:
        """Without `hosts` every name is taken."""
        self._app = app
        self._hosts = hosts
        self._rooms = tuple(rooms)
        self._bytes_max = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        has_begun = False

        async def begin(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                known = {name.lower() for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in known]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            refusal = answer(HTTPStatus.BAD_REQUEST, "bad_host", "this server is not called by that name")
            await refusal(scope, receive, begin)
        elif _has_key(scope):
            refusal = answer(
                HTTPStatus.BAD_REQUEST, "key_in_url", "there is a key in the address", advice=MOVE
            )
            await refusal(scope, receive, begin)
        elif not length.isdigit() or int(length) > (bytes_max := self._bytes_max_of(scope)):
            await self._too_large(scope, receive, begin)
        else:
            try:
                await self._app(scope, _counted(receive, bytes_max), begin)
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends this request and nothing else
                _tell(error)
                if has_begun:
                    raise _Broken from None
                refusal = answer(HTTPStatus.INTERNAL_SERVER_ERROR, "fault", FAULT)
                await refusal(scope, receive, begin)

    def _is_ours(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and ":" in host else host
        return "@" not in host and (not self._hosts or name.lower() in self._hosts)

    def _bytes_max_of(self, scope: Scope) -> int:
        fitting = (
            r.bytes_max for r in self._rooms if scope["method"] in r.methods and r.path.match(scope["path"])
        )
        return next(fitting, self._bytes_max)

    async def _too_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse at once; what is still being sent is let go by for a moment, so that we are heard."""
        refusal = answer(TOO_LARGE, "too_large", _words(self._bytes_max_of(scope)), headers=CLOSE)
        await send(
            {"type": "http.response.start", "status": refusal.status_code, "headers": refusal.raw_headers}
        )
        await send({"type": "http.response.body", "body": refusal.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PASSED_BY_S_MAX):
                await _pass_by(receive)
        await send({"type": "http.response.body", "body": b""})


def _words(bytes_max: int) -> str:
    return f"a body has at most {bytes_max} bytes here"


def _counted(receive: Receive, bytes_max: int) -> Receive:
    count = 0

    async def counted() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > bytes_max:
            raise HTTPException(TOO_LARGE, _words(bytes_max), CLOSE)
        return message

    return counted


def _tell(error: Exception) -> None:
    """Log a fault without its traceback, which would repeat its words with all their secrets."""
    words = presentable(f"{type(error).__name__}: {error}")
    log.error("a fault", error=words, where=_where(error))


def _where(error: Exception) -> str:
    """The last places that an error passed, innermost last."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES_TOLD:]
    return ", ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)


def _has_key(scope: Scope) -> bool:
    """Whether a key stands in the address, where logs would keep it."""
    query = scope["query_string"].decode("latin-1")
    address = unquote(f"{scope['path']}?{query}")
    return bool(ANYWHERE.search(address)) or bool(QUERY_NAMES.search(query))


async def _pass_by(receive: Receive) -> None:
    count = 0
    while count < PASSED_BY_BYTES_MAX:
        message = await receive()
        count += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return
