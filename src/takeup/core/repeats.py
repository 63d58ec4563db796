"""Calls that carry a key of their caller: from it come ids, so that a repeat makes nothing twice."""

from typing import Any, NamedTuple

from takeup.core.errors import IdempotencyMismatch
from takeup.core.ids import canonical_json, digest
from takeup.core.videos import UPLOAD, VIDEO

ID_CHARS = 24


class Asked(NamedTuple):
    """What a call with a key asks for."""

    tail: str
    """What the ids end with of everything that it makes: the same for each repeat, and for nobody else."""
    request_hash: str

    @classmethod
    def of(cls, call: str, user_id: str, key: str, request: Any) -> "Asked":
        """A request under a key, which is the caller's own and this call's alone."""
        tail = digest(canonical_json([call, user_id, key], what="key"))[:ID_CHARS]
        return cls(tail, digest(canonical_json([call, request], what="request")))

    @property
    def upload_id(self) -> str:
        """The upload that it makes."""
        return UPLOAD + self.tail

    @property
    def video_id(self) -> str:
        """The video that comes of it."""
        return VIDEO + self.tail

    def check(self, known_hash: str | None, made_id: str) -> None:
        """Refuse a key that made this with another request."""
        if known_hash not in (None, self.request_hash):
            raise IdempotencyMismatch(f"the key was used for {made_id} with another request")
