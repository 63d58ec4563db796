"""What a worker that is elsewhere and its server agree on."""

from base64 import b64encode
from hashlib import sha256

PROTOCOL = 1
"""Raised when the calls between worker and server change so that one of before cannot take part."""
STORAGE = "storage"
"""The capability of who works on the server's own disk; nobody from elsewhere may claim to have it."""
TOKEN_HEADER = "Takeup-Token"  # noqa: S105 - the name of a header
TASK_FILE_BYTES_MAX = 1 << 40
CHANGED_HEADER = "Takeup-Changed-Ns"
"""When a source was changed last: a copy of it bears the same time."""
OFFSET_HEADER = "Upload-Offset"
LENGTH_HEADER = "Upload-Length"
SHA256_HEADER = "Upload-Sha256"
WAIT_S_MAX = 60.0
"""How long a claim may wait for work."""
PART_BYTES_MAX = 4 << 20
"""A part of a file that is sent with its hash is no larger: it is read before it is sent."""
DIGEST_HEADER = "Content-Digest"
WANT_DIGEST = {"Want-Content-Digest": "sha-256=1"}
"""What a client sends that wants a part with its hash (RFC 9530)."""


def digest_of(data: bytes | bytearray) -> str:
    """The hash of a part as `Content-Digest` tells it."""
    return f"sha-256=:{b64encode(sha256(data).digest()).decode()}:"
