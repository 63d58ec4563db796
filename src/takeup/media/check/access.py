"""Reads the files of a package from a folder or from a server, and nothing beside it.

A playlist is written by anybody: what it names may be a path out of the folder, a link, another server or a
file without end. None of those is read; each is an error that says so.
"""

import asyncio
import os
import posixpath
import stat
import urllib.error
import urllib.request
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from takeup.media.errors import MediaError, TooLarge

FILE_BYTES_MAX = 512 << 20
TEXT_BYTES_MAX = 16 << 20
TIMEOUT_S = 30.0
REDIRECTS_MAX = 3
ENTRIES_MAX = 16
ENTRIES_USUAL = ("master.m3u8", "index.m3u8", "manifest.mpd")
"""What is asked for at an address that names no file."""
ENDINGS = (".m3u8", ".mpd")
SCHEMES = ("http", "https")
GZIP = 31
"""How zlib is told that there is a header of gzip."""


class NoPackage(MediaError):
    """There is nothing to judge."""

    help = "Name a folder or an address that holds a .m3u8 or .mpd file."


class Missing(MediaError):
    """A file is not there."""


class Outside(MediaError):
    """An address leads out of the package."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a file."""

    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Served:
    """How a server handed a file out."""

    kind: str
    encoding: str
    cache: str
    size: int
    """The bytes of the file, or of the part that was asked for, when it is unpacked."""


class Access(Protocol):
    """The files of one package; an address is what `join` made."""

    @property
    def served(self) -> dict[str, Served]:
        """What the server said of each file that was read; empty for a folder."""

    async def entries(self) -> list[str]:
        """The playlists and manifests at which a player may begin."""

    def join(self, address: str, uri: str) -> str:
        """The address of what a file at `address` calls `uri`."""

    def name(self, address: str) -> str:
        """The address as people read it."""

    async def read(self, address: str, span: Span | None = None, *, most: int = FILE_BYTES_MAX) -> bytes:
        """A file or a part of it."""


def open_access(where: str) -> Access:
    """The package at a path or an address."""
    scheme = urlsplit(where).scheme
    if scheme in SCHEMES:
        return Web(where)
    if "://" in where:
        raise NoPackage(f"{where}: only http and https can be read")
    return Folder(Path(where))


class Folder:
    """A package in a folder."""

    def __init__(self, path: Path) -> None:
        """The folder, or one playlist or manifest in it."""
        try:
            self._is_file = stat.S_ISREG(path.stat().st_mode)
            self._root = (path.parent if self._is_file else path).resolve(strict=True)
        except OSError as error:
            raise NoPackage(f"{path} cannot be read: {error.strerror or error}") from error
        self._path = path
        self.served: dict[str, Served] = {}

    async def entries(self) -> list[str]:
        """Those that lie at the top."""
        if self._is_file:
            return [self._path.name]
        try:
            names = sorted(name for name in os.listdir(self._root) if name.endswith(ENDINGS))  # noqa: PTH208 - names are what is wanted
        except OSError as error:
            raise NoPackage(f"{self._path} cannot be read: {error.strerror or error}") from error
        return names[:ENTRIES_MAX]

    def join(self, address: str, uri: str) -> str:
        """A path below the folder."""
        parts = _parts(uri)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(address), unquote(parts.path)))
        if (
            parts.scheme
            or parts.netloc
            or posixpath.isabs(path)
            or path.split("/")[0] == ".."
            or "\0" in path
        ):
            raise Outside(f"{uri!r} leads out of the package")
        return path

    def name(self, address: str) -> str:
        """It is one already."""
        return address

    async def read(self, address: str, span: Span | None = None, *, most: int = FILE_BYTES_MAX) -> bytes:
        """A regular file below the folder, wherever links lead."""
        return await asyncio.to_thread(self._read, address, span, most)

    def _read(self, address: str, span: Span | None, most: int) -> bytes:
        try:
            path = (self._root / address).resolve(strict=True)
            if not path.is_relative_to(self._root):
                raise Outside(f"{address} is a link out of the package")
            if not stat.S_ISREG(path.stat().st_mode):
                raise Missing(f"{address} is not a file")
            with path.open("rb") as file:
                return _taken(file, span, most, address)
        except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError before Python 3.13
            raise Missing(f"{address} cannot be read: {getattr(error, 'strerror', '') or error}") from error


