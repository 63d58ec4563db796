"""A receiver of messages on a real socket, which answers as a test wants it to."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Received:
    """One request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Receiver:
    """What came, and what is answered next."""

    port: int = 0
    answer: Answer | None = None
    received: list[Received] = field(default_factory=list)
    calls: set[asyncio.Task[None]] = field(default_factory=set)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.calls.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
            body = await reader.readexactly(int(headers["content-length"]))
            self.received.append(Received(head[0], headers, body))
            with contextlib.suppress(OSError):
                await (self.answer or says(200, "thanks"))(writer)
                await writer.drain()
                writer.write_eof() if writer.can_write_eof() else None
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.close()
            self.calls.discard(task)


def says(status: int, text: str = "", **headers: str) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        data = text.encode()
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(data)}\r\n{lines}\r\n".encode() + data)

    return answer


def writes(data: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


async def says_nothing(_writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def never_ends(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


@asynccontextmanager
async def receiving(
    answer: Answer | None = None, trust: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer=answer)
    server = await asyncio.start_server(receiver.take, "127.0.0.1", 0, ssl=trust)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for call in list(receiver.calls):
            call.cancel()
        await asyncio.gather(*receiver.calls, return_exceptions=True)
