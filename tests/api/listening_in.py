"""A listener as any other: reads a stream of events line by line."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx2

WAIT_S = 8.0


class Heard(NamedTuple):
    """One event; a comment is one of the kind `:`, a mere place one of the kind `id`."""

    kind: str
    id: str | None
    data: dict[str, Any]


class Ears:
    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.last_id = ""
        self.retry = ""

    async def hear(self) -> Heard | None:
        """The next one, whatever it is; None at the end."""
        async with asyncio.timeout(WAIT_S):
            return await self._next()

    async def _next(self) -> Heard | None:
        kind, told_id, data = "", None, ""
        async for text in self._lines:
            name, _, value = text.partition(": ")
            if not text and (data or told_id is not None):
                self.last_id = told_id if told_id is not None else self.last_id
                return Heard(kind or "id", told_id, json.loads(data) if data else {})
            if text.startswith(":"):
                return Heard(":", None, {"text": text})
            if name == "retry":
                self.retry = value
            kind = value if name == "event" else kind
            told_id = value if name == "id" else told_id
            assert name != "data" or not data, "data is one line"
            data = value if name == "data" else data
        return None

    async def until(self, wanted: Callable[[Heard], bool]) -> list[Heard]:
        """Everything up to the first event that is wanted."""
        found: list[Heard] = []
        while True:
            heard = await self.hear()
            assert heard is not None, found
            found.append(heard)
            if wanted(heard):
                return found


@asynccontextmanager
async def listening(
    client: httpx2.AsyncClient, *channels: str, last_id: str | None = None
) -> AsyncIterator[Ears]:
    headers = {"Last-Event-ID": last_id} if last_id is not None else {}
    params = [("channel", channel) for channel in channels]
    async with client.stream("GET", "/api/events", params=params, headers=headers, timeout=WAIT_S) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].partition(";")[0] == "text/event-stream"
        yield Ears(answer.aiter_lines())
