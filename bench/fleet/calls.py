"""A client that costs next to nothing: one connection, one call at a time, HTTP as our server speaks it."""

import asyncio
import json
from typing import Any

HEAD_END = b"\r\n\r\n"


class Refused(Exception):
    """The server answered with an error."""


class Line:
    """A connection that is kept, and opened again should it break."""

    def __init__(self, host: str, port: int, key: str) -> None:
        self._place = host, port
        self._head = f"Host: {host}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: object) -> Any:
        """The JSON of the answer."""
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\n{self._head}Content-Length: {len(data)}\r\n\r\n"
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._place)
        reader, writer = self._streams
        try:
            writer.write(head.encode() + data)
            told = await reader.readuntil(HEAD_END)
            lines = told.decode("latin-1").lower().split("\r\n")
            length = next(
                (int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0
            )
            answer = await reader.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            raise
        status = int(told.split(b" ", 2)[1])
        if status >= 300:
            raise Refused(f"{path}: {status} {answer[:200]!r}")
        return json.loads(answer) if answer else None

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
