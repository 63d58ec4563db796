"""The loop that takes in what somebody puts into a folder: the file counts, whatever told of it."""

import asyncio
import errno
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from takeup.core.errors import TakeupError
from takeup.core.ids import digest
from takeup.core.videos import UPLOAD, About, file_label, title_of, video_id_of
from takeup.engine.videos.errors import SourceChanged
from takeup.engine.videos.intake import FAULTS_FROM, Intake
from takeup.engine.videos.receiving import BLOCK_BYTES, undisturbed
from takeup.store.videos import VideoStore
from takeup.telemetry.logs import logger

TAKEN, REFUSED = "taken", "refused"
"""Where a file goes when it is a video, and when it cannot be one."""
FILES_A_ROUND_MAX = 100
SUFFIX_CHARS_MAX = 16
USER = "folder"

log = logger("videos")


class Found(NamedTuple):
    """A file as it lies in the folder."""

    path: Path
    status: os.stat_result

    @property
    def upload_id(self) -> str:
        """The same for the same file, so that it is taken once, however often we die meanwhile."""
        of = self.status
        return UPLOAD + digest(f"{of.st_dev} {of.st_ino} {of.st_size} {of.st_mtime_ns}")[:24]


class WatchFolder:
    """Takes in every file of one folder that nobody has written to for a while."""

    name = "watch folder"

    def __init__(
        self,
        folder: Path,
        intake: Intake,
        videos: VideoStore,
        *,
        period_s: float = 5.0,
        settled_s: float = 10.0,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """A file is left alone until `settled_s` after it was changed last."""
        self.period_s = period_s
        self._folder = folder
        self._intake = intake
        self._videos = videos
        self._settled_s = settled_s
        self._wall = wall

    async def run_once(self) -> bool:
        """Take what is there; True if there may be more."""
        found = await asyncio.to_thread(self._look)
        for one in found:
            await self._settle(one)
        return len(found) == FILES_A_ROUND_MAX

    def _look(self) -> list[Found]:
        """Files that are ours and whole; links, pipes, folders and files of others are passed over."""
        found: list[Found] = []
        try:
            paths = sorted(self._folder.iterdir())
        except OSError as error:
            log.warning(
                "the folder cannot be read",
                folder=str(self._folder),
                error=error.strerror,
                help="make it, or correct watch_dir",
            )
            return []
        for path in paths:
            try:
                status = path.lstat()
            except OSError:
                continue
            is_ours = stat.S_ISREG(status.st_mode) and status.st_uid in (os.geteuid(), 0)
            is_settled = self._wall() - status.st_mtime > self._settled_s
            if is_ours and is_settled and not path.name.startswith(".") and len(found) < FILES_A_ROUND_MAX:
                found.append(Found(path, status))
        return found

    async def _settle(self, found: Found) -> None:
        try:
            await self._take(found)
        except SourceChanged:
            return
        except TakeupError as error:
            log.warning("a file was not taken", file=file_label(found.path.name), error=str(error))
            if error.http_status < FAULTS_FROM and error.code not in ("quota", "upload_busy"):
                await self._move_away(found, REFUSED)
        except OSError as error:
            log.warning("a file was not taken", file=file_label(found.path.name), error=error.strerror)
        else:
            await self._move_away(found, TAKEN)

    async def _move_away(self, found: Found, where: str) -> None:
        try:
            await asyncio.to_thread(self._move, found, where)
        except OSError as error:
            log.warning("a file stays where it is", file=file_label(found.path.name), error=error.strerror)

    async def _take(self, found: Found) -> None:
        """Make it a video, unless it is one."""
        if await self._videos.kept([video_id_of(found.upload_id)]):
            return
        name = file_label(found.path.name)
        about = About(title_of(None, name), name)
        await self._intake.forget(found.upload_id)
        with _opened(found) as descriptor:
            body = _pieces(found, descriptor)
            await self._intake.take(USER, found.status.st_size, about, body, upload_id=found.upload_id)

    def _move(self, found: Found, where: str) -> None:
        """Out of the way, under a name that is free."""
        folder = self._folder / where
        folder.mkdir(exist_ok=True)
        if folder.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, f"{where} is a link")
        target = folder / found.path.name
        if os.path.lexists(target):
            target = folder / (found.upload_id + found.path.suffix[:SUFFIX_CHARS_MAX])
        found.path.rename(target)


@contextmanager
def _opened(found: Found) -> Iterator[int]:
    """The very file that was seen: no link is followed, no pipe waited for."""
    descriptor = os.open(found.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_same(found, descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def _check_same(found: Found, descriptor: int) -> None:
    was, now = found.status, os.fstat(descriptor)
    if (was.st_ino, was.st_size, was.st_mtime_ns) != (now.st_ino, now.st_size, now.st_mtime_ns):
        raise SourceChanged("the file is still being written")


async def _pieces(found: Found, descriptor: int) -> AsyncIterator[bytes]:
    while block := await undisturbed(os.read, descriptor, BLOCK_BYTES):
        yield block
    _check_same(found, descriptor)
