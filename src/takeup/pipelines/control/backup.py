"""A copy of a DuckDB file before it is changed: byte by byte, under its lock, never over another copy."""

import fcntl
import os
import shutil
from pathlib import Path

from takeup.core.errors import StoreConfig, StoreInUse
from takeup.core.points import point

COPIES_MAX = 1000
PART = ".part"


def back_up(path: Path) -> Path:
    """Copy the file and its log of unmerged writes to `FILE.before-takeup-N`; answers with the copy.

    A process that was killed here before may have left a copy: if it is the same, it is the copy.
    """
    try:
        with path.open("rb+") as file:
            _lock(path, file.fileno())
            number = next((n for n in range(1, COPIES_MAX) if not _name(path, n).exists()), None)
            if number is None:
                raise StoreConfig(f"{path} has {COPIES_MAX} copies already; remove some of them")
            if number > 1 and _is_copy(path, _name(path, number - 1)):
                return _name(path, number - 1)
            return _copy(path, _name(path, number))
    except OSError as error:
        raise StoreConfig(f"{path} cannot be copied before it is changed: {error}") from error


def _name(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.before-takeup-{number}")


def _log_of(path: Path) -> Path:
    """Where DuckDB keeps the writes that are not merged into the file yet."""
    return path.with_name(f"{path.name}.wal")


def _lock(path: Path, descriptor: int) -> None:
    """Take the lock that DuckDB takes; it is free again when the file is closed."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise StoreInUse(f"the DuckDB file {path} is held by another process") from error


def _copy(path: Path, target: Path) -> Path:
    """The log first and the file last, each under its name only when it is whole and on the disk."""
    pairs = [(_log_of(path), _log_of(target))] if _log_of(path).exists() else []
    for source, copy in [*pairs, (path, target)]:
        part = copy.with_name(copy.name + PART)
        shutil.copyfile(source, part)
        _sync(part)
        point("control import.before backup rename")
        part.rename(copy)
    _sync(path.parent)
    return target


def _is_copy(path: Path, copy: Path) -> bool:
    return _is_same(path, copy) and (
        _is_same(_log_of(path), _log_of(copy)) if _log_of(path).exists() else not _log_of(copy).exists()
    )


def _is_same(one: Path, other: Path) -> bool:
    if not other.exists() or one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as left, other.open("rb") as right:
        while block := left.read(1 << 20):
            if block != right.read(1 << 20):
                return False
    return True


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
