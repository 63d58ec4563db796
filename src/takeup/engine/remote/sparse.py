"""Copies of large files of which only what is read is here: sparse, with a record of what they hold.

A span is recorded only once its bytes are on the disk, so a record may know less than there is, never more.
All bytes come from one version of the file: each part is asked for with the tag of the first (`If-Match`),
and compared with the hash that the server sends with it (`Content-Digest`).
"""

import asyncio
import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from takeup.core.errors import FileChanged, TakeupError
from takeup.core.points import point
from takeup.core.remote import CHANGED_HEADER, DIGEST_HEADER, PART_BYTES_MAX, WANT_DIGEST, digest_of
from takeup.core.spans import Span, Spans
from takeup.engine.carrier import Opened
from takeup.engine.holding import Holding
from takeup.engine.remote.client import Client, ServerUnavailable
from takeup.engine.remote.patience import Patience, tell, token_of

RECORD = ".held"
ID_BYTES = 8
ABOUT_BYTES_MAX = 4096
"""The first line of a record is shorter."""
SMALL_BLOCKS = 4
"""What is no larger than so many blocks is fetched whole: the head and the end alone would be most of it."""
CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)\Z")


class BegunAnew(TakeupError):
    """A copy is not the one any more that was opened; the task has to open it again."""

    retryable = True
    help = "It is tried again by itself: the file changed, or its copy was removed."


class Place(NamedTuple):
    """Where a file comes from, where it is when all of it is here, and where its sparse copy is."""

    address: str
    whole: Path
    sparse: Path


class _Part(NamedTuple):
    data: bytes
    size: int
    """Of the whole file."""
    tag: str
    changed_ns: int


@dataclass(eq=False)
class _Copy:
    path: Path
    id: str
    inode: int
    size: int
    tag: str
    changed_ns: int
    held: Spans = field(default_factory=Spans)
    coming: dict[Span, asyncio.Event] = field(default_factory=dict)

    @property
    def opened(self) -> Opened:
        return Opened(self.path, self.size, self.changed_ns, self.inode, self.id)

    @contextmanager
    def fetching(self, span: Span) -> Iterator[None]:
        """Others wait for this span meanwhile."""
        self.coming[span] = asyncio.Event()
        try:
            yield
        finally:
            self.coming.pop(span).set()

    def next_piece(self, start: int, end: int) -> Span | asyncio.Event | None:
        """What to fetch next of this span, or for whom to wait; None once it is here."""
        gaps = self.held.missing(start, end)
        if not gaps:
            return None
        first, after = gaps[0]
        after = min(after, first + PART_BYTES_MAX)
        for (begin, stop), done in self.coming.items():
            if begin <= first < stop:
                return done
            if first < begin < after:
                after = begin
        return first, after


