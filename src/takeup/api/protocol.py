"""HTTP on a connection of a stranger: a head of bounded size and time, a body that moves."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 65_536
HEAD_S_MAX = 10.0
BODY_LOOK_S, BODY_BYTES_A_LOOK = 30.0, 30_000
"""A body that brings less in such a time is not waited for."""
LOOK_S = 2.5
CLOSING_S_MAX = 30.0
"""What was sent last may take so long to arrive; whoever does not read it holds no connection for ever."""
REFUSAL = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class PatientProtocol(HttpToolsProtocol):
    """As the server's own, but nobody holds a connection, or fills the memory, with half a request."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._is_head = True
        self._head_bytes = self._body_bytes = 0
        self._since = 0.0
        self._closing_since: float | None = None
        self._looking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
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
        self._is_head, self._head_bytes = False, 0
        self._since, self._body_bytes = self.loop.time(), 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_head, self._since = True, float("inf")
        super().on_message_complete()

    def _look(self) -> None:
        """Close what has kept us waiting; between two requests the server's own limit counts."""
        if self.transport.is_closing():
            self._closing_since = self._closing_since or self.loop.time()
            if self.loop.time() - self._closing_since > CLOSING_S_MAX:
                self.transport.abort()
                return
        waited = self.loop.time() - self._since
        is_slow_body = not self._is_head and waited > BODY_LOOK_S and self._body_bytes < BODY_BYTES_A_LOOK
        if (self._is_head and waited > HEAD_S_MAX) or is_slow_body:
            self.transport.close()
            return
        if not self._is_head and waited > BODY_LOOK_S:
            self._since, self._body_bytes = self.loop.time(), 0
        self._looking = self.loop.call_later(LOOK_S, self._look)
