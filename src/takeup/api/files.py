"""Parts of files as answers, read a piece at a time."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import IO, Any

from fastapi import Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from takeup.api.problems import HttpError
from takeup.core.errors import NotFound
from takeup.media.serving import Answer

BLOCK_BYTES = 256 << 10
"""So much of a file, and little more, is in memory for whoever does not read."""
ADVICE = "`GET /api/videos` tells what is served, and where it begins."
PARTS: dict[int | str, dict[str, Any]] = {
    206: {"description": "A part"},
    304: {"description": "As you have it"},
}
"""What else than the whole file is answered."""


class BadRange(HttpError):
    """The part that is asked for lies behind the end of the file."""

    http_status = 416
    help = "Ask for a part within the length that `Content-Range` tells."


async def file_response(told: Answer, *, with_body: bool = True) -> Response:
    """What `media/serving.py` answers, as this server sends it."""
    headers = dict(told.headers)
    if told.status == HTTPStatus.NOT_FOUND:
        raise NotFound("there is no such file", advice=ADVICE)
    if told.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        refusal = BadRange("the file is shorter than that")
        refusal.headers = {"Content-Range": headers["Content-Range"]}
        raise refusal
    if told.file is None or told.length == 0 or not with_body:
        return Response(told.body, told.status, headers=headers)
    try:
        file = await asyncio.to_thread(told.file.open, "rb")
    except OSError:  # it went away meanwhile, or may not be read
        raise NotFound("there is no such file", advice=ADVICE) from None
    return PartOfFile(file, told, headers)


class PartOfFile(StreamingResponse):
    """A part of an open file; however the answer ends, the file is closed."""

    def __init__(self, file: IO[bytes], told: Answer, headers: Mapping[str, str]) -> None:
        """The file is read when it is sent."""
        self._file = file
        super().__init__(_pieces(file, told.start, told.length), told.status, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        with self._file:
            await super().__call__(scope, receive, send)


async def _pieces(file: IO[bytes], start: int, length: int) -> AsyncIterator[bytes]:
    left = length
    file.seek(start)
    while left and (block := await asyncio.to_thread(file.read, min(left, BLOCK_BYTES))):
        left -= len(block)
        yield block
