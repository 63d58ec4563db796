"""Archives built byte by byte, so that they can be wrong in any way."""

import gzip
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from takeup.artifacts.archive import Extracted, Extraction, Limits

BLOCK = 512
END = bytes(2 * BLOCK)


def header(
    name: bytes = b"a.ts",
    size: int | bytes = 0,
    kind: bytes = b"0",
    *,
    mode: int = 0o644,
    mtime: bytes = b"00000000000\0",
    link: bytes = b"",
    prefix: bytes = b"",
    magic: bytes = b"ustar\x0000",
    checksum: int | None = None,
) -> bytes:
    sized = size if isinstance(size, bytes) else b"%011o\0" % size
    start = name.ljust(100, b"\0") + b"%07o\0" % mode + b"0000000\0" * 2 + sized.ljust(12, b"\0") + mtime
    rest = kind + link.ljust(100, b"\0") + magic + bytes(32 + 32 + 16) + prefix.ljust(155, b"\0")
    told = sum(start) + 8 * 32 + sum(rest) if checksum is None else checksum
    return (start + b"%06o\0 " % told + rest).ljust(BLOCK, b"\0")


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK)


def member(name: bytes = b"a.ts", data: bytes = b"x", kind: bytes = b"0", **more: Any) -> bytes:
    return header(name, len(data), kind, **more) + padded(data)


def pax(**records: str | bytes) -> bytes:
    lines = b""
    for key, value in records.items():
        told = value if isinstance(value, bytes) else value.encode()
        body = b" " + key.replace("__", ".").encode() + b"=" + told + b"\n"
        size = len(body) + len(str(len(body)))
        size += len(str(size)) - len(str(len(body)))
        lines += str(size).encode() + body
    return member(b"PaxHeaders/x", lines, b"x")


def packed(*members: bytes, end: bytes = END) -> bytes:
    return gzip.compress(b"".join(members) + end, 1, mtime=0)


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield root
    finally:
        os.close(root)


@contextmanager
def extracting(root: int, limits: Limits | None = None, **more: Any) -> Iterator[Extraction]:
    """One archive, of which nothing stays unless it is finished."""
    extraction = Extraction(root, limits, **more)
    try:
        yield extraction
    finally:
        extraction.abandon()


def extract(
    folder: Path, data: bytes, limits: Limits | None = None, *, step: int = 1 << 20, **more: Any
) -> tuple[Extracted, ...]:
    with opened(folder) as root, extracting(root, limits, **more) as extraction:
        for start in range(0, len(data), step):
            extraction.feed(data[start : start + step])
        return extraction.finish()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
