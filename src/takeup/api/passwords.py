"""Passwords as argon2id hashes; each takes memory on purpose, so only a few are made or compared at once."""

import asyncio
import base64
import os
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple, TypeVar

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from takeup.core.errors import TakeupError

T = TypeVar("T")


class Cost(NamedTuple):
    """What one hash takes."""

    memory_kib: int
    rounds: int
    lanes: int


COST = Cost(65_536, 3, 1)
"""What RFC 9106 recommends where memory counts, but in one lane, since others want to log in meanwhile."""
AT_ONCE_MAX = 4
"""Four times 64 MB is what a small server can spare."""
WAITING_MAX = 64
SALT_BYTES, HASH_BYTES = 16, 32


class TooBusy(TakeupError):
    """So many people log in that one more would wait for too long."""

    http_status = 503
    help = "Log in again in a moment."


def hash_of(password: str) -> str:
    """What the database keeps of a password."""
    return _hasher(COST).hash(_bytes_of(password))


def fits(password_hash: str | None, password: str) -> bool:
    """Whether it is the password of this hash; None is nobody's, and takes as long."""
    try:
        return _hasher(COST).verify(password_hash or _nobody(COST), _bytes_of(password))
    except (VerificationError, InvalidHashError):
        return False


def is_outdated(password_hash: str) -> bool:
    """Whether it was made at another cost."""
    return _hasher(COST).check_needs_rehash(password_hash)


class Passwords:
    """Hashes passwords beside the event loop."""

    def __init__(self) -> None:
        at_once = min(os.cpu_count() or 1, AT_ONCE_MAX)
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="password")
        self._asked = 0

    async def hash_of(self, password: str) -> str:
        """What the database keeps of a password."""
        return await self._in_turn(hash_of, password)

    async def fits(self, password_hash: str | None, password: str) -> bool:
        """Whether it is the password of this hash; None is nobody's, and takes as long."""
        return await self._in_turn(fits, password_hash, password)

    async def _in_turn(self, work: Callable[..., T], *arguments: str | None) -> T:
        if self._asked >= WAITING_MAX:
            raise TooBusy(f"{WAITING_MAX} passwords are being looked at")
        self._asked += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        finally:
            self._asked -= 1


@cache
def _hasher(cost: Cost) -> PasswordHasher:
    return PasswordHasher(
        time_cost=cost.rounds,
        memory_cost=cost.memory_kib,
        parallelism=cost.lanes,
        hash_len=HASH_BYTES,
        salt_len=SALT_BYTES,
        type=Type.ID,
    )


@cache
def _nobody(cost: Cost) -> str:
    """A hash that no password has, at the cost of the others."""
    salt, found = (base64.b64encode(bytes(size)).decode().rstrip("=") for size in (SALT_BYTES, HASH_BYTES))
    return f"$argon2id$v=19$m={cost.memory_kib},t={cost.rounds},p={cost.lanes}${salt}${found}"


def _bytes_of(password: str) -> bytes:
    """The same for a password that another keyboard codes in another way."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
