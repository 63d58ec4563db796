"""Server-Sent Events on the wire: one listener, one connection, until he leaves or may stay no longer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from takeup.api.access import CHECK_S
from takeup.engine.feed import Feed
from takeup.engine.listener import End, Item, Listener
from takeup.engine.telling import line

MEDIA_TYPE = "text/event-stream"
SEND_S_MAX = 30.0
"""Whoever takes nothing for so long is not there any more."""
FAREWELL_S = 1.0
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
HEARTBEAT = ": heartbeat\n"


def event_text(item: Item) -> str:
    """An event on the wire; its data is one line, whatever is in it."""
    mark = f"id: {item.position.text}\n" if item.position else ""
    return f"{mark}event: {item.told.kind}\ndata: {item.told.data}\n\n"


def place_text(listener: Listener) -> str:
    """Where he is, without an event: a browser remembers it."""
    return f"id: {listener.position.text}\n\n"


def farewell_text(why: End) -> str:
    """The last event: why it ends."""
    return f"event: end\ndata: {line({'reason': why})}\n\n"


@dataclass(slots=True)
class Pulse:
    """When the next heartbeat is due."""

    every_s: float
    clock: Callable[[], float] = time.monotonic
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._at = self.clock() + self.every_s

    @property
    def left_s(self) -> float:
        """How long it is until then."""
        return max(self._at - self.clock(), 0.0)

    def beats(self) -> bool:
        """Whether it is due; then the next one is due after as long again."""
        if self.left_s > 0:
            return False
        self._at = self.clock() + self.every_s
        return True


@dataclass(frozen=True, slots=True)
class Line:
    """What keeps one connection going."""

    feed: Feed
    listener: Listener
    is_welcome: Callable[[], Awaitable[bool]]
    pulse: Pulse
    retry_s: float


class EventStream(Response):
    """An answer that goes on until somebody ends it."""

    media_type = MEDIA_TYPE

    def __init__(self, line_: Line) -> None:
        """The listener leaves when this ends, however it ends."""
        super().__init__(headers=HEADERS, media_type=MEDIA_TYPE)
        del self.headers["content-length"]
        self._line = line_

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the first of: he is gone, may stay no longer, takes nothing, or the server stops."""
        listener = self._line.listener
        tasks: list[asyncio.Task[End | None]] = []
        try:
            start: Message = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            parts: tuple[Coroutine[Any, Any, End | None], ...] = (
                self._pump(send),
                self._watch(),
                self._hear(receive),
                self._over(),
            )
            tasks = [asyncio.create_task(part) for part in parts]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            why = next(iter(done)).result()
        finally:
            self._line.feed.leave(listener)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if why is not None and why != "slow":
            await self._farewell(send, why)

    async def _pump(self, send: Send) -> End:
        """Everything that waits for him, and a sign of life now and then."""
        listener, pulse = self._line.listener, self._line.pulse
        text, is_placed = f"retry: {round(1000 * self._line.retry_s)}\n\n", False
        while True:
            items = listener.take()
            text += "".join(map(event_text, items))
            if not is_placed and not any(item.position for item in items):
                text += place_text(listener)
            is_placed = True
            if pulse.beats():
                text += HEARTBEAT + place_text(listener)
            if text and not await _sent(send, text):
                return "slow"
            text = ""
            await listener.wait(pulse.left_s)

    async def _watch(self) -> End:
        """Until he may listen no longer."""
        while True:
            if not await self._line.is_welcome():
                return "refused"
            await asyncio.sleep(CHECK_S)

    async def _hear(self, receive: Receive) -> None:
        """Until he is gone."""
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _over(self) -> End | None:
        await self._line.listener.over()
        return self._line.listener.ended

    async def _farewell(self, send: Send, why: End) -> None:
        try:
            async with asyncio.timeout(FAREWELL_S):
                await send({"type": "http.response.body", "body": farewell_text(why).encode()})
        except TimeoutError:
            return  # he does not read; the connection is closed without it


async def _sent(send: Send, text: str) -> bool:
    """Whether he took it in time."""
    try:
        async with asyncio.timeout(SEND_S_MAX):
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
    except TimeoutError:
        return False
    return True
