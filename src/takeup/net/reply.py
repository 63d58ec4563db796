"""Reads the answer to a request as far as it matters, within bounds, whatever is sent."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass

HEAD_BYTES_MAX = 16_384
BODY_BYTES_MAX = 65_536
LINE_BYTES_MAX = 1024
INTERIM_MAX = 5
"""How many provisional answers (100, 103) are passed over."""

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: |\r|\Z)")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;|\r?\n)")
_FINAL_MIN = 200
_NO_BODY = (204, 304)


class BadReply(Exception):
    """What came back is no answer of HTTP."""


@dataclass(frozen=True, slots=True)
class Head:
    """The beginning of an answer."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case; of several of one name the first."""


async def read_head(reader: asyncio.StreamReader) -> Head:
    """Status and headers of the answer itself."""
    for _ in range(INTERIM_MAX):
        head = await _head(reader)
        if head.status >= _FINAL_MIN:
            return head
    raise BadReply("it never came to the answer itself")


async def read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """The body, or its first 64 kB; what breaks off is taken as far as it came."""
    if head.status in _NO_BODY:
        return b""
    if "chunked" in head.headers.get("transfer-encoding", "").lower():
        return await _chunks(reader)
    length = head.headers.get("content-length", "")
    size = int(length) if length.isascii() and length.isdigit() and len(length) < 10 else BODY_BYTES_MAX  # noqa: PLR2004 - more digits than any body we read
    return await _upto(reader, min(size, BODY_BYTES_MAX))


async def _head(reader: asyncio.StreamReader) -> Head:
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadReply(f"its head is longer than {HEAD_BYTES_MAX} bytes") from None
    except asyncio.IncompleteReadError:
        raise BadReply("it broke off before its head was complete") from None
    if len(data) > HEAD_BYTES_MAX:
        raise BadReply(f"its head is longer than {HEAD_BYTES_MAX} bytes")
    first, *lines = data[:-4].split(b"\r\n")
    found = _STATUS.match(first)
    if found is None:
        raise BadReply("it does not begin like an answer of HTTP")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.decode("latin-1").partition(":")
        headers.setdefault(name.strip().lower(), value.strip())
    return Head(int(found[1]), headers)


def size_of_piece(line: bytes) -> int:
    """What the line before a piece of a body says; of how int() reads it, only the plain way counts."""
    match = _SIZE.match(line[:LINE_BYTES_MAX])
    if match is None:
        raise BadReply("a piece of it does not say how long it is")
    return int(match[1], 16)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while len(body) < BODY_BYTES_MAX:
        try:
            line = await reader.readuntil(b"\n")
            size = size_of_piece(line)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, BadReply):
            return body
        if size == 0:
            return body
        wanted = min(size, BODY_BYTES_MAX - len(body))
        part = await _upto(reader, wanted)
        body += part
        if len(part) < size:
            return body
        await _upto(reader, 2)  # the end of the line behind a chunk
    return body


async def _upto(reader: asyncio.StreamReader, size: int) -> bytes:
    """So many bytes, or what there is of them."""
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        return error.partial
