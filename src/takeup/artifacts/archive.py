"""Unpacks a gzipped tar of strangers as it comes: plain files of a few kinds, within bounds, or nothing."""

import hashlib
import hmac
import re
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from takeup.artifacts.staged import StagedFiles
from takeup.artifacts.tar_headers import BLOCK, META_BYTES_MAX, Header, Said, read_header, read_said, shown
from takeup.core.errors import BadArchive, WrongChecksum

GZIP = 31
"""How zlib is told that there is a header of gzip."""
CHUNK_BYTES = 65_536
PADDING_BYTES_MAX = 1 << 20
"""Zeros behind the end: archives are filled up to a multiple of some size."""
END_BLOCKS = 2
PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,98}[A-Za-z0-9_-])?\Z")
ENDINGS = frozenset({".m3u8", ".ts", ".m4s", ".mp4", ".vtt", ".jpg", ".webp", ".mpd"})
ZEROS = bytes(BLOCK)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one archive may be."""

    files: int = 20_000
    file_bytes: int = 4 << 30
    all_bytes: int = 64 << 30
    packed_bytes: int = 64 << 30
    ratio: int = 200
    """So many bytes may come of one that arrived, once more than `unjudged_bytes` came."""
    unjudged_bytes: int = 10_000_000
    depth: int = 3
    """Parts of a name."""
    wall_s: float = 3600.0
    endings: frozenset[str] = ENDINGS


class Extracted(NamedTuple):
    """A file that was unpacked."""

    name: str
    size_bytes: int


class Extraction:
    """One archive on its way into a folder; whatever is wrong with it, nothing of it stays."""

    def __init__(
        self,
        root: int,
        limits: Limits | None = None,
        *,
        sha256: str | None = None,
        size_bytes: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`root` is a descriptor of an empty folder; what the sender declared is held against what comes."""
        self._limits = limits or Limits()
        self._declared, self._declared_bytes = sha256, size_bytes
        self._clock, self._started_at = clock, clock()
        self._unpacker = zlib.decompressobj(wbits=GZIP)
        self._hash = hashlib.sha256()
        self._files = StagedFiles(root)
        self._reader = _Reader(self._files, self._limits)
        self._packed = self._unpacked = 0
        self._is_over = False

    def feed(self, data: bytes) -> None:
        """The next bytes of the archive, as they came."""
        try:
            self._feed(data)
        except zlib.error as error:
            self.abandon()
            raise BadArchive(f"it is not gzip, or damaged: {error}") from None
        except BaseException:
            self.abandon()
            raise

    def finish(self) -> tuple[Extracted, ...]:
        """All has come: the files, if it was a whole archive and the one that was declared."""
        try:
            self._finish()
        except BaseException:
            self.abandon()
            raise
        self._is_over = True
        return tuple(self._reader.found)

    def abandon(self) -> None:
        """Take back what was written, unless it was finished."""
        if not self._is_over:
            self._is_over = True
            self._files.remove()

    def _feed(self, data: bytes) -> None:
        self._check_open()
        self._packed += len(data)
        most = self._limits.packed_bytes
        if self._declared_bytes is not None:
            most = min(most, self._declared_bytes)
        if self._packed > most:
            raise BadArchive(f"it has more than {most} bytes")
        if data and self._unpacker.eof:
            raise BadArchive("something follows the archive")
        self._hash.update(data)
        while True:
            self._check_time()
            out = self._unpacker.decompress(data, CHUNK_BYTES)
            data = self._unpacker.unconsumed_tail
            self._unpacked += len(out)
            self._check_ratio(self._packed - len(data))
            self._reader.take(out)
            if self._unpacker.eof or not (data or len(out) == CHUNK_BYTES):
                break
        if self._unpacker.unused_data:
            raise BadArchive("something follows the archive")

    def _finish(self) -> None:
        self._check_open()
        self._check_time()
        if self._declared_bytes not in (None, self._packed):
            raise WrongChecksum(f"{self._packed} bytes came instead of {self._declared_bytes}")
        declared = self._declared
        if declared is not None and not hmac.compare_digest(
            declared.lower().encode(errors="replace"), self._hash.hexdigest().encode()
        ):
            raise WrongChecksum("its SHA-256 is another one than was declared")
        if not self._unpacker.eof:
            raise BadArchive("it is cut off")
        self._reader.finish()

    def _check_open(self) -> None:
        if self._is_over:
            raise BadArchive("it is over already")

    def _check_time(self) -> None:
        if self._clock() - self._started_at > self._limits.wall_s:
            raise BadArchive(f"it took longer than {self._limits.wall_s:g} s")

    def _check_ratio(self, used: int) -> None:
        limits = self._limits
        if self._unpacked > max(limits.unjudged_bytes, limits.ratio * used):
            raise BadArchive(f"it unpacks to more than {limits.ratio} times its size")


