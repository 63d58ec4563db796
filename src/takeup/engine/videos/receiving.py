"""One file that is being received: nobody else writes to it, and what was answered for lasts."""

import asyncio
import contextlib
import errno
import hashlib
import hmac
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from takeup.artifacts.files import sync_folder
from takeup.artifacts.locking import is_still, locked
from takeup.core.errors import InvalidInput, NotFound
from takeup.engine.videos.errors import ChunkChecksum, NoRoom, TooLarge, UploadBusy

T = TypeVar("T")
BLOCK_BYTES = 1 << 20
LOOK_EVERY_BYTES = 32 << 20
"""So often the free space is looked at while a file grows."""
ALGORITHMS = ("sha256", "sha1", "md5")
"""For telling that a part came whole; none of them keeps anybody out."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Digest(NamedTuple):
    """What the bytes of one part must have."""

    algorithm: str
    value: bytes


class Part:
    """The open file of an upload."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Use `opened`."""
        self.path = path
        self._fd = descriptor

    @property
    def size(self) -> int:
        """How much of it is there."""
        return os.fstat(self._fd).st_size

    def write(self, data: bytes | bytearray, offset: int) -> None:
        """Put this at its place, all of it."""
        left = memoryview(data)
        while left:
            count = os.pwrite(self._fd, left, offset)
            left, offset = left[count:], offset + count

    def cut(self, size: int) -> None:
        """Forget what is behind this."""
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Make it last."""
        os.fsync(self._fd)

    def rename(self, path: Path) -> None:
        """Give it its final name, which lasts too."""
        os.fsync(self._fd)
        if not is_still(self.path, self._fd):
            raise UploadBusy("this file was removed under its writer")
        self.path.rename(path)
        sync_folder(path.parent)
        self.path = path

    def remove(self) -> None:
        """Remove it, and never another one that has its name by now."""
        if is_still(self.path, self._fd):
            self.path.unlink()


@contextlib.contextmanager
def opened(path: Path, *, may_make: bool = False, mode: int = 0o600) -> Iterator[Part]:
    """The file, for us alone: also another process that has it open is seen."""
    with contextlib.ExitStack() as held:
        try:
            if may_make:
                path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = held.enter_context(
                locked(
                    path,
                    os.O_RDWR | (os.O_CREAT if may_make else 0),
                    busy=UploadBusy("this file is being sent by another request"),
                    gone=UploadBusy("this file was finished or removed just now"),
                    missing=NotFound("the file of this upload is not there"),
                    mode=mode,
                )
            )
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise InvalidInput(
                f"{path.name!r} cannot be a file: of what was sent, a file would be a folder too",
                advice="Give one of the two another name.",
            ) from None
        yield Part(path, descriptor)


async def undisturbed(work: Callable[..., T], *arguments: object) -> T:
    """Do this in a thread, to its end: a file that is closed under it could be another one by then."""
    return await to_its_end(asyncio.to_thread(work, *arguments))


async def to_its_end(work: Awaitable[T]) -> T:
    """The result of work that goes on, and is waited for, whoever gives up meanwhile."""
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        raise


async def receive(
    part: Part,
    chunks: AsyncIterator[bytes],
    *,
    offset: int,
    size_max: int,
    reserve_bytes: int,
    coming_bytes: int = 0,
    digest: Digest | None = None,
) -> int:
    """Write what comes behind what is there; how large the file is then.

    Without room for what is said to come nothing is taken. If it breaks off, what came stays, unless nobody
    can say any more whether it is what was sent.
    """
    await asyncio.to_thread(_look_for_room, part.path.parent, reserve_bytes + coming_bytes)
    check = hashlib.new(digest.algorithm, usedforsecurity=False) if digest else None
    waiting, place, looked, is_whole = bytearray(), offset, offset, False
    try:
        async for chunk in chunks:
            if place + len(waiting) + len(chunk) > size_max:
                raise TooLarge(f"more than {size_max} bytes came")
            waiting += chunk
            if check is not None:
                check.update(chunk)
            if len(waiting) >= BLOCK_BYTES:
                await undisturbed(part.write, waiting, place)
                place, waiting = place + len(waiting), bytearray()
            if place - looked >= LOOK_EVERY_BYTES:
                looked = place
                await asyncio.to_thread(_look_for_room, part.path.parent, reserve_bytes)
        is_whole = True
    except OSError as error:
        raise _told(error) from error
    finally:
        if is_whole or check is None:
            place = _flushed(part, waiting, place)
        else:
            part.cut(offset)
    await undisturbed(part.sync)
    if digest is not None and check is not None and not hmac.compare_digest(check.digest(), digest.value):
        part.cut(offset)
        raise ChunkChecksum(f"the {digest.algorithm} of this part is another one")
    return place


def _flushed(part: Part, waiting: bytearray, place: int) -> int:
    """Write the rest, in whatever way the rest ended; where the file ends then."""
    try:
        part.write(waiting, place)
    except OSError as error:
        raise _told(error) from error
    return place + len(waiting)


def _told(error: OSError) -> NoRoom | OSError:
    return NoRoom("there is no room for more of this file") if error.errno in FULL else error


def _look_for_room(folder: Path, reserve_bytes: int) -> None:
    if shutil.disk_usage(folder).free < reserve_bytes:
        raise NoRoom("there is no room for more of this file")
