"""Lets a child read a file that is not all here: before each of its reads the bytes of it are fetched.

The kernel stops every call of the child that reads, and asks us (seccomp's user notification). The child
knows nothing of it, and there is no way for it to see a byte that was not fetched: no list of what it may
need has to be right. Where the kernel cannot do this, the file has to be fetched whole.
"""

import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from takeup.child import calls
from takeup.child.sparse import SparseCopy, Unfetched
from takeup.core.errors import DISK_FULL
from takeup.core.spans import Span, Spans

RECEIVE, ANSWER, IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
QUESTION, REPLY = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
GO_ON = 1
WAIT_MS = 1000
TRY_IT = (
    "Look at what `takeup doctor` says of `sparse` on that machine; without it sources are fetched whole."
)
AHEAD_SHARE = 8
"""An eighth of what was read in a row is fetched ahead: little is fetched in vain, and not in many parts."""
AHEAD_BYTES_MAX = 4 << 20
ROW_BYTES = 512 << 10
"""Who leaves out no more than this still reads in a row."""

HeldUp = Callable[[], AbstractContextManager[None]]


class Reads:
    """Answers the kernel for one child, in a thread of its own, for a fetch may take long."""

    def __init__(self, copy: SparseCopy, held_up: HeldUp) -> None:
        """The child waits for bytes within `held_up`."""
        self.failure: BaseException | None = None
        self.is_watching = False
        """Whether the child was made to ask; it cannot begin before that."""
        self._copy = copy
        self._held_up = held_up
        self._held = Spans()
        self._row = (0, 0)
        here = copy.path.stat()
        self._file = here.st_dev, here.st_ino
        if here.st_ino != copy.inode:
            self.failure = OSError(errno.ESTALE, "its copy was begun anew")
        self._ours, self.line = socket.socketpair()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="takeup-reads", daemon=True)

    def start(self) -> None:
        """The child has the other end of the line."""
        self.line.close()
        self._thread.start()

    def end(self) -> None:
        """The child is gone; a fetch that still runs is not waited for."""
        self._is_over.set()
        self.line.close()
        with contextlib.suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)
        if not self._thread.ident:
            self._ours.close()

    def _run(self) -> None:
        with self._ours:
            try:
                _, found, _, _ = socket.recv_fds(self._ours, 1, 1)
            except OSError:
                return
        if not found:
            return  # the child ended before it could be watched, or cannot be
        self.is_watching = True
        listener = found[0]
        try:
            self._serve(listener)
        except BaseException as error:  # noqa: BLE001 - it is raised where the child's end is waited for
            self.failure = self.failure or error
        finally:
            os.close(listener)  # from here on every read of the child fails

    def _serve(self, listener: int) -> None:
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while not self._is_over.is_set():
            for _, event in poll.poll(WAIT_MS):
                if not event & select.POLLIN:
                    return  # nobody is left who could ask
                question = bytearray(QUESTION.size)
                try:
                    fcntl.ioctl(listener, RECEIVE, question)
                except OSError as error:
                    if error.errno not in (errno.ENOENT, errno.EINTR):  # who asked was killed meanwhile
                        raise
                    continue
                self._answer(listener, QUESTION.unpack(question))

    def _answer(self, listener: int, question: tuple[int, ...]) -> None:
        number, pid, _, call, _, _, *arguments = question
        try:
            self._before(_Call(listener, number, pid, call, tuple(arguments)))
            reply = REPLY.pack(number, 0, 0, GO_ON)
        except BaseException as error:  # noqa: BLE001 - it is raised where the child's end is waited for
            self.failure = self.failure or error
            reply = REPLY.pack(number, 0, -errno.EIO, 0)
        with contextlib.suppress(OSError):
            fcntl.ioctl(listener, ANSWER, reply)

    def _before(self, call: "_Call") -> None:
        """Have the bytes here that this call may read."""
        facts = call.file()
        if facts is None or (facts.st_dev, facts.st_ino) != self._file:
            return
        if self.failure is not None:
            raise self.failure
        start, end = call.span(self._copy.size)
        is_next = self._row[1] - ROW_BYTES <= start <= self._row[1] + ROW_BYTES
        self._row = (self._row[0] if is_next else start, end)
        while gaps := self._held.missing(start, end):
            ahead = min((end - self._row[0]) // AHEAD_SHARE, AHEAD_BYTES_MAX)
            until = min(max(end, gaps[0][0] + ahead), self._copy.size)
            with self._held_up():
                for span in self._copy.fetch(gaps[0][0], until):
                    self._held.add(*span)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that waits for an answer."""

    listener: int
    number: int
    pid: int
    call: int
    arguments: tuple[int, ...]

    @property
    def name(self) -> str:
        """Which call; `mmap` if it is none that only reads."""
        return calls.name_of(self.call)

    @property
    def descriptor(self) -> int:
        """Where it reads from."""
        place = {"sendfile": 1, "mmap": 4}.get(self.name, 0)
        return self.arguments[place] & 0xFFFFFFFF

    def file(self) -> os.stat_result | None:
        """What it reads from; None if it cannot be read from at all."""
        try:
            return Path(f"/proc/{self.pid}/fd/{self.descriptor}").stat()
        except FileNotFoundError:
            if self.pid and Path(f"/proc/{self.pid}").exists():
                return None  # it is not open, so there is nothing to read
            if self._is_waiting():
                raise OSError(errno.ESRCH, "the process that reads cannot be seen from here") from None
            return None

    def span(self, size: int) -> Span:
        """The bytes it may reach of a file so large; of a rare call all of them."""
        if self.name == "read":
            start, count = self._position(), self.arguments[2]
        elif self.name == "pread64":
            start, count = self.arguments[3], self.arguments[2]
        else:
            start, count = 0, size
        return min(start, size), min(start + count, size)

    def _position(self) -> int:
        with Path(f"/proc/{self.pid}/fdinfo/{self.descriptor}").open("rb") as facts:
            return int(facts.readline().split()[1])

    def _is_waiting(self) -> bool:
        try:
            fcntl.ioctl(self.listener, IS_VALID, struct.pack("=Q", self.number))
        except OSError:
            return False
        return True


@contextmanager
def reading(copy: SparseCopy | None, held_up: HeldUp) -> Iterator[Reads | None]:
    """While a child runs; raises what kept it from reading, whatever the child made of that."""
    if copy is None:
        yield None
        return
    reads = Reads(copy, held_up)
    try:
        yield reads
    finally:
        reads.end()
    if isinstance(reads.failure, OSError) and reads.failure.errno in DISK_FULL:
        raise reads.failure  # which is this machine's trouble, and is told apart
    if not reads.is_watching:
        raise Unfetched(f"nobody could be made to wait for {copy.path.name}", advice=TRY_IT)
    if reads.failure is not None:
        raise Unfetched(f"{copy.path.name} could not be read: {reads.failure}") from reads.failure
