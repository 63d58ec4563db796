"""What stands before every route: which hosts are meant, how large a body may be, and what answers carry."""

import asyncio
import contextlib
from http import HTTPStatus

from fastapi import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from takeup.api.problems import answer

BODY_BYTES_MAX = 1_200_000
"""A spec of the largest size, and some more."""
TOO_LARGE = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
CLOSE = {"Connection": "close"}
PASSED_BY_BYTES_MAX, PASSED_BY_S_MAX = 32_000_000, 2.0
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "cache-control": "no-store",
}


class Edge:
    """Refuses what no route should see."""

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str], body_bytes_max: int = BODY_BYTES_MAX) -> None:
        """Without `hosts` every name is taken."""
        self._app = app
        self._hosts = hosts
        self._bytes_max = body_bytes_max
        self._words = f"a body has at most {body_bytes_max} bytes here"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def begin(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in known]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").rpartition("@")[2]
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() and ":" in host else host
        length = headers.get(b"content-length", b"0")
        if self._hosts and name.lower() not in self._hosts:
            refusal = answer(HTTPStatus.BAD_REQUEST, "bad_host", "this server is not called by that name")
            await refusal(scope, receive, begin)
        elif not length.isdigit() or int(length) > self._bytes_max:
            await self._too_large(receive, begin)
        else:
            await self._app(scope, self._counted(receive), begin)

    async def _too_large(self, receive: Receive, send: Send) -> None:
        """Refuse at once; what is still being sent is let go by for a moment, so that we are heard."""
        refusal = answer(TOO_LARGE, "too_large", self._words, headers=CLOSE)
        await send(
            {"type": "http.response.start", "status": refusal.status_code, "headers": refusal.raw_headers}
        )
        await send({"type": "http.response.body", "body": refusal.body, "more_body": True})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PASSED_BY_S_MAX):
                await _pass_by(receive)
        await send({"type": "http.response.body", "body": b""})

    def _counted(self, receive: Receive) -> Receive:
        count = 0

        async def counted() -> Message:
            nonlocal count
            message = await receive()
            count += len(message.get("body", b""))
            if count > self._bytes_max:
                raise HTTPException(TOO_LARGE, self._words, CLOSE)
            return message

        return counted


async def _pass_by(receive: Receive) -> None:
    count = 0
    while count < PASSED_BY_BYTES_MAX:
        message = await receive()
        count += len(message.get("body", b""))
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return
