"""Sends one request to an address that was judged: no redirects, no proxies, no cookies, within a time."""

import asyncio
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from takeup.net.guard import Guard, Target
from takeup.net.reply import HEAD_BYTES_MAX, BadReply, Head, read_body, read_head
from takeup.net.resolving import Resolve, Unresolved, addresses_of, resolve_by_system

SUCCESSES = range(200, 300)
LINE = re.compile(r"[A-Za-z-]+: [ -~]*\Z")


class Unreachable(Exception):
    """Nothing was answered; the text says why, without the address."""


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
        self._guard = guard
        self._resolve = resolve
        self._trust = trust

    async def check(self, url: str) -> None:
        """Refuse a URL that may not be called, as it looks now."""
        target = self._guard.target(url)
        try:
            async with asyncio.timeout(self.timeout_s):
                await addresses_of(target, self._guard, self._resolve)
        except TimeoutError:
            raise Unresolved(f"the name {target.host} was not resolved within {self.timeout_s:g} s") from None

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Send a body and read the answer; raises what is wrong with the target, or that it was not reached.

        Once the head of an answer is here it counts; its body is read as long as there is time.
        """
        target = self._guard.target(url)
        until = asyncio.get_running_loop().time() + self.timeout_s
        try:
            async with asyncio.timeout_at(until):
                addresses = await addresses_of(target, self._guard, self._resolve)
                reader, writer = await self._connect(target, addresses)
        except TimeoutError:
            raise Unreachable(f"no connection within {self.timeout_s:g} s") from None
        try:
            writer.write(request_of(target, headers, body))
            async with asyncio.timeout_at(until):
                await writer.drain()
                head = await read_head(reader)
            return Reply(head.status, head.headers, await _body_until(until, reader, head))
        except TimeoutError:
            raise Unreachable(f"no answer within {self.timeout_s:g} s") from None
        except BadReply as error:
            raise Unreachable(f"what came back is no answer: {error}") from None
        except OSError as error:
            raise Unreachable(f"the connection broke: {_reason(error)}") from None
        finally:
            writer.transport.abort()

    async def _connect(
        self, target: Target, addresses: Sequence[str]
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the first of these addresses that takes one."""
        failure = "no address"
        for address in addresses:
            try:
                return await asyncio.open_connection(
                    address,
                    target.port,
                    limit=HEAD_BYTES_MAX,
                    ssl=self._context() if target.is_secure else None,
                    server_hostname=target.host if target.is_secure else None,
                )
            except OSError as error:
                failure = _reason(error)
        raise Unreachable(f"no connection: {failure}")

    def _context(self) -> ssl.SSLContext:
        """Whose certificates are believed: those of this machine, read once."""
        if self._trust is None:
            self._trust = ssl.create_default_context()
        return self._trust


def request_of(target: Target, headers: Mapping[str, str], body: bytes) -> bytes:
    """The request as it goes over the wire."""
    lines = {
        "Host": target.authority,
        "User-Agent": "takeup",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Accept-Encoding": "identity",
        "Connection": "close",
        **headers,
    }
    for name, value in lines.items():
        if not LINE.match(f"{name}: {value}"):
            raise ValueError(f"the header {name!r} has a value that cannot be sent")
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {target.path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body


async def _body_until(until: float, reader: asyncio.StreamReader, head: Head) -> bytes:
    try:
        async with asyncio.timeout_at(until):
            return await read_body(reader, head)
    except (TimeoutError, OSError):
        return b""  # the answer was given; only its words are missing


def _reason(error: OSError) -> str:
    """Why, without addresses, and in the words of TLS where it was that."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was not believed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or 'it broke off'}"
    return os.strerror(error.errno) if error.errno else type(error).__name__
