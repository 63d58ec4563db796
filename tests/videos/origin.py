"""A server that files are fetched from: it knows parts and tags, and misbehaves as a test wants."""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

BLOCK = 10_000
Misbehave = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Origin:
    """What is given out, and what was asked for."""

    data: bytes
    port: int = 0
    breaks: list[int] = field(default_factory=list)
    """After so many bytes of an answer it ends, once each."""
    misbehave: Misbehave | None = None
    may_go_on: asyncio.Event | None = None
    """If there is one, half of the file comes before it and half after."""
    asked: list[dict[str, str]] = field(default_factory=list)
    calls: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/films/My%20film.wav"

    @property
    def tag(self) -> str:
        return f'"{hashlib.sha256(self.data).hexdigest()[:16]}"'

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.calls.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:-2]
                fields = dict(line.lower().split(": ", 1) for line in head)
                self.asked.append(fields)
                await (self.misbehave or self._give)(writer)
                await writer.drain()
        finally:
            writer.close()
            self.calls.discard(task)

    async def _give(self, writer: asyncio.StreamWriter) -> None:
        fields = self.asked[-1]
        match = re.match(r"bytes=(\d+)-\Z", fields.get("range", ""))
        start = int(match[1]) if match and fields.get("if-range") == self.tag else 0
        rest = self.data[start:]
        status = (
            f"206 X\r\nContent-Range: bytes {start}-{len(self.data) - 1}/{len(self.data)}"
            if start
            else "200 X"
        )
        writer.write(f"HTTP/1.1 {status}\r\nETag: {self.tag}\r\nContent-Length: {len(rest)}\r\n\r\n".encode())
        left = self.breaks.pop(0) if self.breaks else len(rest)
        for at in range(0, left, BLOCK):
            if self.may_go_on is not None and at + start >= len(self.data) // 2:
                await self.may_go_on.wait()
            writer.write(rest[at : min(at + BLOCK, left)])
            await writer.drain()


def says(head: str, body: bytes = b"") -> Misbehave:
    """This, and then the end."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)

    return answer


def repeats(head: str, body: bytes, every_s: float) -> Misbehave:
    """This again and again, for ever."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        while True:
            writer.write(body)
            await writer.drain()
            await asyncio.sleep(every_s)

    return answer


@asynccontextmanager
async def origin_of(data: bytes, host: str = "127.0.0.1") -> AsyncIterator[Origin]:
    """There while it is needed."""
    origin = Origin(data)
    server = await asyncio.start_server(origin.answer, host, 0)
    origin.port = server.sockets[0].getsockname()[1]
    try:
        yield origin
    finally:
        server.close()
        for call in list(origin.calls):
            call.cancel()
        await asyncio.gather(*origin.calls, return_exceptions=True)
