"""Files in parts: the protocol of tus 1.0 (creation, expiration, checksum, termination)."""

import base64
import binascii
import hashlib
from datetime import datetime
from email.utils import format_datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from takeup.api.access import Reader, Writer, body_of_caller
from takeup.api.edge import large_body
from takeup.api.jobs import CHANGE, LOOK, BadHeader, Key, app_of
from takeup.api.problems import CHECKSUM_MISMATCH, HttpError, refusals
from takeup.api.strict import StrictRoute
from takeup.api.videos import BrokenOff, about, body_of
from takeup.app import App
from takeup.core.repeats import Asked
from takeup.core.videos import About, Upload, UploadState, Video, upload_of
from takeup.engine.videos.errors import TooLarge
from takeup.engine.videos.receiving import ALGORITHMS, Digest

VERSION = "1.0.0"
EXTENSIONS = "creation,expiration,checksum,termination"
PART = "application/offset+octet-stream"
NAMES_MAX, METADATA_CHARS_MAX = 32, 16_000
DIGITS_MAX = 15
TUS = {"Tus-Resumable": VERSION}

router = APIRouter(prefix="/api/uploads", tags=["uploads"], route_class=StrictRoute)
UploadId = Annotated[str, Path(pattern=r"^upl_[0-9a-f]{24}$")]
Resumable = Annotated[str | None, Header(alias="Tus-Resumable")]
BEGIN = {**CHANGE, **refusals(412, 507)}
GO_ON = {**BEGIN, **refusals(CHECKSUM_MISMATCH)}


class WrongVersion(HttpError):
    """The client does not say that it speaks this version of the protocol."""

    http_status = 412
    help = f"Send the header `Tus-Resumable: {VERSION}`."
    headers = {"Tus-Version": VERSION}  # noqa: RUF012 - never changed


class WrongPart(HttpError):
    """The body is not sent as a part of a file."""

    http_status = 415
    help = f"Send the part as the body, as `{PART}`."


class UploadLine(BaseModel):
    """How far an upload is, and the video that it becomes once it is done."""

    id: str
    state: UploadState
    offset: int
    length: int | None
    video_id: str
    created_at: datetime
    expires_at: datetime


@router.options("", status_code=HTTPStatus.NO_CONTENT, include_in_schema=False)
async def abilities(request: Request, _caller: Reader) -> Response:
    """What of the protocol is spoken here."""
    headers = {
        "Tus-Version": VERSION,
        "Tus-Extension": EXTENSIONS,
        "Tus-Checksum-Algorithm": ",".join(ALGORITHMS),
        "Tus-Max-Size": str(app_of(request).intake.limits.bytes_max),
    }
    return Response(status_code=HTTPStatus.NO_CONTENT, headers={**TUS, **headers})


@router.post("", status_code=HTTPStatus.CREATED, responses=BEGIN, response_class=Response)
async def begin(
    request: Request,
    caller: Writer,
    key: Key,
    upload_length: Annotated[str | None, Header()] = None,
    upload_metadata: Annotated[str, Header()] = "",
    tus_resumable: Resumable = None,
) -> Response:
    """Begin an upload; `Upload-Metadata` may name `filename`, `title`, `slug` and `profile`.

    Sent again with the same `Idempotency-Key` the answer leads to the same upload, or to its video.
    """
    _check_version(tus_resumable)
    said = _said(upload_metadata)
    length = _number("Upload-Length", upload_length)
    app = app_of(request)
    made: Upload | Video
    if key is None:
        made = await app.intake.begin(caller.user, length, said)
    else:
        asked = Asked.of("upload", caller.user, key, [length, upload_metadata])
        made = await app.repeats.begin(asked, caller.user, length, said)
    return Response(status_code=HTTPStatus.CREATED, headers={**TUS, **_begun(app, made)})


def _begun(app: App, made: Upload | Video) -> dict[str, str]:
    """Where an upload goes on, or what has become of it."""
    upload_id = upload_of(made.id) if isinstance(made, Video) else made.id
    place = f"{app.settings.public_url}/api/uploads/{upload_id}"  # some clients cannot read a path alone
    if isinstance(made, Video):
        return {"Location": place, "Upload-Offset": str(made.size_bytes), **_named(made)}
    return {"Location": place, "Upload-Offset": str(app.intake.size(made)), "Upload-Expires": _until(made)}


@router.get("/{upload_id}", responses=LOOK)
async def upload(request: Request, caller: Reader, upload_id: UploadId) -> UploadLine:
    """How far an upload is."""
    app = app_of(request)
    found = await app.store.uploads.find(upload_id, caller.user)
    return UploadLine(
        id=found.id,
        state=found.state,
        offset=app.intake.size(found),
        length=found.length_bytes,
        video_id=found.video_id,
        created_at=found.created_at,
        expires_at=found.expires_at,
    )


