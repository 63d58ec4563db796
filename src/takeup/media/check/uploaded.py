"""Whether an unpacked folder of strangers is one stream and nothing else, before anything is served from it.

It looks at names and at how files begin, not at pictures: for those there is the check of whole packages.
"""

import os
import posixpath
import re
import stat
import struct
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree as ET

from takeup.core.errors import BadArchive
from takeup.media.check.access import TEXT_BYTES_MAX
from takeup.media.check.manifest import read_manifest
from takeup.media.check.playlists import ENTRIES_MAX, attributes_of, is_master, lines_of
from takeup.media.errors import MediaError

MASTER, MANIFEST = "master.m3u8", "manifest.mpd"
FILES_MAX = 20_000
BOXES_MAX = 100_000
BESIDE = re.compile(
    r"(?:poster\.(?:jpg|webp)|storyboard\.vtt|storyboard-[0-9]{1,6}\.(?:jpg|webp)|chapters\.vtt)\Z"
)
"""What stands beside a stream without being named in it."""
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\Z")
KEYS = ("#EXT-X-KEY", "#EXT-X-SESSION-KEY")
ELSEWHERE = ("Location", "PatchLocation", "ContentSteering", "ImportedMPD")
"""Elements of a manifest that lead a player away."""
PACKET, SYNC, PACKETS_SEEN = 188, 0x47, 3
PIECE_BOXES = frozenset({b"styp", b"sidx", b"moof", b"mdat", b"emsg", b"prft", b"free", b"skip", b"mfra"})
HEADER_BOXES = PIECE_BOXES | {b"ftyp", b"moov", b"meta", b"uuid"}
SHOWN_CHARS = 80


def check_stream(folder: Path, *, apart: Collection[str] = ()) -> None:
    """Refuse what is not one whole stream: files missing or too many, names that lead away, other kinds.

    Files of the names `apart` are none of its sender's.
    """
    files = _files(folder).difference(apart)
    if MASTER not in files:
        raise BadArchive(f"there is no {MASTER}")
    named = {MASTER}
    waiting = [MASTER]
    while waiting:
        name = waiting.pop()
        for other in _named_in(name, _text(folder, name), files):
            if other not in named and other.endswith(".m3u8"):
                waiting.append(other)
            named.add(other)
    if MANIFEST in files:
        named.add(MANIFEST)
        named.update(_named_in_manifest((folder / MANIFEST).read_bytes(), files))
    for name in sorted(files):
        if name not in named and not BESIDE.match(name):
            raise BadArchive(f"{name!r} is named by no playlist")
        _check_kind(folder, name)


def _files(folder: Path) -> frozenset[str]:
    """The names of all files; whatever is neither a file nor a folder is refused."""
    found: list[str] = []
    for above, folders, names in os.walk(folder, followlinks=False):
        for name in (*folders, *names):
            path = Path(above, name)
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise BadArchive(f"{name!r} is neither a file nor a folder")
            if stat.S_ISREG(mode):
                found.append(path.relative_to(folder).as_posix())
        if len(found) > FILES_MAX:
            raise BadArchive(f"there are more than {FILES_MAX} files")
    return frozenset(found)


def _text(folder: Path, name: str) -> str:
    path = folder / name
    if path.stat().st_size > TEXT_BYTES_MAX:
        raise BadArchive(f"{name} is larger than {TEXT_BYTES_MAX} bytes")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise BadArchive(f"{name} is not UTF-8") from None


def _named_in(at: str, text: str, files: frozenset[str]) -> Iterator[str]:
    """The files that a playlist names, whatever tag names them."""
    try:
        lines = lines_of(text)
    except MediaError as error:
        raise BadArchive(f"{at}: {error}") from None
    if len(lines) > 4 * ENTRIES_MAX:
        raise BadArchive(f"{at} is too long")
    if at == MASTER and not is_master(text):
        raise BadArchive(f"{at} leads to no other playlist")
    for line in lines:
        tag, _, rest = line.partition(":")
        if not line.startswith("#"):
            yield _inside(at, line, files)
            continue
        known = attributes_of(rest)
        if tag in KEYS and known.get("METHOD") != "NONE":
            raise BadArchive(f"{at} names a key; streams are not encrypted here")
        for attribute, value in known.items():
            if attribute.endswith("URI"):
                yield _inside(at, value.strip('"'), files)
        uris = sum(attribute.endswith("URI") for attribute in known)
        if rest.count("URI=") != uris or ("//" in rest and tag != "#EXTINF"):
            raise BadArchive(f"{at}: {line[:SHOWN_CHARS]!r} leads nowhere that can be told")


