"""Ids, tokens and digests. Randomness is handed in by the caller, so that a seed repeats a run."""

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from takeup.core.errors import InvalidSpec

RandomBytes = Callable[[int], bytes]
"""A source of random bytes: `secrets.token_bytes` in life, a seeded one in tests."""

SPEC_BYTES_MAX = 1_000_000
SPEC_DEPTH_MAX = 64
NONCE_BYTES = 16
NONCES_KNOWN_MAX = 1024


class Token(NamedTuple):
    """What every write of a lease holder must carry; the nonce is a secret of the holder."""

    epoch: int
    nonce: str


def new_id(prefix: str, random: RandomBytes) -> str:
    """A fresh id such as `job_4f1c…`: 96 random bits behind a word that says what it names."""
    return f"{prefix}_{random(12).hex()}"


def lease_nonces(secret: str, count: int) -> tuple[str, ...]:
    """The nonces of one claim request, derived so that a repeated request yields the same leases again.

    The secret stays with the worker and is never stored; the store sees only hashes of these values.
    """
    size = 2 * NONCE_BYTES
    stream = hashlib.shake_256(b"takeup lease " + secret.encode()).hexdigest(NONCE_BYTES * count)
    return tuple(stream[start : start + size] for start in range(0, size * count, size))


@lru_cache(maxsize=NONCES_KNOWN_MAX)
def nonce_hash(nonce: str) -> str:
    """What the store keeps of a nonce: as many bits of its SHA-256 as the nonce has.

    The latest are remembered, since every report of a holder sends its nonce. That gives nothing away: until
    a lease ends its nonce is in use here anyway, and then it is worth nothing.
    """
    return hashlib.sha256(nonce.encode()).hexdigest()[: 2 * NONCE_BYTES]


def canonical_json(value: Any, *, what: str = "spec") -> str:
    """The one text of a JSON value, for storing and comparing; refuses what is not plain bounded JSON."""
    if value == {}:
        return "{}"
    _check_shape(value, what)
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidSpec(f"the {what} is not JSON: {error}") from None
    if len(text) > SPEC_BYTES_MAX:
        raise InvalidSpec(f"the {what} has {len(text)} bytes; at most {SPEC_BYTES_MAX} are allowed")
    return text


def digest(text: str) -> str:
    """The SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def _check_shape(value: Any, what: str) -> None:
    """Refuse what is too deep, too wide, or text that no database can hold."""
    level: list[Any] = [value]
    seen = 0
    for _ in range(SPEC_DEPTH_MAX + 1):
        if not level:
            return
        seen += len(level)
        if seen > SPEC_BYTES_MAX:
            raise InvalidSpec(f"the {what} has more than {SPEC_BYTES_MAX} values")
        for item in level:
            if isinstance(item, str) and any(c == "\x00" or "\ud800" <= c <= "\udfff" for c in item):
                raise InvalidSpec(f"the {what} holds text with a NUL character or a broken surrogate pair")
        level = [child for item in level for child in _children(item)]
    raise InvalidSpec(f"the {what} is nested deeper than {SPEC_DEPTH_MAX} levels")


def _children(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return [*item.keys(), *item.values()]
    return list(item) if isinstance(item, list | tuple) else []
