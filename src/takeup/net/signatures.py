"""How a receiver knows that a message is ours and fresh, as Standard Webhooks says it.

`webhook-signature` holds `v1,` and the base64 of the HMAC-SHA256 over `id.timestamp.body`, once for each
secret that is alive. A receiver calls `verify`, and remembers the ids it saw for as long as the tolerance.
"""

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence

from takeup.core.errors import InvalidInput
from takeup.core.ids import RandomBytes

PREFIX = "whsec_"
SECRET_BYTES, SECRET_BYTES_MIN, SECRET_BYTES_MAX = 32, 24, 64
TOLERANCE_S = 300.0
SIGNATURES_MAX = 10
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


class BadSecret(InvalidInput):
    """A secret has not the form of one; it is never repeated in the message."""

    help = f"Give {PREFIX} and the base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} random bytes."


class NotGenuine(InvalidInput):
    """A message was not signed with this secret, or is old."""

    http_status = 401
    help = "Drop the message; if it should be ours, compare the secret and the clock of this machine."


def new_secret(random: RandomBytes) -> str:
    """A fresh secret for one endpoint."""
    return PREFIX + base64.b64encode(random(SECRET_BYTES)).decode("ascii")


def key_of(secret: str) -> bytes:
    """The bytes that a secret stands for, or an error that does not tell them."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX).encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise BadSecret("a signing secret must be base64 text") from None
    if not secret.startswith(PREFIX) or not SECRET_BYTES_MIN <= len(key) <= SECRET_BYTES_MAX:
        raise BadSecret(
            f"a signing secret must be {PREFIX} and base64 of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes"
        )
    return key


def sign(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """One signature, with its version before it."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    made = hmac.new(key_of(secret), signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(made).decode("ascii")


def headers_of(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """What is sent with a message; without a secret it is not signed."""
    made = {ID: message_id, TIMESTAMP: str(timestamp)}
    if secrets:
        made[SIGNATURE] = " ".join(sign(secret, message_id, timestamp, body) for secret in secrets)
    return made


def verify(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float | None = None,
    tolerance_s: float = TOLERANCE_S,
) -> str:
    """The id of a message that was signed with this secret a moment ago; raises `NotGenuine` for any other.

    Header names may be in any case. Remember the id for the tolerance and drop a second message with it.
    """
    found = {name.lower(): value for name, value in headers.items()}
    message_id, stamp = found.get(ID, ""), found.get(TIMESTAMP, "")
    if not message_id or not (stamp.isascii() and stamp.isdigit() and len(stamp) < 16):  # noqa: PLR2004 - no moment has more digits
        raise NotGenuine("the message has no id or no time")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance_s:
        raise NotGenuine("the message is too old, or from the future")
    wanted = sign(secret, message_id, int(stamp), body).encode()
    shown = found.get(SIGNATURE, "").split(" ")[:SIGNATURES_MAX]
    if not any(hmac.compare_digest(one.encode(), wanted) for one in shown):
        raise NotGenuine("the message was not signed with this secret")
    return message_id
