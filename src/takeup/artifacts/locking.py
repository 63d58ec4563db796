"""Files and folders had to oneself, or shared with others: every process on the same storage sees it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from takeup.core.errors import TakeupError


@contextmanager
def locked(
    path: Path,
    flags: int,
    *,
    busy: TakeupError,
    gone: TakeupError,
    missing: TakeupError,
    mode: int = 0o600,
    is_shared: bool = False,
) -> Iterator[int]:
    """A descriptor of it, locked as long as it is open; raises `missing` or, if others have it, `busy`.

    What lost its name before it was locked is not what the name means any more: `gone` is raised. Nobody
    waits, so that two who want the same things in another order cannot wait for each other.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except FileNotFoundError:
        raise missing from None
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        if not is_still(path, descriptor):
            raise gone
        yield descriptor
    finally:
        os.close(descriptor)


def is_still(path: Path, descriptor: int) -> bool:
    """Whether what was opened still has its name."""
    try:
        return path.lstat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False
