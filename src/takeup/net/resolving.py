"""From the name of a host to addresses that were judged; asked anew for each call, and used as they are."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address

from takeup.core.errors import TakeupError
from takeup.net.guard import Guard, Target, literal

ADDRESSES_MAX = 4
"""How many addresses of one name are tried."""

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a name as texts; raises OSError if there are none."""


class Unresolved(TakeupError):
    """The name of a host means nothing now."""

    retryable = True
    http_status = 422
    help = "Check how the name is spelled, and that this machine can look names up."


async def resolve_by_system(name: str) -> list[str]:
    """The addresses that this machine finds for a name."""
    found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
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