def _inside(at: str, uri: str, files: frozenset[str]) -> str:
    """The file that a name in another one leads to: a plain relative one, of this folder."""
    if not NAME.match(uri):
        raise BadArchive(f"{at} names {uri[:SHOWN_CHARS]!r}, which is not the plain name of a file beside it")
    name = posixpath.join(posixpath.dirname(at), uri)
    if name not in files:
        raise BadArchive(f"{at} names {uri[:SHOWN_CHARS]!r}, which is not there")
    return name


def _named_in_manifest(data: bytes, files: frozenset[str]) -> Iterator[str]:
    if len(data) > TEXT_BYTES_MAX:
        raise BadArchive(f"{MANIFEST} is larger than {TEXT_BYTES_MAX} bytes")
    try:
        manifest = read_manifest(data)
    except MediaError as error:
        raise BadArchive(f"{MANIFEST}: {error}") from None
    for element in ET.fromstring(data).iter():  # noqa: S314 - it was read before, and has no DOCTYPE
        tag = str(element.tag).rpartition("}")[2]
        if tag in ELSEWHERE or any(name.rpartition("}")[2] == "href" for name in element.attrib):
            raise BadArchive(f"{MANIFEST} leads away from this folder by {tag[:SHOWN_CHARS]!r}")
    for one in manifest.representations:
        at = ""
        for base in filter(None, one.bases):
            if not NAME.match(base.removesuffix("/")):
                raise BadArchive(
                    f"{MANIFEST} names {base[:SHOWN_CHARS]!r}, which leads away from this folder"
                )
            at = posixpath.join(posixpath.dirname(at), base)
        for named in [*([one.header] if one.header else []), *(segment.file for segment in one.segments)]:
            if named.uri:
                yield _inside(at, named.uri, files)
            else:
                yield _inside("", at, files)


def _check_kind(folder: Path, name: str) -> None:
    """Whether a file begins as files of its name do."""
    ending = name.rpartition(".")[2]
    looks = KINDS.get(ending)
    if looks is None:
        raise BadArchive(f"{name!r} is of a kind that no stream has")
    with (folder / name).open("rb") as file:
        if not looks(file):
            raise BadArchive(f"{name!r} is not what its name says")


def _is_transport(file: BinaryIO) -> bool:
    """Packets of MPEG-TS, and nothing else."""
    size = os.fstat(file.fileno()).st_size
    data = file.read(PACKET * PACKETS_SEEN)
    return size > 0 and size % PACKET == 0 and all(byte == SYNC for byte in data[::PACKET])


def _is_piece(file: BinaryIO) -> bool:
    """A piece of fragmented MP4."""
    kinds = _boxes(file)
    return b"moof" in kinds and b"mdat" in kinds and set(kinds) <= PIECE_BOXES


def _is_mp4(file: BinaryIO) -> bool:
    """The header of fragmented MP4, or a whole file of it."""
    kinds = _boxes(file)
    return kinds[:1] == [b"ftyp"] and b"moov" in kinds and set(kinds) <= HEADER_BOXES


def _boxes(file: BinaryIO) -> list[bytes]:
    """The kinds of the boxes at the top, if they fill the file; else none."""
    end = os.fstat(file.fileno()).st_size
    place = 0
    found: list[bytes] = []
    while place < end and len(found) < BOXES_MAX:
        file.seek(place)
        head = file.read(16)
        if len(head) < 8:  # noqa: PLR2004 - a size and a kind
            return []
        size, kind = struct.unpack_from(">I4s", head)
        if size == 1 and len(head) == 16:  # noqa: PLR2004 - and a large size
            (size,) = struct.unpack_from(">Q", head, 8)
        if size < 8 or place + size > end:  # noqa: PLR2004 - see above
            return []
        found.append(kind)
        place += size
    return found if place == end else []


def _begins(*signs: bytes) -> Callable[[BinaryIO], bool]:
    return lambda file: file.read(16).startswith(signs)


def _is_webp(file: BinaryIO) -> bool:
    head = file.read(12)
    return head[:4] == b"RIFF" and head[8:] == b"WEBP"


KINDS: dict[str, Callable[[BinaryIO], bool]] = {
    "m3u8": _begins(b"#EXTM3U", b"\xef\xbb\xbf#EXTM3U"),
    "mpd": _begins(b"<", b"\xef\xbb\xbf<"),
    "vtt": _begins(b"WEBVTT", b"\xef\xbb\xbfWEBVTT"),
    "ts": _is_transport,
    "m4s": _is_piece,
    "mp4": _is_mp4,
    "jpg": _begins(b"\xff\xd8\xff"),
    "webp": _is_webp,
}
