"""Parts of files with their hash, for workers elsewhere that fetch of a file only what they read."""

import asyncio
import os
import re
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from fastapi import Request, Response

from takeup.api.files import BadRange
from takeup.core.errors import FileChanged
from takeup.core.remote import DIGEST_HEADER, PART_BYTES_MAX, WANT_DIGEST, digest_of

RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})\Z")
TAG = re.compile(r'(?:W/)?"[^"]*"')


async def hashed_part(request: Request, path: Path, facts: os.stat_result, tag: str) -> Response | None:
    """The part that is asked for, if its hash is wanted; the file has to be the one that `facts` are of.

    `tag` names its content; whatever is asked for, an `If-Match` that does not name it is refused.
    """
    asked, etag = request.headers, f'"{tag}"'
    if not _matches(asked.getlist("if-match"), etag):
        raise FileChanged("the file is another one than If-Match names")
    match = RANGE.match(asked.get("range", ""))
    if match is None or any(name not in asked for name in WANT_DIGEST):
        return None
    start = int(match[1])
    end = min(int(match[2]) + 1, facts.st_size, start + PART_BYTES_MAX)
    if start >= end:
        refusal = BadRange("the file is shorter than that")
        refusal.headers = {"Content-Range": f"bytes */{facts.st_size}"}
        raise refusal
    data = await asyncio.to_thread(_read, path, facts, start, end)
    told = {
        "ETag": etag,
        "Content-Range": f"bytes {start}-{end - 1}/{facts.st_size}",
        DIGEST_HEADER: digest_of(data),
    }
    return Response(data, HTTPStatus.PARTIAL_CONTENT, told, "application/octet-stream")


def _matches(wanted: Sequence[str], etag: str) -> bool:
    """Whether one of these tags is that of the file; a weak one never is."""
    text = ", ".join(wanted)
    return not wanted or text.strip() == "*" or etag in TAG.findall(text)


def _read(path: Path, facts: os.stat_result, start: int, end: int) -> bytes:
    """These bytes of that very file: looked at again when they are read."""
    with path.open("rb", buffering=0) as file:
        data = os.pread(file.fileno(), end - start, start)
        now = os.fstat(file.fileno())
    if (now.st_size, now.st_mtime_ns) != (facts.st_size, facts.st_mtime_ns) or len(data) != end - start:
        raise FileChanged("the file was changed while a part of it was read")
    return data