@router.head("/{upload_id}", include_in_schema=False)
async def offset(
    request: Request, caller: Reader, upload_id: UploadId, tus_resumable: Resumable = None
) -> Response:
    """Where to go on."""
    _check_version(tus_resumable)
    app = app_of(request)
    found = await app.store.uploads.find(upload_id, caller.user)
    size = found.length_bytes if found.state == "done" else app.intake.size(found)
    headers = {"Upload-Offset": str(size), "Upload-Expires": _until(found)}
    if found.length_bytes is not None:
        headers["Upload-Length"] = str(found.length_bytes)
    if found.state == "done":
        headers["Takeup-Video-Id"] = found.video_id
    return Response(status_code=HTTPStatus.OK, headers={**TUS, **headers})


@router.patch(
    "/{upload_id}",
    status_code=HTTPStatus.NO_CONTENT,
    responses=GO_ON,
    response_class=Response,
    openapi_extra={"requestBody": body_of(PART)},
)
@large_body(None)
async def go_on(
    request: Request,
    caller: Writer,
    upload_id: UploadId,
    upload_offset: Annotated[str | None, Header()] = None,
    upload_checksum: Annotated[str | None, Header()] = None,
    tus_resumable: Resumable = None,
) -> Response:
    """The next part; the answer to the last one names the video."""
    _check_version(tus_resumable)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != PART:
        raise WrongPart("the body is no part of a file")
    place = _number("Upload-Offset", upload_offset)
    digest = _digest(upload_checksum)
    app = app_of(request)
    found = await app.store.uploads.find(upload_id, caller.user)
    coming = int(request.headers.get("content-length", "0"))
    if found.length_bytes is not None and place + coming > found.length_bytes:
        raise TooLarge(f"the file was to have {found.length_bytes} bytes")
    try:
        size, made = await app.intake.go_on(
            found, place, body_of_caller(request, "write"), coming_bytes=coming, digest=digest
        )
    except ClientDisconnect:
        raise BrokenOff("the body broke off") from None
    extended = await app.intake.known(upload_id) or found
    headers = {**TUS, "Upload-Offset": str(size), "Upload-Expires": _until(extended)}
    return Response(status_code=HTTPStatus.NO_CONTENT, headers={**headers, **_named(made)})


@router.delete("/{upload_id}", status_code=HTTPStatus.NO_CONTENT, responses=BEGIN, response_class=Response)
async def end(
    request: Request, caller: Writer, upload_id: UploadId, tus_resumable: Resumable = None
) -> Response:
    """Forget an upload and what came of it; the video that it became stays."""
    _check_version(tus_resumable)
    app = app_of(request)
    await app.intake.end(await app.store.uploads.find(upload_id, caller.user))
    return Response(status_code=HTTPStatus.NO_CONTENT, headers=TUS)


def _check_version(said: str | None) -> None:
    if said != VERSION:
        raise WrongVersion(f"only version {VERSION} of the protocol is spoken here")


def _until(found: Upload) -> str:
    return format_datetime(found.expires_at, usegmt=True)


def _named(made: Video | None) -> dict[str, str]:
    if made is None:
        return {}
    return {"Takeup-Video-Id": made.id, "Takeup-Slug": made.slug, "Takeup-Job-Id": made.job_id or ""}


def _number(name: str, text: str | None) -> int:
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > DIGITS_MAX:
        raise BadHeader(f"{name} must be a number of bytes")
    return int(text)


def _said(metadata: str) -> About:
    """Names with values in base64, with commas between."""
    pairs = [pair.split() for pair in metadata.split(",")] if metadata.strip() else []
    if len(metadata) > METADATA_CHARS_MAX or len(pairs) > NAMES_MAX:
        raise BadHeader(f"Upload-Metadata has at most {NAMES_MAX} names and {METADATA_CHARS_MAX} characters")
    try:
        said = {pair[0]: base64.b64decode(pair[1], validate=True).decode() for pair in pairs if pair[1:]}
    except (binascii.Error, UnicodeDecodeError):
        raise BadHeader("Upload-Metadata holds names and values in base64, with commas between") from None
    return about(
        said.get("title"),
        said.get("filename", said.get("name", "")),
        said.get("profile", "web-h264"),
        said.get("slug"),
    )


def _digest(text: str | None) -> Digest | None:
    """What `Upload-Checksum` says of a part."""
    if text is None:
        return None
    algorithm, _, value = text.partition(" ")
    if algorithm not in ALGORITHMS:
        raise BadHeader(f"Upload-Checksum is taken as {', '.join(ALGORITHMS)}")
    try:
        found = base64.b64decode(value, validate=True)
    except binascii.Error:
        raise BadHeader("Upload-Checksum holds no base64") from None
    if len(found) != hashlib.new(algorithm, usedforsecurity=False).digest_size:
        raise BadHeader(f"Upload-Checksum is no {algorithm}")
    return Digest(algorithm, found)