class _Reader:
    """Takes the unpacked bytes apart: headers, what is said before them, the content of files, the end."""

    def __init__(self, files: StagedFiles, limits: Limits) -> None:
        self.found: list[Extracted] = []
        self._files, self._limits = files, limits
        self._names: set[str] = set()
        self._folders: dict[str, str] = {}
        self._held = bytearray()
        self._meta: Header | None = None
        self._said: Said | None = None
        self._content = self._padding = self._bytes = 0
        self._zeros = 0
        """Blocks of zeros so far: two of them are the end."""
        self._behind = 0

    def take(self, data: bytes) -> None:
        """The next bytes."""
        view = memoryview(data)
        while view:
            if self._content:
                view = self._take_content(view)
            elif self._padding:
                count = min(self._padding, len(view))
                self._padding -= count
                view = view[count:]
            elif self._zeros == END_BLOCKS:
                self._take_behind(view)
                return
            else:
                view = self._take_block(view)

    def finish(self) -> None:
        """Whether it ended as archives end."""
        if self._zeros < END_BLOCKS:
            raise BadArchive("the archive is cut off")
        if not self.found:
            raise BadArchive("the archive is empty")

    def _take_content(self, view: memoryview) -> memoryview:
        part = view[: self._content]
        self._files.write(part)
        self._content -= len(part)
        if not self._content:
            self._files.end()
        return view[len(part) :]

    def _take_behind(self, view: memoryview) -> None:
        self._behind += len(view)
        if bytes(view).strip(b"\0"):
            raise BadArchive("something follows the end of the archive")
        if self._behind > PADDING_BYTES_MAX:
            raise BadArchive(f"more than {PADDING_BYTES_MAX} zeros follow the end of the archive")

    def _take_block(self, view: memoryview) -> memoryview:
        """A header, or what is said about the next file: held until it is whole."""
        size = _padded(self._meta.size) if self._meta else BLOCK
        part = view[: size - len(self._held)]
        self._held += part
        if len(self._held) == size:
            block = bytes(self._held)
            self._held.clear()
            if self._meta:
                self._said = read_said(self._meta, block[: self._meta.size])
                self._meta = None
            elif block == ZEROS:
                self._end_block()
            else:
                self._begin(read_header(block))
        return view[len(part) :]

    def _end_block(self) -> None:
        if self._said is not None:
            raise BadArchive("something is said about a file that does not follow")
        self._zeros += 1

    def _begin(self, header: Header) -> None:
        if self._zeros:
            raise BadArchive("something follows the end of the archive")
        if not header.is_plain:
            if self._said is not None:
                raise BadArchive("too much is said about one file")
            if not 0 < header.size <= META_BYTES_MAX:
                raise BadArchive(f"more than {META_BYTES_MAX} bytes are said about one file, or none")
            self._meta = header
            return
        said, self._said = self._said or Said(), None
        name = header.name if said.name is None else said.name
        self._open(name, header.size if said.size is None else said.size)

    def _open(self, name: bytes, size: int) -> None:
        parts = self._checked(name)
        if len(self.found) >= self._limits.files:
            raise BadArchive(f"there are more than {self._limits.files} files")
        self._bytes += size
        if size > self._limits.file_bytes:
            raise BadArchive(f"{shown(name)} has more than {self._limits.file_bytes} bytes")
        if self._bytes > self._limits.all_bytes:
            raise BadArchive(f"the files have more than {self._limits.all_bytes} bytes together")
        self._files.begin(parts)
        self.found.append(Extracted("/".join(parts), size))
        self._content, self._padding = size, _padded(size) - size
        if not size:
            self._files.end()

    def _checked(self, raw: bytes) -> tuple[str, ...]:
        """The parts of a name that means one and the same file everywhere, and no other one's."""
        parts = tuple(raw.decode("utf-8", "replace").split("/"))
        if len(parts) > self._limits.depth or not all(map(PART.match, parts)):
            raise BadArchive(f"the name {shown(raw)} is not one that is taken")
        if "." + parts[-1].rpartition(".")[2] not in self._limits.endings or "." not in parts[-1]:
            raise BadArchive(
                f"{shown(raw)} is of a kind that is not taken: {', '.join(sorted(self._limits.endings))}"
            )
        name = "/".join(parts)
        for count in range(1, len(parts)):
            folder = "/".join(parts[:count])
            is_file = folder.casefold() in self._names
            if is_file or self._folders.setdefault(folder.casefold(), folder) != folder:
                raise BadArchive(f"{shown(raw)} takes the place of another name, perhaps in other letters")
        if name.casefold() in self._names or name.casefold() in self._folders:
            raise BadArchive(f"{shown(raw)} is there twice, perhaps in other letters")
        self._names.add(name.casefold())
        return parts


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
