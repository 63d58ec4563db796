"""Runs operations on a database inside this process: one thread, one writer, a transaction a hop."""

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from takeup.core.errors import NetworkFileSystem, StoreConfig
from takeup.core.ports import Clock
from takeup.store.dialect import Dialect, Statement
from takeup.store.op import Op, Rows, Script, Step, Together

T = TypeVar("T")

NETWORK_FILE_SYSTEMS = frozenset(
    {
        "9p",
        "afs",
        "ceph",
        "cifs",
        "davfs",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "fuse.vmhgfs-fuse",
        "glusterfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
    }
)


class Session(Protocol):
    """One open connection to an embedded database, used by one thread."""

    dialect: Dialect
    catalog: dict[str, Statement]

    def begin(self) -> None: ...

    def begin_read(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def execute(self, sql: str, params: Any) -> Rows: ...

    def close(self) -> None: ...


class WriterClock:
    """The single writer's clock: the host's, but never going back while this process lives."""

    def __init__(self) -> None:
        """Start at the beginning of time."""
        self._latest = datetime.min.replace(tzinfo=UTC)

    def now(self) -> datetime:
        """The current moment, or the latest one given out if the host's clock was set back."""
        self._latest = max(self._latest, datetime.now(UTC))
        return self._latest


class Moment:
    """A clock that stands still: one transaction of the only writer happens at one moment."""

    def __init__(self, clock: Clock) -> None:
        """Stop at the clock's current time."""
        self._moment = clock.now()

    def now(self) -> datetime:
        """The moment."""
        return self._moment


def run_op(session: Session, clock: Clock, op: Op[T], *, is_read: bool = False) -> T:
    """One operation as one transaction."""
    if is_read:
        session.begin_read()
    else:
        session.begin()
    try:
        result = drain(session, Moment(clock), op)
        session.commit()
    except BaseException:
        session.rollback()
        raise
    return result


def drain(session: Session, clock: Clock, op: Op[T]) -> T:
    """Feed an operation its rows until it returns."""
    try:
        step = next(op)
        while True:
            step = op.send(execute(session, clock, step))
    except StopIteration as stop:
        result: T = stop.value
        return result


def execute(session: Session, clock: Clock, step: Step) -> Rows:
    """One step of an operation."""
    if isinstance(step, Together):
        return []
    if isinstance(step, Script):
        return session.execute(step.sql, None)
    statement = session.catalog[step.name]
    if not statement.sql:
        return []
    return session.execute(statement.sql, statement.bind({**step.params, "now_at": clock.now()}))


class EmbeddedDriver:
    """A session behind its one thread."""

    def __init__(
        self, executor: ThreadPoolExecutor, session: Session, clock: Clock, path: Path | None = None
    ) -> None:
        """Use `open` instead: the session must be made in its thread."""
        self.log_file = None if path is None else f"{path}-wal"
        """What every commit of SQLite changes, whichever process made it."""
        self.dialect = session.dialect
        self._executor = executor
        self._session = session
        self._clock = clock

    @classmethod
    async def open(
        cls, make: Callable[[Path | None], Session], path: Path | None, clock: Clock | None
    ) -> "EmbeddedDriver":
        """Open the file (None: in memory) in a new writer thread."""
        if path is not None:
            check_local(path)
        executor = ThreadPoolExecutor(1, thread_name_prefix="takeup-writer")
        try:
            session = await asyncio.get_running_loop().run_in_executor(executor, make, path)
        except BaseException:
            executor.shutdown(wait=False)
            raise
        return cls(executor, session, clock or WriterClock(), path)

    async def run(self, operation: Callable[..., Op[T]], *args: Any, **kwargs: Any) -> T:
        """Run the whole operation in the writer thread."""
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, lambda: run_op(self._session, self._clock, operation(*args, **kwargs))
        )

    async def read(self, operation: Callable[..., Op[T]], *args: Any, **kwargs: Any) -> T:
        """Run an operation that only reads, without the write lock that other processes may want."""
        return await asyncio.get_running_loop().run_in_executor(
            self._executor,
            lambda: run_op(self._session, self._clock, operation(*args, **kwargs), is_read=True),
        )

    async def close(self) -> None:
        """Close the file and end the thread."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._executor, self._session.close)
        await loop.run_in_executor(None, self._executor.shutdown)


def path_of(url: str) -> Path | None:
    """The file that an embedded database URL names; None for `:memory:`."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/"):
        scheme = parts.scheme
        raise StoreConfig(
            f"the URL names no file; write {scheme}:///relative/file or {scheme}:////absolute/file"
        )
    if path == "/:memory:":
        return None
    file = Path(path[1:])
    if not file.name:
        raise StoreConfig(f"the URL {url!r} names no file")
    return file


def check_local(path: Path) -> None:
    """Refuse a missing folder, and a file system whose locks cannot be trusted."""
    try:
        folder = path.resolve().parent
        is_there = folder.is_dir()
    except (OSError, RuntimeError) as error:
        raise StoreConfig(f"the folder of the database {path} cannot be entered: {error}") from error
    if not is_there:
        raise StoreConfig(f"the folder {folder} for the database does not exist; create it first")
    if path.exists() and not os.access(path, os.W_OK, effective_ids=True):
        raise StoreConfig(f"the database file {path} may not be written by this user")
    if sys.platform == "linux":
        kind = file_system_of(folder, Path("/proc/self/mounts").read_text("utf-8", "replace"))
        if kind in NETWORK_FILE_SYSTEMS:
            raise NetworkFileSystem(f"{path} lies on a network file system ({kind})")


def file_system_of(folder: Path, mounts: str) -> str:
    """The type of the file system that holds the folder, by a mount table."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        point = fields[1].replace("\\040", " ")
        holds = folder == Path(point) or Path(point) in folder.parents
        if holds and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind
