"""From the name of a host to addresses that were judged; asked anew for each call, and used as they are."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from ipaddress import ip_address
from typing import Any

from takeup.core.errors import TakeupError
from takeup.net.guard import Guard, Target, literal

ADDRESSES_MAX = 4
"""How many addresses of one name are tried."""
THREADS, LOOKUPS_MAX = 8, 64
"""How many names are looked up at once, and how many more of them may wait with those."""

Found = tuple[Any, ...]
Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a name as texts; raises OSError if there are none."""


class Unresolved(TakeupError):
    """The name of a host means nothing now."""

    retryable = True
    http_status = 422
    help = "Check how the name is spelled, and that this machine can look names up."


class Lookups:
    """Asks the system in threads of its own: a name may take long, and files are read in the common ones."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="resolving")
        self._places = threading.BoundedSemaphore(LOOKUPS_MAX)

    def begin(self, name: str) -> "Future[list[Found]]":
        """Look up one more name; whoever stops waiting for it leaves its thread busy until it is found."""
        if not self._places.acquire(blocking=False):
            raise Unresolved(f"{LOOKUPS_MAX} names are looked up already", advice="Try again in a moment.")
        looking = self._threads.submit(lambda: socket.getaddrinfo(name, None, type=socket.SOCK_STREAM))
        looking.add_done_callback(lambda _: self._places.release())
        return looking


_lookups = cache(Lookups)


async def resolve_by_system(name: str) -> list[str]:
    """The addresses that this machine finds for a name."""
    found = await asyncio.wrap_future(_lookups().begin(name))
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def addresses_of(target: Target, guard: Guard, resolve: Resolve) -> list[str]:
    """Where a target may be called now; raises if it cannot be found, or if any of it may not be called.

    These very addresses are connected to, so that what was judged is what is called.
    """
    known = literal(target.host)
    if known is not None:
        texts: Sequence[str] = [str(known)]
    else:
        try:
            texts = await resolve(target.host)
        except (OSError, UnicodeError):
            raise Unresolved(f"the name {target.host} cannot be resolved") from None
    try:
        found = [ip_address(text) for text in texts]
    except ValueError:  # an address with a zone is one of the next cable
        raise Unresolved(f"the name {target.host} has an address that is none") from None
    if not found:
        raise Unresolved(f"the name {target.host} has no address")
    guard.check(found)
    return [str(address) for address in found[:ADDRESSES_MAX]]
