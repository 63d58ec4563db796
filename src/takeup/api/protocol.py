"""HTTP on a connection of a stranger: a head of bounded size and time, a body that moves, a place."""

import asyncio
import contextlib
import fcntl
import socket
import struct
import sys
import termios
import time
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from takeup.api.problems import answer

HEAD_BYTES_MAX = 65_536
HEAD_S_MAX = 10.0
BODY_LOOK_S, BODY_BYTES_A_LOOK = 30.0, 30_000
"""A body that brings less in such a time is not waited for."""
LOOK_S = 2.5
STALLED_S, STALLED_S_MAX = 5.0, 30.0
"""Whoever has taken nothing of his answer for so long makes room for others, and is let go."""
HEADER_BYTES = 4
"""What a header has besides its name and value."""
REFUSAL = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

AT_ONCE = struct.pack("ii", 1, 0)
"""How a connection ends when nobody reads: the system forgets what was not taken."""


def now() -> float:
    """The time by which connections are judged."""
    return time.monotonic()


class PatientProtocol(HttpToolsProtocol):
    """As the server's own, but nobody holds a connection, or fills the memory, with half a request or answer.

    When all places are taken, one makes room: first who never asked for anything, then who takes nothing of
    his answer, then who has been idle for longest. A crowd that only stands there keeps nobody out.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._places = self.limit_concurrency
        self.limit_concurrency = None  # the server's own would refuse those who have a connection, too
        self._has_asked = False
        self._idle_since = 0.0
        self._is_head = True
        self._is_deaf = False
        """Whether nothing that comes now belongs to a request."""
        self._head_bytes = self._body_bytes = self._named_bytes = 0
        self._since = 0.0
        self._taken_at = 0.0
        self._unsent = 0
        self._has_taken = False
        self._looking: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing was asked that is not answered yet, and taken."""
        is_answered = self._is_head and (not self._has_asked or self.cycle.response_complete)
        return is_answered and not self.transport.get_write_buffer_size()

    @property
    def is_stalled(self) -> bool:
        """Whether he takes nothing of his answer, as far as was seen at the last look."""
        return self._unsent > 0 and now() - self._taken_at >= STALLED_S

    @property
    def place(self) -> tuple[int, float]:
        """Who stands first when one has to go."""
        if self.is_stalled:
            return 1, self._taken_at
        return 2 if self._has_asked else 0, self._idle_since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self._places is not None and len(self.connections) >= self._places:
            known = [one for one in self.connections if isinstance(one, PatientProtocol)]
            going = [one for one in known if one.is_idle or one.is_stalled]
            if not going:
                self.transport = transport
                transport.abort()
                return
            self.connections.discard(first := min(going, key=lambda one: one.place))
            first.cut()
        super().connection_made(transport)
        self._since = self._idle_since = self._taken_at = now()
        self._looking = self.loop.call_later(LOOK_S, self._look)

    def cut(self) -> None:
        """End it at once."""
        with contextlib.suppress(OSError):
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            return
        if self._is_head and self._head_bytes == 0:
            self._since = now()
        self._head_bytes += len(data) if self._is_head else 0
        self._body_bytes += len(data)
        super().data_received(data)
        if self._is_head and self._head_bytes > HEAD_BYTES_MAX:
            self._refuse_head()

    def on_url(self, url: bytes) -> None:
        self._named_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._named_bytes += len(name) + len(value) + HEADER_BYTES
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        named_bytes, self._named_bytes = self._named_bytes, 0
        self._is_head, self._head_bytes, self._has_asked = False, 0, True
        self._since, self._body_bytes = now(), 0
        if named_bytes > HEAD_BYTES_MAX:
            self._refuse_head()
            return
        is_other = self.parser.should_upgrade()
        if is_other and any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers):
            self._is_deaf = True
            self.send_400_response("who asks for another protocol cannot send a body with it")
            return
        super().on_headers_complete()
        if is_other:  # it is answered as if it had not asked; what comes behind it nobody can read for sure
            self._is_deaf = True
            self.cycle.keep_alive = False

    def _refuse_head(self) -> None:
        self._is_deaf = True
        if not self.transport.is_closing():
            self.transport.write(REFUSAL)
            self.transport.close()

    def on_message_complete(self) -> None:
        self._is_head, self._since = True, float("inf")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._idle_since = now()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """As every other refusal; a request that two programs could read in two ways ends its connection."""
        refusal = answer(HTTPStatus.BAD_REQUEST, "bad_request", msg, headers={"Connection": "close"})
        lines = [b"%s: %s\r\n" % (name.title(), value) for name, value in refusal.raw_headers]
        self.transport.write(
            b"".join([b"HTTP/1.1 400 Bad Request\r\n", *lines, b"\r\n", bytes(refusal.body)])
        )
        self.transport.close()

    def resume_writing(self) -> None:
        self._has_taken = True
        super().resume_writing()

    def _look(self) -> None:
        """Close what has kept us waiting; between two requests the server's own limit counts."""
        self._note_taken()
        if now() - self._taken_at > STALLED_S_MAX:
            self.cut()
            return
        if not self.transport.is_closing():
            self._look_at_request()
        self._looking = self.loop.call_later(LOOK_S, self._look)

    def _note_taken(self) -> None:
        """When something of what waits for him was taken last; now, if nothing waits."""
        unsent = self._waiting_bytes()
        if not unsent or unsent < self._unsent or self._has_taken:
            self._taken_at = now()
        self._unsent, self._has_taken = unsent, False

    def _waiting_bytes(self) -> int:
        """How much waits for him to take it; 0 while we may still add to it, so that it does not tell."""
        ours = self.transport.get_write_buffer_size()
        is_all = self.transport.is_closing() or self.flow.write_paused
        is_all = is_all or not self._has_asked or self.cycle.response_complete
        if not ours or not is_all:
            return 0
        return ours + _held_by_system(self.transport.get_extra_info("socket"))

    def _look_at_request(self) -> None:
        waited = now() - self._since
        is_ours = self.flow.read_paused  # it is we who do not take it
        is_slow = waited > BODY_LOOK_S and self._body_bytes < BODY_BYTES_A_LOOK and not is_ours
        is_slow_body = not self._is_head and is_slow
        if (self._is_head and waited > HEAD_S_MAX) or is_slow_body:
            self.transport.close()
        elif not self._is_head and waited > BODY_LOOK_S:
            self._since, self._body_bytes = now(), 0


def _held_by_system(connection: socket.socket) -> int:
    """How much of what was sent has not arrived: much, before any of ours is taken on a slow line."""
    try:
        told = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    except OSError:  # it is just ending
        return 0
    return int.from_bytes(told, sys.byteorder)
