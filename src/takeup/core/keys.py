"""Keys of programs and workers, and what lets people in: their form, so that a wrong one is refused unasked.

A key is `takeup_<kind>_<id>_<secret><check>`. The id finds its row, the secret is 256 random bits of which
the database keeps a hash, and the check is a checksum of all before it: a mistyped key is known at once.
"""

import hashlib
import hmac
import re
import zlib
from typing import Literal, NamedTuple, cast, get_args

from takeup.core.ids import RandomBytes

Kind = Literal["wrk", "key", "ses", "set"]
"""Of a worker or of any other program; of a person's session, or of the link that makes the first admin."""

DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SECRET_BYTES, SECRET_CHARS = 32, 43
CHECK_CHARS = 6
ID_BYTES, ID_CHARS = 6, 12
FORM = re.compile(
    rf"takeup_({'|'.join(get_args(Kind))})_([0-9a-f]{{{ID_CHARS}}})_([0-9A-Za-z]{{{SECRET_CHARS}}})"
    rf"([0-9A-Za-z]{{{CHECK_CHARS}}})\Z"
)


ANYWHERE = re.compile(FORM.pattern.removesuffix(r"\Z"))
"""A key inside another text."""


class Key(NamedTuple):
    """A key in the hands of its owner."""

    kind: Kind
    id: str
    secret: str

    @property
    def text(self) -> str:
        """As it is handed out, once."""
        body = f"takeup_{self.kind}_{self.id}_{self.secret}"
        return body + _written(zlib.crc32(body.encode()), CHECK_CHARS)

    @property
    def hash(self) -> str:
        """What the database keeps of it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def fits(self, stored_hash: str) -> bool:
        """Whether it is the key of this hash; takes as long whether or not it is."""
        return hmac.compare_digest(self.hash, stored_hash)


NOBODY = hashlib.sha256(b"nobody").hexdigest()
"""What the key of an unknown id is compared with, so that it takes as long to be refused."""


def new_key(kind: Kind, random: RandomBytes) -> Key:
    """A fresh key."""
    return Key(kind, random(ID_BYTES).hex(), _written(int.from_bytes(random(SECRET_BYTES)), SECRET_CHARS))


def parse_key(text: str) -> Key | None:
    """The key of this text; None if it has not the form of one."""
    match = FORM.match(text)
    if match is None:
        return None
    key = Key(cast("Kind", match[1]), match[2], match[3])
    return key if key.text == text else None


def _written(number: int, chars: int) -> str:
    """A number in so many digits."""
    text = ""
    for _ in range(chars):
        number, digit = divmod(number, len(DIGITS))
        text = DIGITS[digit] + text
    return text
