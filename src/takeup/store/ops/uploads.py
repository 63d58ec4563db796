"""Files that are being received: who sends how much, and until when it is waited for."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from takeup.core.errors import NotFound, TakeupError
from takeup.core.ids import canonical_json
from takeup.core.repeats import Asked
from takeup.core.videos import About, Upload
from takeup.store.op import Op, Row, query

BATCH_MAX = 500
EXTENDED_BELOW = 0.5
"""A life of which less than this is left is made whole again; so a row is seldom written."""


class Allowance(NamedTuple):
    """How much one caller may send at a time."""

    files: int
    bytes: int
    unknown_bytes: int
    """What a file counts of which nobody said how long it is."""


class Quota(TakeupError):
    """The caller sends as much at a time as he may."""

    http_status = 429
    help = "Finish or end an upload first (`DELETE /api/uploads/{id}`), or ask for a larger quota."


def begin(
    upload_id: str,
    user_id: str,
    length: int | None,
    about: About,
    life_s: float,
    allowance: Allowance,
    asked: Asked | None = None,
) -> Op[Upload]:
    """Note an upload, if its sender may have one more; or find the one that the same call made before."""
    yield query("hold_uploads")
    if asked is not None:
        known = yield from look(upload_id)
        if known is not None:
            asked.check(known.request_hash, upload_id)
            return known
    rows = yield query("uploads_of_user", user_id=user_id, unknown_bytes=allowance.unknown_bytes)
    count, size = rows[0]["upload_count"], rows[0]["byte_count"]
    if count >= allowance.files:
        raise Quota(f"{count} files are being sent; at most {allowance.files} are taken at a time")
    whole = size + (allowance.unknown_bytes if length is None else length)
    if whole > allowance.bytes:
        raise Quota(
            f"this would make {whole} bytes being sent; at most {allowance.bytes} are taken at a time"
        )
    yield query(
        "add_upload",
        id=upload_id,
        user_id=user_id,
        length_bytes=length,
        about=canonical_json(about._asdict(), what="metadata"),
        life_s=life_s,
        request_hash=asked.request_hash if asked else None,
    )
    found = yield query("upload_by_id", id=upload_id)
    return upload_from(found[0])


def find(upload_id: str, user_id: str) -> Op[Upload]:
    """An upload of this caller; that of another is none, and neither is one that is over."""
    rows = yield query("live_upload_by_id", id=upload_id)
    if not rows or rows[0]["user_id"] != user_id:
        raise NotFound(f"no upload has the id {upload_id!r}", advice="It may have expired: begin again.")
    return upload_from(rows[0])


def look(upload_id: str) -> Op[Upload | None]:
    """An upload as it is now, whosever it is."""
    rows = yield query("upload_by_id", id=upload_id)
    return upload_from(rows[0]) if rows else None


def extend(upload_id: str, life_s: float) -> Op[None]:
    """Wait on for an upload that goes on."""
    yield query("extend_upload", id=upload_id, life_s=life_s, low_s=life_s * EXTENDED_BELOW)


def drop(upload_id: str, state: str = "open") -> Op[bool]:
    """Forget an upload in this state; whether there was one, so that its file is nobody's."""
    return bool((yield query("drop_upload", id=upload_id, state=state)))


def page(after: str, limit_count: int) -> Op[list[Upload]]:
    """A page of the uploads that are not over."""
    rows = yield query("open_uploads", after=after, limit_count=limit_count)
    return [upload_from(row) for row in rows]


def expired(limit_count: int) -> Op[list[Upload]]:
    """Uploads that are not waited for any more."""
    rows = yield query("expired_uploads", limit_count=limit_count)
    return [upload_from(row) for row in rows]


def known(upload_ids: Sequence[str]) -> Op[set[str]]:
    """Which of these are uploads that are not over."""
    rows = yield query("uploads_among", g=[(upload_id,) for upload_id in upload_ids])
    return {row["id"] for row in rows}


def upload_from(row: Row) -> Upload:
    """An upload from its row."""
    return Upload(
        id=row["id"],
        user_id=row["user_id"],
        length_bytes=row["length_bytes"],
        about=About(**json.loads(row["about"])),
        state=row["state"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        request_hash=row["request_hash"],
    )
