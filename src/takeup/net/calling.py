"""Connections to the outside: each time the name is looked up, and the address that was judged is called."""

import asyncio
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from takeup.net.guard import Guard, Target
from takeup.net.reply import HEAD_BYTES_MAX, BadReply
from takeup.net.resolving import Resolve, Unresolved, addresses_of, resolve_by_system

LINE = re.compile(r"[A-Za-z-]+: [ -~]*\Z")

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Unreachable(Exception):
    """Nothing was answered; the text says why, without the address."""


class Caller:
    """Connects to targets that may be called."""

    def __init__(
        self, guard: Guard, *, resolve: Resolve = resolve_by_system, trust: ssl.SSLContext | None = None
    ) -> None:
        """`trust` says whose certificates are believed."""
        self._guard = guard
        self._resolve = resolve
        self._trust = trust

    def target(self, url: str) -> Target:
        """The parts of a URL that may be called, as far as its form says."""
        return self._guard.target(url)

    async def check(self, url: str, timeout_s: float) -> None:
        """Refuse a URL that may not be called, as it looks now."""
        target = self.target(url)
        try:
            async with asyncio.timeout(timeout_s):
                await addresses_of(target, self._guard, self._resolve)
        except TimeoutError:
            raise Unresolved(f"the name {target.host} was not resolved within {timeout_s:g} s") from None

    async def connect(self, target: Target) -> Line:
        """A connection to the first of its addresses that takes one."""
        failure = "no address"
        for address in await addresses_of(target, self._guard, self._resolve):
            try:
                return await asyncio.open_connection(
                    address,
                    target.port,
                    limit=HEAD_BYTES_MAX,
                    ssl=self._context() if target.is_secure else None,
                    server_hostname=target.host if target.is_secure else None,
                )
            except OSError as error:
                failure = reason_of(error)
        raise Unreachable(f"no connection: {failure}")

    def _context(self) -> ssl.SSLContext:
        """Whose certificates are believed: those of this machine, read once."""
        if self._trust is None:
            self._trust = ssl.create_default_context()
        return self._trust


@contextmanager
def telling(timeout_s: float, what: str) -> Iterator[None]:
    """Whatever goes wrong with a connection, in words for people."""
    try:
        yield
    except TimeoutError:
        raise Unreachable(f"no {what} within {timeout_s:g} s") from None
    except BadReply as error:
        raise Unreachable(f"what came back is no answer: {error}") from None
    except OSError as error:
        raise Unreachable(f"the connection broke: {reason_of(error)}") from None


def head_of(method: str, target: Target, headers: Mapping[str, str]) -> bytes:
    """The head of a request as it goes over the wire."""
    lines = {
        "Host": target.authority,
        "User-Agent": "takeup",
        "Accept-Encoding": "identity",
        "Connection": "close",
        **headers,
    }
    for name, value in lines.items():
        if not LINE.match(f"{name}: {value}"):
            raise ValueError(f"the header {name!r} has a value that cannot be sent")
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {target.path} HTTP/1.1\r\n{text}\r\n".encode("ascii")


def reason_of(error: OSError) -> str:
    """Why, without addresses, and in the words of TLS where it was that."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was not believed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or 'it broke off'}"
    return os.strerror(error.errno) if error.errno else type(error).__name__
