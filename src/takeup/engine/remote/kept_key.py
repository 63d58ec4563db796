"""The key of a worker that registered itself, kept on its disk: it starts again as the same worker."""

import contextlib
import os
import secrets
from hashlib import sha256
from pathlib import Path

from takeup.core.errors import InvalidInput
from takeup.core.keys import parse_key

KEY_BYTES_MAX = 1000


class KeptKey:
    """Where the key for one server, or for several on one database, lies: no other is ever shown it."""

    def __init__(self, folder: Path, urls: str) -> None:
        """Nothing is read before it is asked for."""
        names = sorted({url.strip().rstrip("/") for url in urls.split(",")})
        self.path = folder / f"worker-{sha256(','.join(names).encode()).hexdigest()[:16]}.key"

    def read(self) -> str | None:
        """The key; None if there is none yet."""
        try:
            with self.path.open("rb") as file:
                text = file.read(KEY_BYTES_MAX).decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidInput(f"the key in {self.path} cannot be read: {error.strerror}") from error
        if parse_key(text) is None:
            raise InvalidInput(f"what stands in {self.path} is no key", advice=self.advice)
        return text

    def write(self, text: str) -> None:
        """Keep this key, whole or not at all, for the owner of the process alone."""
        part = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            raise InvalidInput(
                f"the key of this worker cannot be kept in {self.path}: {error.strerror}",
                advice="Make room, or choose another folder with --data DIR.",
            ) from error

    @property
    def advice(self) -> str:
        """What to do if the server does not know the key any more."""
        return (
            f"If the worker was revoked or forgotten on purpose, it is over; else remove {self.path}, "
            "and it registers as a new one."
        )
