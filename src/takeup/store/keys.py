"""The facade of keys: who may make, find and end them is decided at the edge."""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from takeup.core.access import ApiKey, Scope
from takeup.core.ids import RandomBytes
from takeup.core.keys import NOBODY, Key, new_key
from takeup.core.model import WorkerSpec
from takeup.store.drivers import Driver
from takeup.store.ops import keys, worker

WORKER: frozenset[Scope] = frozenset({"worker"})


class Found(NamedTuple):
    """What is behind a key that was shown."""

    key: ApiKey
    is_over: bool
    """Expired or revoked."""
    is_disabled: bool
    """Its worker is."""


class KeyStore:
    """Keys of programs and workers; a secret leaves this class once, in the answer to `add`."""

    def __init__(self, driver: Driver, random: RandomBytes = secrets.token_bytes) -> None:
        """`random` makes the secrets."""
        self._driver = driver
        self._random = random

    async def add(
        self,
        name: str,
        scopes: frozenset[Scope],
        *,
        worker_id: str | None = None,
        life_days: float | None = None,
        replaces: tuple[str, float] | None = None,
    ) -> Key:
        """A new key: of a program, or of this worker; `replaces` is one that ends so many seconds later."""
        key = new_key("key" if worker_id is None else "wrk", self._random)
        await self._driver.run(
            keys.add,
            key,
            name=name,
            scopes=scopes,
            worker_id=worker_id,
            life_days=life_days,
            replaces=replaces,
        )
        return key

    async def enrol(self, spec: WorkerSpec) -> Key:
        """Make a worker known, and its first key."""
        key = new_key("wrk", self._random)
        await self._driver.run(worker.enrol, key=key, spec=spec, scopes=WORKER)
        return key

    async def find(self, shown: Key) -> Found | None:
        """What a key opens; None if it is nobody's. An unknown id takes as long as a wrong secret."""
        found = await self._driver.read(keys.find, shown.id, shown.hash)
        fits = shown.fits(NOBODY if found is None else found[1])
        if found is None or not fits or found[0].kind != shown.kind:
            return None
        row, _, is_expired, is_disabled = found
        return Found(row, is_expired or row.revoked_at is not None, is_disabled)

    async def list(self, *, after: str = "", limit: int = keys.PAGE_MAX) -> list[ApiKey]:
        """A page of keys."""
        return await self._driver.read(keys.page, after, limit)

    async def revoke(self, key_id: str, *, worker_id: str | None = None) -> bool:
        """End a key now, if a worker is named one of his; whether it was alive."""
        return await self._driver.run(keys.revoke, key_id, worker_id)

    async def expire(self, key_id: str, *, after_s: float, worker_id: str | None = None) -> bool:
        """Let a key end after a while; whether that is earlier than before."""
        return await self._driver.run(keys.expire, key_id, after_s, worker_id)

    async def note_use(self, key_ids: Sequence[str]) -> None:
        """These keys were used now."""
        await self._driver.run(keys.note_use, key_ids)
