"""How a worker that is elsewhere becomes known: an identity of its own, and the key that proves it."""

import secrets
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from takeup.core.errors import InvalidInput
from takeup.core.ids import RandomBytes, canonical_json
from takeup.core.keys import Key
from takeup.core.model import WorkerSpec
from takeup.core.remote import STORAGE
from takeup.store.store import Store

ABOUT_BYTES_MAX = 10_240
"""Of capabilities, and of metadata."""


async def enrol(
    store: Store,
    name: str,
    *,
    capabilities: Iterable[str] = (),
    metadata: Mapping[str, Any] | None = None,
    random: RandomBytes = secrets.token_bytes,
) -> tuple[str, Key]:
    """A new worker and its key; it counts as offline until its process starts."""
    abilities = frozenset(capabilities)
    check_about(abilities, metadata or {})
    worker_id = str(uuid.UUID(bytes=random(16), version=4))
    spec = WorkerSpec(worker_id, name, "remote", 1, abilities, ("*",), dict(metadata or {}))
    return worker_id, await store.keys.enrol(spec)


def check_about(capabilities: frozenset[str], metadata: Mapping[str, Any]) -> None:
    """Refuse what is too much, and an ability that only the server's own machine has."""
    for what, value in (("capabilities", sorted(capabilities)), ("metadata", dict(metadata))):
        size = len(canonical_json(value, what=what))
        if size > ABOUT_BYTES_MAX:
            raise InvalidInput(f"{what} have {size} bytes; at most {ABOUT_BYTES_MAX} are taken")
    if STORAGE in capabilities:
        raise InvalidInput(
            f"the capability {STORAGE!r} is that of workers on the server's own disk",
            advice="Leave it out; a worker that is elsewhere gets its files over HTTP.",
        )