class SparseCopies:
    """The sparse copies of a worker; it alone writes them, whichever of its slots asks."""

    def __init__(self, client: Client, patience: Patience, block_bytes: int) -> None:
        """A file is fetched in steps of `block_bytes`."""
        self._client = client
        self._patience = patience
        self._block = min(block_bytes, PART_BYTES_MAX)
        self._known: dict[Path, _Copy] = {}
        self._opening = asyncio.Lock()

    async def open(self, holding: Holding, place: Place) -> Opened | None:
        """The copy, begun if need be; None for a small file, and with a server that cannot send parts."""
        async with self._opening:
            copy = await asyncio.to_thread(self._find, place.sparse)
            if copy is None:
                copy = await self._begin(holding, place)
            return copy.opened if copy else None

    async def fetch(self, holding: Holding, place: Place, *, copy_id: str, span: Span) -> list[Span]:
        """Let these bytes be in that copy; answers with all that it holds around them."""
        copy = await asyncio.to_thread(self._find, place.sparse)
        if copy is None or copy.id != copy_id:
            raise BegunAnew(f"the copy of {place.whole.name} is another one by now")
        start = min(span[0], copy.size) // self._block * self._block
        end = min(-(-span[1] // self._block) * self._block, copy.size)
        while (piece := copy.next_piece(start, end)) is not None:
            if isinstance(piece, asyncio.Event):
                await piece.wait()
                continue
            with copy.fetching(piece):
                await self._bring(holding, place, copy, piece)
        return copy.held.around(start, end)

    async def complete(self, holding: Holding, place: Place, *, is_hashed: bool) -> bool:
        """Fetch the rest of the copy and let it be the whole file too; False if there is no copy."""
        copy = await asyncio.to_thread(self._find, place.sparse)
        if copy is None:
            return False
        await self.fetch(holding, place, copy_id=copy.id, span=(0, copy.size))
        try:
            await asyncio.to_thread(_make_whole, copy, place.whole, is_hashed=is_hashed)
        except ServerUnavailable:
            self._forget(copy)
            raise
        return True

    def _find(self, path: Path) -> _Copy | None:
        """The copy, as it is known or was recorded."""
        copy = self._known.get(path)
        if copy is None or not _is_there(copy):
            self._known = {other: one for other, one in self._known.items() if _is_there(one)}
            copy = _recorded(path)
            if copy is not None:
                self._known[path] = copy
        return copy

    async def _begin(self, holding: Holding, place: Place) -> _Copy | None:
        part = await self._patience(holding, lambda: self._part(holding, place, (0, self._block), ""))
        if part is None or part.size <= SMALL_BLOCKS * self._block:
            return None
        copy = await asyncio.to_thread(_begun, place.sparse, part)
        self._known[place.sparse] = copy
        return copy

    async def _bring(self, holding: Holding, place: Place, copy: _Copy, span: Span) -> None:
        try:
            part = await self._patience(holding, lambda: self._part(holding, place, span, copy.tag))
        except FileChanged:
            self._forget(copy)
            raise
        if part is None:
            raise ServerUnavailable(f"the server does not send {place.whole.name} in parts any more")
        await asyncio.to_thread(_write, copy, span, part.data)
        copy.held.add(*span)
        tell(holding, f"fetching {place.whole.name}: {copy.held.total} of {copy.size} bytes")

    async def _part(self, holding: Holding, place: Place, span: Span, tag: str) -> _Part | None:
        """These bytes as the server has them; None if it cannot tell their hash."""
        start, end = span
        headers = {**token_of(holding), "Range": f"bytes={start}-{end - 1}", **WANT_DIGEST}
        headers |= {"If-Match": tag} if tag else {}
        async with self._client.get(place.address, headers) as (told, status, blocks):
            if status != HTTPStatus.PARTIAL_CONTENT or DIGEST_HEADER not in told:
                return None
            data = bytearray()
            async for block in blocks:
                data += block
                if len(data) > end - start:
                    break
        found = CONTENT_RANGE.match(told.get("content-range", ""))
        size = int(found[3]) if found else 0
        is_asked = found and (int(found[1]), int(found[2]) + 1) == (start, min(end, size))
        if not is_asked or len(data) != min(end, size) - start or told[DIGEST_HEADER] != digest_of(data):
            raise ServerUnavailable(f"bytes {start} to {end} of {place.whole.name} arrived damaged")
        return _Part(bytes(data), size, told.get("etag", ""), int(told.get(CHANGED_HEADER, "0")))

    def _forget(self, copy: _Copy) -> None:
        """Nobody may add to a copy whose file is another one now; who has it open sees no more of it."""
        if self._known.get(copy.path) is copy:
            del self._known[copy.path]
        for file in (_record_of(copy.path), copy.path):
            file.unlink(missing_ok=True)


def _record_of(path: Path) -> Path:
    return path.with_name(f".{path.name}{RECORD}")


def _is_there(copy: _Copy) -> bool:
    try:
        return copy.path.stat().st_ino == copy.inode
    except OSError:
        return False


def _begun(path: Path, part: _Part) -> _Copy:
    """A new copy that holds the first part; without its record it counts as nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = _record_of(path)
    for old in (record, path):
        old.unlink(missing_ok=True)
    path.touch(exist_ok=False)
    os.truncate(path, part.size)
    about: dict[str, Any] = {
        "id": token_hex(ID_BYTES),
        "inode": path.stat().st_ino,
        "size": part.size,
        "tag": part.tag,
        "changed_ns": part.changed_ns,
    }
    new = record.with_name(f"{record.name}.new")
    new.write_text(json.dumps(about) + "\n")
    new.rename(record)
    copy = _Copy(path, **about)
    _write(copy, (0, len(part.data)), part.data)
    copy.held.add(0, len(part.data))
    return copy


def _recorded(path: Path) -> _Copy | None:
    """A copy of before this process was started; a line that was not written to its end does not count."""
    record = _record_of(path)
    try:
        text = record.read_bytes()
        known = text.rfind(b"\n") + 1
        about, *spans = text[:known].decode("ascii").splitlines()
        told, facts = json.loads(about), path.stat()
        if (facts.st_ino, facts.st_size) != (told["inode"], told["size"]):
            return None
        os.truncate(record, known)
        copy = _Copy(path, **told)
        for line in spans:
            start, end = line.split(" ")
            copy.held.add(int(start), int(end))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return copy


def _write(copy: _Copy, span: Span, data: bytes) -> None:
    """Write bytes, and then that they are there; what comes late for a removed copy meets no other."""
    with _opened(copy) as (fd, record):
        view, place = memoryview(data), span[0]
        while view:
            count = os.pwrite(fd, view, place)
            view, place = view[count:], place + count
        os.fdatasync(fd)
        point("sparse.after write")
        os.write(record, b"%d %d\n" % span)


@contextmanager
def _opened(copy: _Copy) -> Iterator[tuple[int, int]]:
    """The copy and its record. A record goes before its copy does, so it names the one that was there."""
    opened: list[int] = []
    try:
        opened.append(os.open(copy.path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
        opened.append(os.open(_record_of(copy.path), os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC))
        about = os.pread(opened[1], ABOUT_BYTES_MAX, 0).partition(b"\n")[0]
        if json.loads(about)["id"] != copy.id:
            raise BegunAnew(f"the copy {copy.path.name} is another one by now")
        yield opened[0], opened[1]
    except FileNotFoundError:
        raise BegunAnew(f"the copy {copy.path.name} was removed") from None
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _make_whole(copy: _Copy, whole: Path, *, is_hashed: bool) -> None:
    if is_hashed:
        with copy.path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != copy.tag.strip('"'):
            raise ServerUnavailable(f"{whole.name} arrived with another content than its SHA-256 says")
    if copy.changed_ns:
        os.utime(copy.path, ns=(copy.changed_ns, copy.changed_ns))
    with contextlib.suppress(FileExistsError):
        whole.hardlink_to(copy.path)
