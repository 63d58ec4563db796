"""Files on a local disk: walked without following links, hashed, written so that nothing can tear them."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from takeup.artifacts.layout import OWN_FILES, check_name
from takeup.core.errors import InvalidInput
from takeup.core.points import point
from takeup.core.report import ARTIFACTS_MAX

BLOCK_BYTES = 2**20
ENTRIES_MAX = 2 * ARTIFACTS_MAX
"""Of files and folders in one output."""


class Entry(NamedTuple):
    """Something in an output's folder, by its name relative to it."""

    name: str
    path: Path
    stat: os.stat_result

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.stat.st_mode)


def walk(root: Path) -> Iterator[Entry]:
    """Every file and folder below, our own files left out; raises `InvalidInput` at whatever is neither."""
    if not stat.S_ISDIR(root.lstat().st_mode):
        raise InvalidInput(f"{root.name} is not a folder")
    waiting = [("", root)]
    seen = 0
    while waiting:
        prefix, folder = waiting.pop()
        for path in sorted(folder.iterdir()):
            seen += 1
            if seen > ENTRIES_MAX:
                raise InvalidInput(f"the outputs are more than {ENTRIES_MAX} files and folders")
            entry = Entry(prefix + path.name, path, path.lstat())
            is_file = stat.S_ISREG(entry.stat.st_mode)
            if is_file and entry.name in OWN_FILES:
                continue
            check_name(entry.name)
            if not is_file and not entry.is_folder:
                raise InvalidInput(f"output {entry.name!r} is neither a file nor a folder")
            if entry.is_folder:
                waiting.append((f"{entry.name}/", path))
            yield entry


def hash_file(path: Path, *, sync: bool = False) -> tuple[str, int]:
    """SHA-256 and size of a regular file; with `sync` it is also made to last."""
    sha256, size = hashlib.sha256(), 0
    block = memoryview(bytearray(BLOCK_BYTES))
    with reading(path) as fd:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise InvalidInput(f"output {path.name!r} is not a file")
        while count := os.readv(fd, [block]):
            sha256.update(block[:count])
            size += count
        if sync:
            os.fsync(fd)
    return sha256.hexdigest(), size


def read_bounded(path: Path, bytes_max: int) -> bytes | None:
    """The bytes of a regular file of at most this size; None if there is no such file to read."""
    try:
        with reading(path) as fd:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > bytes_max:
                return None
            with os.fdopen(fd, "rb", closefd=False) as file:
                return file.read(bytes_max)
    except OSError:
        return None


def write_durably(path: Path, new: Path, data: bytes) -> None:
    """Put this content under the name by a rename of `new`, which lies in the same folder."""
    new.unlink(missing_ok=True)
    with new.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    point("manifest.before rename")
    new.rename(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in this folder last."""
    with reading(path) as fd:
        os.fsync(fd)


@contextmanager
def reading(path: Path) -> Iterator[int]:
    """A descriptor of this very file or folder."""
    # Without NONBLOCK a fifo that takes a file's place would hang us.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
