"""Headers of tar archives, read by hand: ustar, PAX and GNU's long names; everything else is refused."""

import re
from typing import NamedTuple

from takeup.core.errors import BadArchive

BLOCK = 512
META_BYTES_MAX = 8192
"""What may stand before a file about it: its long name."""
SIZE_DIGITS_MAX = 18
PAX_RECORDS_MAX = 64
NAME, SIZE, CHECKSUM, KIND, LINK, MAGIC, PREFIX = (
    slice(0, 100), slice(124, 136), slice(148, 156), 156, slice(157, 257), slice(257, 263), slice(345, 500),
)  # fmt: skip
MAGICS = (b"ustar\0", b"ustar ")
PLAIN = (b"0", b"\0")
PAX, LONG_NAME = b"x", b"L"
REFUSED = {
    b"1": "a hard link", b"2": "a symbolic link", b"3": "a device", b"4": "a device", b"5": "a folder",
    b"6": "a pipe", b"S": "a sparse file", b"g": "a header for all files", b"K": "a long link",
}  # fmt: skip
OCTAL = re.compile(rb" *([0-7]+)[ \0]*\Z")
LENGTH = re.compile(rb"([1-9][0-9]{0,4}) ")
BASE_256 = 0x80
SHOWN_CHARS = 80


class Header(NamedTuple):
    """One header: a plain file, or what is said about the next one."""

    kind: bytes
    name: bytes
    size: int

    @property
    def is_plain(self) -> bool:
        """Whether it begins a file."""
        return self.kind in PLAIN


class Said(NamedTuple):
    """What a header before a file's own says about it; it outweighs that."""

    name: bytes | None = None
    size: int | None = None


def read_header(block: bytes) -> Header:
    """The header in a block."""
    told = _octal(block[CHECKSUM], "checksum")
    blank = sum(block[: CHECKSUM.start]) + 8 * ord(" ") + sum(block[CHECKSUM.stop :])
    if told != blank:
        raise BadArchive("a header has a wrong checksum")
    if block[MAGIC] not in MAGICS:
        raise BadArchive("a header is not that of a tar archive")
    kind = block[KIND : KIND + 1]
    name = _text(block[NAME])
    if kind not in (*PLAIN, PAX, LONG_NAME):
        raise BadArchive(
            f"{shown(name)} is {REFUSED.get(kind, 'of an unknown kind')}; only plain files are taken"
        )
    if kind in PLAIN and any(block[LINK]):
        raise BadArchive(f"{shown(name)} names another file")
    if block[MAGIC] == MAGICS[0] and (prefix := _text(block[PREFIX])):
        name = prefix + b"/" + name
    return Header(kind, name, _size(block[SIZE]))


def read_said(header: Header, data: bytes) -> Said:
    """What such a header says about the next file."""
    if header.kind == LONG_NAME:
        if data[-1:] != b"\0" or b"\0" in data[:-1]:
            raise BadArchive("a long name does not end where it says")
        return Said(name=data[:-1])
    known = _records(data)
    if any(key.startswith(b"GNU.sparse") for key in known):
        raise BadArchive("sparse files are not taken")
    if b"linkpath" in known:
        raise BadArchive("links are not taken")
    if known.get(b"hdrcharset", b"ISO-IR 10646 2000 UTF-8") != b"ISO-IR 10646 2000 UTF-8":
        raise BadArchive("names must be UTF-8")
    size = known.get(b"size")
    if size is not None and not (size.isdigit() and len(size) <= SIZE_DIGITS_MAX):
        raise BadArchive("a size is no number")
    return Said(known.get(b"path"), None if size is None else int(size))


def shown(name: bytes) -> str:
    """A name as it may stand in a message."""
    return repr(name[:SHOWN_CHARS].decode("utf-8", "backslashreplace"))


def _records(data: bytes) -> dict[bytes, bytes]:
    """PAX: lines that begin with their own length."""
    found: dict[bytes, bytes] = {}
    place = 0
    while place < len(data):
        match = LENGTH.match(data, place)
        end = place + int(match[1]) if match else 0
        record = data[match.end() : end] if match and end <= len(data) else b""
        key, equals, value = record[:-1].partition(b"=")
        if not (key and equals and record.endswith(b"\n")) or key in found or len(found) >= PAX_RECORDS_MAX:
            raise BadArchive("what is said about a file cannot be read")
        found[key] = value
        place = end
    return found


def _text(field: bytes) -> bytes:
    """A field up to its end."""
    return field.partition(b"\0")[0]


def _octal(field: bytes, what: str) -> int:
    match = OCTAL.match(field)
    if match is None:
        raise BadArchive(f"the {what} in a header is no number")
    return int(match[1], 8)


def _size(field: bytes) -> int:
    """Octal, or as GNU writes what is too large for that; never below zero."""
    if field[0] & BASE_256:
        number = int.from_bytes(bytes([field[0] & 0x7F]) + field[1:])
        if field[0] != BASE_256 or number >= 10**SIZE_DIGITS_MAX:
            raise BadArchive("a size is below zero or beyond all bounds")
        return number
    return _octal(field, "size")
