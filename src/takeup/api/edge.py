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
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from takeup.api.problems import FAULT, answer
from takeup.core.keys import ANYWHERE
from takeup.telemetry.logs import logger
from takeup.telemetry.redact import presentable

BODY_BYTES_MAX = 1_200_000
"""A spec of the largest size, and some more; calls that take files have a bound of their own."""
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


def large_body(bytes_max: int | None) -> Callable[[Endpoint], Endpoint]:
    """Declare that the body of this call may be as large as this; None: as any file that is sent here."""

    def declare(endpoint: Endpoint) -> Endpoint:
        endpoint.body_bytes_max = bytes_max  # type: ignore[attr-defined]
        return endpoint

    return declare


def rooms_of(routes: Iterable[object], file_bytes_max: int) -> list[Room]:
    """The calls that were declared so; the settings say how large a file may be."""
    return [
        Room(
            route.path_regex, frozenset(route.methods or ()), route.endpoint.body_bytes_max or file_bytes_max
        )
        for route in routes
        if isinstance(route, Route) and hasattr(route.endpoint, "body_bytes_max")
    ]


class _Broken(Exception):
    """An answer broke off; what was wrong is in the log."""


class _Body:
    """What a request brings: counted, and not taken beyond its bound."""

    def __init__(self, scope: Scope, receive: Receive, bytes_max: int) -> None:
        headers = dict(scope["headers"])
        self.bytes_max = bytes_max
        self.declared = headers.get(b"content-length", b"0")
        self._receive = receive
        self._is_chunked = b"transfer-encoding" in headers
        self._is_over = False
        self._count = 0

    @property
    def words(self) -> str:
        return f"a body has at most {self.bytes_max} bytes here"

    @property
    def is_too_large(self) -> bool:
        """As far as is said before it comes."""
        return not self.declared.isdigit() or int(self.declared) > self.bytes_max

    @property
    def is_on_its_way(self) -> bool:
        """Whether more may follow than can be passed by without a thought."""
        is_long = not self.declared.isdigit() or int(self.declared) > BODY_BYTES_MAX
        return not self._is_over and (is_long or self._is_chunked)

    async def receive(self) -> Message:
        """The next piece."""
        message = await self._receive()
        self._is_over = not message.get("more_body")
        self._count += len(message.get("body", b""))
        if self._count > self.bytes_max:
            raise HTTPException(TOO_LARGE, self.words, CLOSE)
        return message

    async def pass_by(self) -> None:
        """Let go by for a moment what is still being sent, so that our refusal is heard."""
        count = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PASSED_BY_S_MAX):
                while count < PASSED_BY_BYTES_MAX:
                    message = await self._receive()
                    count += len(message.get("body", b""))
                    if message["type"] == "http.disconnect" or not message.get("more_body"):
                        return


class _Answer:
    """What goes back: with the headers that every answer has; a refusal need not wait for the whole body."""

    def __init__(self, send: Send, body: _Body) -> None:
        self._send = send
        self._body = body
        self._closes = False
        self.has_begun = False

    async def send(self, message: Message) -> None:
        """The next piece."""
        if message["type"] == "http.response.start":
            self.has_begun = True
            known = {name.lower() for name, _ in message["headers"]}
            more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in known]
            self._closes = message["status"] >= HTTPStatus.BAD_REQUEST and self._body.is_on_its_way
            if self._closes and b"connection" not in known:
                more.append((b"connection", b"close"))
            message["headers"] = [*message["headers"], *more]
        elif self._closes and not message.get("more_body"):
            await self._send({**message, "more_body": True})
            await self._body.pass_by()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)


class Edge:
    """Refuses what no route should see."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        rooms: Sequence[Room] = (),
    ) -> None:
        """Without `hosts` every name is taken."""
        self._app = app
        self._hosts = hosts
        self._rooms = tuple(rooms)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(scope, receive, self._bytes_max(scope))
        reply = _Answer(send, body)
        refusal = self._refusal(scope, body)
        if refusal is not None:
            await refusal(scope, receive, reply.send)
            return
        try:
            await self._app(scope, body.receive, reply.send)
        except ClientDisconnect:  # what came of the body was kept or dropped where it was read
            log.info("a body broke off", path=scope["path"])
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends this request and nothing else
            _tell(error)
            if reply.has_begun:
                raise _Broken from None
            await answer(HTTPStatus.INTERNAL_SERVER_ERROR, "fault", FAULT)(scope, receive, reply.send)

    def _refusal(self, scope: Scope, body: _Body) -> JSONResponse | None:
        """What is wrong with a request whatever route it is for."""
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return answer(HTTPStatus.BAD_REQUEST, "bad_host", "this server is not called by that name")
        if _has_key(scope):
            return answer(HTTPStatus.BAD_REQUEST, "key_in_url", "there is a key in the address", advice=MOVE)
        return answer(TOO_LARGE, "too_large", body.words, headers=CLOSE) if body.is_too_large else None

    def _bytes_max(self, scope: Scope) -> int:
        """How large the body of this request may be."""
        fitting = (
            r.bytes_max for r in self._rooms if scope["method"] in r.methods and r.path.match(scope["path"])
        )
        return next(fitting, BODY_BYTES_MAX)

    def _is_ours(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and ":" in host else host
        return "@" not in host and (not self._hosts or name.lower() in self._hosts)


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
