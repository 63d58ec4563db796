"""A proxy that does to HTTP what networks do: it delays, cuts, loses one way, repeats and truncates."""

import asyncio
import contextlib
import random
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

BLOCK_BYTES = 1 << 16
HEAD_BYTES_MAX = 1 << 16
HEAD_END = b"\r\n\r\n"
HELD_S_MAX = 5.0
REPLAY_AFTER_S = 0.5
LARGE_BYTES = 1 << 23
"""A body above this is passed on as it comes, not collected."""


@dataclass(frozen=True, slots=True)
class Chances:
    """How often each fault befalls a request, from 0 to 1."""

    delay: float = 0.0
    cut: float = 0.0
    """The connection ends in the middle of the request."""
    lose_request: float = 0.0
    """The request never arrives, and nobody says so for a moment."""
    lose_answer: float = 0.0
    """The request is obeyed, and nobody hears of it."""
    replay: float = 0.0
    """The same bytes arrive once more a moment later."""
    truncate: float = 0.0
    """Only the beginning of the answer arrives."""
    delay_s_max: float = 0.5


@dataclass
class FaultProxy:
    """Stands on a port of its own before a server that may be away."""

    host: str
    port: int
    chances: Chances = field(default_factory=Chances)
    seed: int = 0
    breaks: list[int] = field(default_factory=list)
    """After so many bytes of a body its connection ends: each once, at the first body that is longer."""
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nothing listens before `start`."""
        self._luck = random.Random(self.seed)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """Listen; answers with the address."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=HEAD_BYTES_MAX)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        """End every connection."""
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(
                OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError
            ):  # whoever closes us ends all that is under way, and wants to hear nothing of it
                await self._relay(reader, writer)
        finally:
            self._tasks.discard(task)
            await _close(writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request after the other, each to a connection of its own."""
        while True:
            head = await reader.readuntil(HEAD_END)
            fields = _fields(head)
            length = int(fields.get("content-length", "0"))
            is_broken = bool(self.breaks) and length > self.breaks[0]
            is_chunked = "content-length" not in fields and "transfer-encoding" in fields
            if is_broken or is_chunked or length > LARGE_BYTES:
                await self._stream(head, reader, writer, self._break() if is_broken else self._cut())
                return
            body = await reader.readexactly(length)
            if not await self._pass_on(head + body, writer):
                return

    async def _pass_on(self, request: bytes, writer: asyncio.StreamWriter) -> bool:
        """Pass a request and its answer on, or not; whether the connection goes on."""
        if self._happens("delay", self.chances.delay):
            await self._wait()
        if self._happens("lose_request", self.chances.lose_request):
            await self._wait()
            return False
        up, down = await asyncio.open_connection(self.host, self.port)
        try:
            if self._happens("cut", self.chances.cut):
                down.write(request[: self._luck.randrange(len(request))])
                await down.drain()
                return False
            down.write(request)
            await down.drain()
            if self._happens("replay", self.chances.replay):
                self._keep(self._replay(request))
            head = await up.readuntil(HEAD_END)
            body = await up.readexactly(int(_fields(head).get("content-length", "0")))
            if self._happens("lose_answer", self.chances.lose_answer):
                return False
            answer = head + body
            is_cut = self._happens("truncate", self.chances.truncate)
            writer.write(answer[: self._luck.randrange(len(answer))] if is_cut else answer)
            await writer.drain()
            return not is_cut
        finally:
            await _close(down)

    def _break(self) -> int:
        self.counts["break"] = self.counts.get("break", 0) + 1
        return self.breaks.pop(0)

    def _cut(self) -> int | None:
        return self._luck.randrange(1 << 20) if self._happens("cut", self.chances.cut) else None

    async def _stream(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None
    ) -> None:
        """A large body, or one of unknown length: both directions as they come, `left` bytes at most."""
        up, down = await asyncio.open_connection(self.host, self.port)
        down.write(head)
        tasks = [
            asyncio.create_task(_copy(reader, down, left)),
            asyncio.create_task(_copy(up, writer, None)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await _close(down)

    async def _replay(self, request: bytes) -> None:
        await asyncio.sleep(REPLAY_AFTER_S)
        with contextlib.suppress(OSError):
            up, down = await asyncio.open_connection(self.host, self.port)
            down.write(request)
            try:
                async with asyncio.timeout(HELD_S_MAX):
                    await up.read(BLOCK_BYTES)
            except TimeoutError:
                pass
            finally:
                await _close(down)

    async def _wait(self) -> None:
        await asyncio.sleep(self._luck.uniform(0, self.chances.delay_s_max))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _happens(self, fault: str, chance: float) -> bool:
        happens = self._luck.random() < chance
        self.counts[fault] = self.counts.get(fault, 0) + happens
        return happens


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None) -> None:
    with contextlib.suppress(OSError):
        while block := await reader.read(BLOCK_BYTES):
            writer.write(block if left is None else block[:left])
            await writer.drain()
            if left is not None:
                left -= len(block)
                if left <= 0:
                    return


def _fields(head: bytes) -> Mapping[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
