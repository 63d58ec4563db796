"""Fetches a file over HTTP as a stream: guarded at every step, and only while it comes fast enough."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urljoin

from takeup.core.errors import TakeupError
from takeup.net.calling import Caller, Line, Unreachable, head_of, reason_of, telling
from takeup.net.guard import Forbidden, Target
from takeup.net.reply import BadReply, Head, read_head, size_of_piece

BLOCK_BYTES = 1 << 16
BYTES_A_LOOK = 30_000
"""A file that brings less within the time-out is not waited for."""
REDIRECTS = (301, 302, 303, 307, 308)
REDIRECTS_MAX = 5
SIZE_DIGITS_MAX = 15
RANGE = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15}|\*)\Z")


class TooManyRedirects(TakeupError):
    """An address led to another, and so on."""

    http_status = 422
    help = "Give the address to which the others lead."


class BrokeOff(Unreachable):
    """Less came than was said; what came counts."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered; the body comes as it is read."""

    status: int
    headers: Mapping[str, str]
    body: AsyncIterator[bytes]

    @property
    def length(self) -> int | None:
        """How long the body is, if that was said."""
        text = self.headers.get("content-length", "")
        is_chunked = "transfer-encoding" in self.headers
        return int(text) if text and not is_chunked else None

    @property
    def validator(self) -> str:
        """What says that it is the same file later: a strong ETag, or when it was changed."""
        tag = self.headers.get("etag", "")
        return tag if tag.startswith('"') else self.headers.get("last-modified", "")

    @property
    def part(self) -> tuple[int, int | None] | None:
        """Where the part that came begins, and how long the whole is."""
        match = RANGE.match(self.headers.get("content-range", ""))
        if match is None:
            return None
        return int(match[1]), None if match[3] == "*" else int(match[3])


class Fetcher:
    """Asks for files."""

    def __init__(self, caller: Caller, *, timeout_s: float) -> None:
        """Within `timeout_s` there is an answer, and then each time some more of the body."""
        self.timeout_s = timeout_s
        self._caller = caller

    async def check(self, url: str) -> None:
        """Refuse a URL that may not be called, as it looks now."""
        await self._caller.check(url, self.timeout_s)

    @asynccontextmanager
    async def get(self, url: str, headers: Mapping[str, str]) -> AsyncIterator[Answer]:
        """The answer to whoever is asked in the end: each address on the way is judged like the first."""
        target = self._caller.target(url)
        for _ in range(REDIRECTS_MAX + 1):
            line, head = await self._ask(target, headers)
            place = head.headers.get("location")
            if head.status in REDIRECTS and place:
                line[1].transport.abort()
                url = _joined(url, place)
                target = self._next(target, url)
                continue
            try:
                yield Answer(head.status, head.headers, self._body(line[0], head))
            finally:
                line[1].transport.abort()
            return
        raise TooManyRedirects(f"it leads on more than {REDIRECTS_MAX} times")

    def _next(self, target: Target, url: str) -> Target:
        found = self._caller.target(url)
        if target.is_secure and not found.is_secure:
            raise Forbidden("it leads from https to plain http")
        return found

    async def _ask(self, target: Target, headers: Mapping[str, str]) -> tuple[Line, Head]:
        """Ask, and read the head of the answer."""
        line: Line | None = None
        head: Head | None = None
        try:
            with telling(self.timeout_s, "answer"):
                async with asyncio.timeout(self.timeout_s):
                    line = await self._caller.connect(target)
                    line[1].write(head_of("GET", target, headers))
                    await line[1].drain()
                    head = _checked(await read_head(line[0]))
        finally:
            if line is not None and head is None:
                line[1].transport.abort()
        return line, head

    async def _body(self, reader: asyncio.StreamReader, head: Head) -> AsyncIterator[bytes]:
        """The body in blocks; raises if it is slow, or less than was said."""
        if "transfer-encoding" in head.headers:
            blocks = _chunks(reader)
        else:
            length = head.headers.get("content-length")
            blocks = _upto(reader, int(length) if length else None)
        clock = asyncio.get_running_loop().time
        since, count = clock(), 0
        while True:
            try:
                async with asyncio.timeout_at(since + self.timeout_s):
                    block = await anext(blocks, b"")
            except TimeoutError:
                raise BrokeOff(f"less than {BYTES_A_LOOK} bytes came within {self.timeout_s:g} s") from None
            except OSError as error:
                raise BrokeOff(f"the connection broke: {reason_of(error)}") from None
            if not block:
                return
            count += len(block)
            if count >= BYTES_A_LOOK:
                since, count = clock(), 0
            yield block


def _joined(url: str, place: str) -> str:
    try:
        return urljoin(url, place)
    except ValueError:
        raise Forbidden("it leads to an address that cannot be read") from None


def _checked(head: Head) -> Head:
    """Refuse what nobody can read in one way only."""
    coding = head.headers.get("content-encoding", "identity").lower()
    if coding != "identity":
        raise BadReply(f"it is packed as {coding[:40]!r}, which was not asked for")
    transfer = head.headers.get("transfer-encoding", "chunked").lower()
    if transfer != "chunked":
        raise BadReply(f"it comes as {transfer[:40]!r}, which was not asked for")
    length = head.headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal() and len(length) <= SIZE_DIGITS_MAX):
        raise BadReply("its length is no number")
    return head


async def _upto(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    """So many bytes; without a length all that comes."""
    left = length
    while left is None or left > 0:
        block = await reader.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left))
        if not block:
            if left:
                raise BrokeOff(f"it broke off {left} bytes before its end")
            return
        left = None if left is None else left - len(block)
        yield block


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """A body in pieces that each say how long they are."""
    try:
        while True:
            size = size_of_piece(await reader.readuntil(b"\r\n"))
            if size == 0:
                return
            async for block in _upto(reader, size):
                yield block
            if await reader.readexactly(2) != b"\r\n":
                raise BrokeOff("a piece is longer than it said")
    except BadReply as error:
        raise BrokeOff(str(error)) from None
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise BrokeOff("it broke off within a piece") from None
