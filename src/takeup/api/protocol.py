"""HTTP on a connection of a stranger: a head of bounded size and time, a body that moves, a place."""

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from takeup.api.problems import answer

HEAD_BYTES_MAX = 65_536
HEAD_S_MAX = 10.0
BODY_LOOK_S, BODY_BYTES_A_LOOK = 30.0, 30_000
"""A body that brings less in such a time is not waited for."""
LOOK_S = 2.5
CLOSING_S_MAX = 30.0
"""What was sent last may take so long to arrive; whoever does not read it holds no connection for ever."""
REFUSAL = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class PatientProtocol(HttpToolsProtocol):
    """As the server's own, but nobody holds a connection, or fills the memory, with half a request.

    When all places are taken, whoever has been idle for longest makes room, first among those who never asked
    for anything: a crowd that only stands there keeps nobody out.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._places = self.limit_concurrency
        self.limit_concurrency = None  # the server's own would refuse those who have a connection, too
        self._has_asked = False
        self._idle_since = 0.0
        self._is_head = True
        self._head_bytes = self._body_bytes = 0
        self._since = 0.0
        self._closing_since: float | None = None
        self._looking: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing was asked that is not answered yet."""
        return self._is_head and (not self._has_asked or self.cycle.response_complete)

    @property
    def place(self) -> tuple[bool, float]:
        """Who stands first when one has to go."""
        return self._has_asked, self._idle_since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self._places is not None and len(self.connections) >= self._places:
            idle = [one for one in self.connections if isinstance(one, PatientProtocol) and one.is_idle]
            if not idle:
                self.transport = transport
                transport.abort()
                return
            self.connections.discard(longest := min(idle, key=lambda one: one.place))
            longest.transport.abort()
        super().connection_made(transport)
        self._since = self._idle_since = self.loop.time()
        self._looking = self.loop.call_later(LOOK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_head and self._head_bytes == 0:
            self._since = self.loop.time()
        self._head_bytes += len(data) if self._is_head else 0
        self._body_bytes += len(data)
        super().data_received(data)
        if self._is_head and self._head_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            self.transport.write(REFUSAL)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._is_head, self._head_bytes, self._has_asked = False, 0, True
        self._since, self._body_bytes = self.loop.time(), 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_head, self._since = True, float("inf")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._idle_since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """As every other refusal; a request that two programs could read in two ways ends its connection."""
        refusal = answer(HTTPStatus.BAD_REQUEST, "bad_request", msg, headers={"Connection": "close"})
        lines = [b"%s: %s\r\n" % (name.title(), value) for name, value in refusal.raw_headers]
        self.transport.write(
            b"".join([b"HTTP/1.1 400 Bad Request\r\n", *lines, b"\r\n", bytes(refusal.body)])
        )
        self.transport.close()

    def _look(self) -> None:
        """Close what has kept us waiting; between two requests the server's own limit counts."""
        if self.transport.is_closing():
            self._closing_since = self._closing_since or self.loop.time()
            if self.loop.time() - self._closing_since > CLOSING_S_MAX:
                self.transport.abort()
                return
        waited = self.loop.time() - self._since
        is_ours = self.flow.read_paused  # it is we who do not take it
        is_slow = waited > BODY_LOOK_S and self._body_bytes < BODY_BYTES_A_LOOK and not is_ours
        is_slow_body = not self._is_head and is_slow
        if (self._is_head and waited > HEAD_S_MAX) or is_slow_body:
            self.transport.close()
            return
        if not self._is_head and waited > BODY_LOOK_S:
            self._since, self._body_bytes = self.loop.time(), 0
        self._looking = self.loop.call_later(LOOK_S, self._look)
