"""What a worker that is elsewhere and its server agree on."""

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