class Web:
    """A package on a server."""

    def __init__(self, url: str) -> None:
        """The address of a playlist or manifest, or of the folder that holds them."""
        path = urlsplit(url).path
        self._entry = url if path.endswith(ENDINGS) else None
        self._root = urljoin(url, ".") if self._entry else url.rstrip("/") + "/"
        self._opener = urllib.request.build_opener(_SameServer)
        self.served: dict[str, Served] = {}

    async def entries(self) -> list[str]:
        """The one that was named, or those of the usual names that are there."""
        if self._entry:
            return [self._entry]
        found = []
        for name in ENTRIES_USUAL:
            try:
                await self.read(self._root + name, most=TEXT_BYTES_MAX)
            except Missing:
                continue
            found.append(self._root + name)
        return found

    def join(self, address: str, uri: str) -> str:
        """An address of the same server."""
        _parts(uri)
        found = urljoin(address, uri)
        if _server(found) != _server(self._root):
            raise Outside(f"{uri!r} leads to another server")
        return found

    def name(self, address: str) -> str:
        """Without what all of them begin with."""
        return address.removeprefix(self._root)

    async def read(self, address: str, span: Span | None = None, *, most: int = FILE_BYTES_MAX) -> bytes:
        """A file, by GET; a part of it by a range."""
        return await asyncio.to_thread(self._read, address, span, most)

    def _read(self, address: str, span: Span | None, most: int) -> bytes:
        request = urllib.request.Request(address)  # noqa: S310 - the scheme was checked
        if span is not None:
            request.add_header("Range", f"bytes={span.start}-{span.start + span.length - 1}")
        elif urlsplit(address).path.endswith(ENDINGS):
            request.add_header("Accept-Encoding", "gzip")
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                partial = span is not None and answer.status == 206  # noqa: PLR2004 - partial content
                inside = Span(0, span.length) if span is not None and partial else span
                data = _taken(answer, inside, most, self.name(address), can_seek=False)
                if answer.headers.get("Content-Encoding") == "gzip":
                    data = _unpacked(data, most, self.name(address))
                self._remember(address, answer.headers, len(data))
                return data
        except urllib.error.HTTPError as error:
            error.close()
            raise Missing(f"{self.name(address)} cannot be read: HTTP {error.code}") from error
        except (OSError, HTTPException, ValueError, zlib.error) as error:
            raise Missing(f"{self.name(address)} cannot be read: {error}") from error

    def _remember(self, address: str, headers: HTTPMessage, size: int) -> None:
        names = ("Content-Type", "Content-Encoding", "Cache-Control")
        kind, encoding, cache = (headers.get(name, "") for name in names)
        self.served.setdefault(address, Served(kind, encoding, cache, size))


class _SameServer(urllib.request.HTTPRedirectHandler):
    """Follows few redirects, and only to the same host."""

    max_redirections = REDIRECTS_MAX

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if after.scheme not in SCHEMES or after.hostname != before.hostname:
            raise ValueError(f"it redirects to {newurl!r}, which is another server")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _parts(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError as error:
        raise Outside(f"{uri!r} is no address: {error}") from error


def _server(url: str) -> Sequence[str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _unpacked(data: bytes, most: int, name: str) -> bytes:
    """What was packed with gzip, unless it is too much."""
    found = zlib.decompressobj(wbits=GZIP).decompress(data, most + 1)
    if len(found) > most:
        raise TooLarge(f"{name} has more than {most} bytes")
    return found


def _taken(file: IO[bytes], span: Span | None, most: int, name: str, *, can_seek: bool = True) -> bytes:
    """What was asked for, unless it is too much."""
    wanted = span.length if span else most + 1
    if span and span.length > most:
        raise TooLarge(f"{span.length} bytes of {name} are asked for; at most {most} are read")
    if span and span.start:
        if can_seek:
            file.seek(span.start)
        elif span.start > most:
            raise TooLarge(f"the server of {name} knows no ranges, and {span.start} bytes stand before")
        else:
            file.read(span.start)
    data = file.read(wanted)
    if len(data) > most:
        raise TooLarge(f"{name} has more than {most} bytes")
    if span and len(data) < span.length:
        raise Missing(f"{name} ends before byte {span.start + span.length}")
    return data
