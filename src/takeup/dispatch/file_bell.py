"""The bell of an embedded database: every commit to its file rings, whichever process made it."""

import asyncio
import contextlib
import ctypes
import os

from takeup.dispatch.bell import Bell

GATHER_S = 0.02
"""Commits that are so close together ring once."""
IN_MODIFY = 0x2
EVENTS_BYTES_MAX = 65536


class FileBell(Bell):
    """Told by the kernel when a file is written; where it tells nothing, a cheap look many times a second."""

    def __init__(self, file: str) -> None:
        """Every commit changes this file, which is there already."""
        super().__init__()
        self._file = file
        self._loop = asyncio.get_running_loop()
        self._watch = watch(file)
        self._looking: asyncio.Task[None] | None = None
        self._resting: asyncio.TimerHandle | None = None
        if self._watch is None:
            self._looking = asyncio.create_task(self._look(self._mark()))
        else:
            self._listen(self._watch)

    async def close(self) -> None:
        """Stop listening."""
        if self._resting is not None:
            self._resting.cancel()
        if self._watch is not None:
            self._loop.remove_reader(self._watch)
            os.close(self._watch)
            self._watch = None
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking

    def _listen(self, watch: int) -> None:
        self._loop.add_reader(watch, self._told, watch)

    def _told(self, watch: int) -> None:
        """Ring, and rest: what is written meanwhile is told afterwards."""
        os.read(watch, EVENTS_BYTES_MAX)
        self._loop.remove_reader(watch)
        self._resting = self._loop.call_later(GATHER_S, self._listen, watch)
        self.ring_all()

    async def _look(self, seen: object) -> None:
        while True:
            await asyncio.sleep(GATHER_S)
            mark = self._mark()
            if mark != seen:
                seen = mark
                self.ring_all()

    def _mark(self) -> object:
        try:
            state = os.stat(self._file)  # noqa: PTH116 - asked many times a second
        except OSError:
            return None
        return state.st_mtime_ns, state.st_size


def watch(file: str) -> int | None:
    """What becomes readable when the file is written; None if this system has no such thing, or no more."""
    libc = ctypes.CDLL(None)
    try:
        start, add = libc.inotify_init1, libc.inotify_add_watch
    except AttributeError:
        return None
    opened: int = start(os.O_NONBLOCK | os.O_CLOEXEC)
    if opened < 0:
        return None
    if add(opened, os.fsencode(file), IN_MODIFY) < 0:
        os.close(opened)
        return None
    return opened
