"""Sends one request to an address that was judged: no redirects, no proxies, no cookies, within a time."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from takeup.net.calling import Caller, head_of, telling
from takeup.net.guard import Guard, Target
from takeup.net.reply import Head, read_body, read_head
from takeup.net.resolving import Resolve, resolve_by_system

SUCCESSES = range(200, 300)


@dataclass(frozen=True, slots=True)
class Reply:
    """What was answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether it was taken; a redirect is none."""
        return self.status in SUCCESSES

    @property
    def text(self) -> str:
        """The body for people; it is never shown as anything but text."""
        return self.body.decode("utf-8", "replace")


class Poster:
    """Posts to targets: each time its name is looked up, and the address that was judged is called."""

    def __init__(
        self,
        guard: Guard,
        *,
        timeout_s: float,
        resolve: Resolve = resolve_by_system,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        """`timeout_s` is for all of a call; `trust` says whose certificates are believed."""
        self.timeout_s = timeout_s
        self._caller = Caller(guard, resolve=resolve, trust=trust)

    async def check(self, url: str) -> None:
        """Refuse a URL that may not be called, as it looks now."""
        await self._caller.check(url, self.timeout_s)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send a body and read the answer; raises what is wrong with the target, or that it was not reached.

        Once the head of an answer is here it counts; its body is read as long as there is time.
        """
        target = self._caller.target(url)
        until = asyncio.get_running_loop().time() + self.timeout_s
        with telling(self.timeout_s, "connection"):
            async with asyncio.timeout_at(until):
                reader, writer = await self._caller.connect(target)
        try:
            with telling(self.timeout_s, "answer"):
                writer.write(request_of(target, headers, body))
                async with asyncio.timeout_at(until):
                    await writer.drain()
                    head = await read_head(reader)
                return Reply(head.status, head.headers, await _body_until(until, reader, head))
        finally:
            writer.transport.abort()


def request_of(target: Target, headers: Mapping[str, str], body: bytes) -> bytes:
    """The request as it goes over the wire."""
    named = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    return head_of("POST", target, named) + body


async def _body_until(until: float, reader: asyncio.StreamReader, head: Head) -> bytes:
    try:
        async with asyncio.timeout_at(until):
            return await read_body(reader, head)
    except (TimeoutError, OSError):
        return b""  # the answer was given; only its words are missing
