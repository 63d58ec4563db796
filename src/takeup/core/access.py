"""Who may do what over HTTP: scopes of keys, roles of people, and the row of a key."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

Scope = Literal["read", "events", "write", "admin", "worker"]
"""Look; follow live; create and change jobs; manage workers and keys; make the calls of a worker."""

SCOPES: tuple[Scope, ...] = get_args(Scope)

Role = Literal["viewer", "operator", "admin"]

ROLES: dict[str, frozenset[Scope]] = {
    "viewer": frozenset({"read", "events"}),
    "operator": frozenset({"read", "events", "write"}),
    "admin": frozenset({"read", "events", "write", "admin"}),
}


@dataclass(frozen=True, slots=True)
class ApiKey:
    """The row of a key: everything but what would let anybody in."""

    id: str
    kind: str
    name: str
    worker_id: str | None
    scopes: frozenset[Scope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
