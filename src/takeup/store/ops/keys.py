"""Keys of programs and workers: made, found, ended; only their hashes are stored."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from takeup.core.access import SCOPES, ApiKey, Scope
from takeup.core.errors import InvalidInput, NotFound
from takeup.core.ids import canonical_json
from takeup.core.keys import Key
from takeup.store.op import Op, Row, query

NAME_CHARS_MAX = 200
LIFE_DAYS_MAX = 3650
PAGE_MAX = 200
KEYS_A_WORKER_MAX = 20


def add(
    key: Key,
    *,
    name: str,
    scopes: frozenset[Scope],
    worker_id: str | None = None,
    life_days: float | None = None,
    replaces: tuple[str, float] | None = None,
) -> Op[None]:
    """Keep the hash of a new key with what it opens, until when; one that it replaces ends after a while."""
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise InvalidInput(f"a key's name must be printable text of 1 to {NAME_CHARS_MAX} characters")
    if unknown := scopes - set(SCOPES):
        raise InvalidInput(f"{min(unknown)!r} is no scope; there are: {', '.join(SCOPES)}")
    if not scopes:
        raise InvalidInput(f"a key needs a scope: {', '.join(SCOPES)}")
    if life_days is not None and not 0 < life_days <= LIFE_DAYS_MAX:
        raise InvalidInput(f"a key lives more than 0 and at most {LIFE_DAYS_MAX} days, not {life_days:g}")
    if worker_id is not None:
        yield from _check_worker(worker_id)
    if replaces is not None:
        yield from expire(*replaces, worker_id)
    clock = yield query("clock")
    expires_at: datetime | None = None
    if life_days is not None:
        expires_at = clock[0]["now_at"] + timedelta(days=life_days)
    yield query(
        "add_key",
        id=key.id,
        kind=key.kind,
        name=name,
        worker_id=worker_id,
        key_hash=key.hash,
        scopes=canonical_json(sorted(scopes)),
        expires_at=expires_at,
    )


def _check_worker(worker_id: str) -> Op[None]:
    if not (yield query("workers_for_change", g=[(worker_id,)])):
        raise NotFound(f"no worker has the id {worker_id!r}")
    known = yield query("live_keys_of_worker", worker_id=worker_id, limit_count=KEYS_A_WORKER_MAX)
    if len(known) >= KEYS_A_WORKER_MAX:
        raise InvalidInput(f"worker {worker_id} has {KEYS_A_WORKER_MAX} keys already; revoke one first")


def find(key_id: str, key_hash: str) -> Op[tuple[ApiKey, str, bool, bool] | None]:
    """A key with its hash, whether it is over, and whether its worker is disabled; None: no such key."""
    rows = yield query("key_by_secret", id=key_id, key_hash=key_hash)
    if not rows:
        return None
    row = rows[0]
    return key_of(row), row["key_hash"], bool(row["is_expired"]), bool(row["is_disabled"])


def page(after: str, limit_count: int) -> Op[list[ApiKey]]:
    """A page of keys."""
    rows = yield query("keys_after", after=after, limit_count=min(max(limit_count, 1), PAGE_MAX))
    return [key_of(row) for row in rows]


def revoke(key_id: str, worker_id: str | None = None) -> Op[bool]:
    """End a key now, if a worker is named one of his; whether it was alive. What was ended stays ended."""
    yield from _must_exist(key_id, worker_id)
    return bool((yield query("revoke_key", id=key_id)))


def expire(key_id: str, after_s: float, worker_id: str | None = None) -> Op[bool]:
    """Let a key end after a while, as its successor takes over; whether that is earlier than before."""
    yield from _must_exist(key_id, worker_id)
    return bool((yield query("expire_key", id=key_id, after_s=float(max(after_s, 0.0)))))


def note_use(key_ids: Sequence[str]) -> Op[None]:
    """These keys were used now."""
    yield query("use_keys", g=[(key_id,) for key_id in key_ids])


def _must_exist(key_id: str, worker_id: str | None) -> Op[None]:
    rows = yield query("key_by_id", id=key_id)
    if not rows or worker_id not in (None, rows[0]["worker_id"]):
        raise NotFound(f"no key has the id {key_id!r}", advice="`takeup keys list` shows the keys there are.")


def key_of(row: Row) -> ApiKey:
    return ApiKey(
        id=row["id"],
        kind=row["kind"],
        name=row["name"],
        worker_id=row["worker_id"],
        scopes=frozenset(json.loads(row["scopes"])),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        revoked_at=row["revoked_at"],
        last_used_at=row["last_used_at"],
    )
