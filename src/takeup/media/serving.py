"""Packages over HTTP: which file an address means, and how it is answered. Knows no server.

A link is followed as far as the folder that is served reaches, and only files of a stream are handed out.
"""

import gzip
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate, parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote, unquote

from takeup.media import page
from takeup.media.package import MASTER, PAGE

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".jpg": "image/jpeg",
    ".json": "application/json",
    ".m3u8": "application/vnd.apple.mpegurl",
    ".m4s": "video/iso.segment",
    ".mp4": "video/mp4",
    ".mpd": "application/dash+xml",
    ".vtt": "text/vtt; charset=utf-8",
    ".webp": "image/webp",
}
PACKED = {".html", ".m3u8", ".mpd", ".vtt"}
PACKED_BYTES_MAX = 16 * 1024 * 1024
FOREVER = "public, max-age=31536000, immutable"
SHORTLY = "public, max-age=2"
ASK_AGAIN = "no-cache"
PIECES = {".m4s", ".mp4"}
PLAYLISTS = {".m3u8", ".mpd"}
VERSION = re.compile(r"v\d+")
CURRENT = "current"
"""The link beside the folders of a package's versions, to the one that is served."""
RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
PACKAGES_MAX = 1000
ADDRESS_CHARS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent: a text, or a part of a file."""

    status: HTTPStatus
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    file: Path | None = None
    start: int = 0
    length: int = 0


def answer(root: Path, address: str, asked: Mapping[str, str]) -> Answer:
    """Answer a request for this address below the folder; `asked` are its headers, by names in any case."""
    asked = {name.lower(): value for name, value in asked.items()}
    names = _names(address)
    found = _inside(root, names)
    if found is None:
        return _refusal(HTTPStatus.NOT_FOUND, "there is no such file")
    if found.is_dir():
        if names and not address.partition("?")[0].endswith("/"):
            return _text(HTTPStatus.MOVED_PERMANENTLY, b"", {"Location": quote(os.fsencode(names[-1])) + "/"})
        inner = _inside(root, [*names, PAGE])
        if inner is None:
            return _page(found)
        names, found = [*names, PAGE], inner
    if found.suffix not in TYPES:
        return _refusal(HTTPStatus.NOT_FOUND, "there is no such file of a stream")
    return _file(found, _keeping(root, names, found), asked)


def download(file: Path, name: str, asked: Mapping[str, str], *, tag: str = "") -> Answer:
    """A file that nobody is to open in a browser: whatever is in it, it is only ever saved.

    `tag` names its content where more is known of it than its size and time.
    """
    asked = {key.lower(): value for key, value in asked.items()}
    try:
        facts = file.stat()
    except OSError:
        return _refusal(HTTPStatus.NOT_FOUND, "the file is gone")
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, no-cache",
        "ETag": f'"{tag or f"{facts.st_mtime_ns:x}-{facts.st_size:x}"}"',
        "Last-Modified": formatdate(int(facts.st_mtime), usegmt=True),
        "Accept-Ranges": "bytes",
    }
    return _ranged(file, facts.st_size, headers, asked)


def packages(folder: Path) -> list[str]:
    """The folders in this one that hold a package, by name."""
    names = (entry.name for entry in folder.iterdir())
    return sorted(name for name in names if _inside(folder, [name, MASTER]))[:PACKAGES_MAX]


def _names(address: str) -> list[str]:
    """The names in an address; one that cannot be a path has none that exists."""
    path = unquote(address[:ADDRESS_CHARS_MAX].partition("?")[0], errors="surrogateescape")
    return [name for name in path.split("/") if name]


def _inside(root: Path, names: list[str]) -> Path | None:
    """The file or folder of this name, if it exists and does not lead out."""
    if any(name.startswith(".") or "\0" in name or "\\" in name for name in names):
        return None
    root = root.resolve()
    try:
        found = root.joinpath(*names).resolve(strict=True)
        is_usable = stat.S_IFMT(found.stat().st_mode) in (stat.S_IFREG, stat.S_IFDIR)
    except (OSError, RuntimeError, ValueError):
        return None
    return found if is_usable and found.is_relative_to(root) else None


def _page(folder: Path) -> Answer:
    """A page for a folder that has none of its own."""
    if (folder / MASTER).is_file():
        text = page.player_page(folder.name)
    elif names := packages(folder):
        text = page.list_page(names)
    else:
        return _refusal(HTTPStatus.NOT_FOUND, "there is no stream in this folder")
    headers = {"Content-Type": TYPES[".html"], "Cache-Control": ASK_AGAIN}
    return _text(HTTPStatus.OK, text.encode(), headers)


def _keeping(root: Path, names: list[str], file: Path) -> str:
    """How long this file may be kept without asking: pieces of a version never change."""
    if file.suffix in PLAYLISTS:
        return SHORTLY
    is_version = any(
        VERSION.fullmatch(name) and root.joinpath(*names[:place], CURRENT).is_symlink()
        for place, name in enumerate(names)
    )
    return FOREVER if is_version and file.suffix in PIECES else ASK_AGAIN


def _file(file: Path, keeping: str, asked: Mapping[str, str]) -> Answer:
    try:
        facts = file.stat()
    except OSError:
        return _refusal(HTTPStatus.NOT_FOUND, "the file is gone")
    size = facts.st_size
    wants_gzip = re.search(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))", asked.get("accept-encoding", ""))
    is_packed = bool(
        file.suffix in PACKED and wants_gzip and "range" not in asked and size <= PACKED_BYTES_MAX
    )
    tag = f'"{facts.st_mtime_ns:x}-{facts.st_ino:x}-{size:x}{"-gzip" if is_packed else ""}"'
    changed = int(facts.st_mtime)
    headers = {
        "Content-Type": TYPES[file.suffix],
        "Cache-Control": keeping,
        "ETag": tag,
        "Last-Modified": formatdate(changed, usegmt=True),
    }
    headers |= {"Vary": "Accept-Encoding"} if file.suffix in PACKED else {"Accept-Ranges": "bytes"}
    if _is_known(asked, tag, changed):
        return Answer(HTTPStatus.NOT_MODIFIED, headers)
    if is_packed:
        packed = gzip.compress(file.read_bytes(), mtime=0)
        return _text(HTTPStatus.OK, packed, headers | {"Content-Encoding": "gzip"})
    return _ranged(file, size, headers, asked)


def _is_known(asked: Mapping[str, str], tag: str, changed: int) -> bool:
    """Whether the client has the file as it is."""
    if "if-none-match" in asked:
        known = {part.strip().removeprefix("W/") for part in asked["if-none-match"].split(",")}
        return tag in known or "*" in known
    since = _moment(asked.get("if-modified-since", ""))
    return since is not None and changed <= since


def _ranged(file: Path, size: int, headers: dict[str, str], asked: Mapping[str, str]) -> Answer:
    """The whole file, or the one range that was asked for."""
    span = _span(asked.get("range", ""), size)
    if span is None or asked.get("if-range", headers["ETag"]) not in (
        headers["ETag"],
        headers["Last-Modified"],
    ):
        return Answer(HTTPStatus.OK, headers | {"Content-Length": str(size)}, file=file, length=size)
    if not span:
        more = {"Content-Range": f"bytes */{size}"}
        return _refusal(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "the file is shorter than that", more)
    more = {"Content-Range": f"bytes {span[0]}-{span[-1]}/{size}", "Content-Length": str(len(span))}
    return Answer(HTTPStatus.PARTIAL_CONTENT, headers | more, file=file, start=span.start, length=len(span))


def _span(text: str, size: int) -> range | None:
    """The bytes that are asked for, none if the file is too short; no answer to what is not understood."""
    found = RANGE.fullmatch(text)
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found[1], found[2]
    if not first:
        return range(max(size - int(last), 0), size)
    if last and int(last) < int(first):
        return None
    return range(int(first), min(int(last) + 1, size) if last else size)


def _refusal(status: HTTPStatus, words: str, more: Mapping[str, str] | None = None) -> Answer:
    headers = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": ASK_AGAIN, **(more or {})}
    return _text(status, f"{words}\n".encode(), headers)


def _text(status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> Answer:
    return Answer(status, {**headers, "Content-Length": str(len(body))}, body=body, length=len(body))


def _moment(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
