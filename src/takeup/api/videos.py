"""Videos: sent in one piece, looked at, made again, taken back, retitled, deleted."""

import base64
import binascii
import re
from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import ClientDisconnect

from takeup.api.access import Reader, Writer, body_of_caller
from takeup.api.edge import large_body
from takeup.api.files import PARTS, file_response
from takeup.api.jobs import CHANGE, LOOK, TAG, BadHeader, Changed, Key, app_of
from takeup.api.pages import LIMIT_DEFAULT, Body, Limit, Page, page_of
from takeup.api.problems import HttpError, refusals
from takeup.api.strict import StrictRoute
from takeup.core.errors import InvalidInput
from takeup.core.repeats import Asked
from takeup.core.videos import (
    About,
    ServedQuality,
    Video,
    VideoStatus,
    check_slug,
    file_label,
    label,
    title_of,
)
from takeup.media import profile as profiles
from takeup.media import serving

TITLE_CHARS_MAX, NAME_CHARS_MAX = 1000, 4096
KIND_CHARS_MAX = 100
QUALITIES_MAX = 64
SHA256 = re.compile(r"[0-9a-fA-F]{64}\Z")
DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]{1,100}):\s*(?=,|$)")
RAW = "application/octet-stream"
KINDS = re.compile(rf"(?:video/[\w.+-]+|audio/[\w.+-]+|{RAW})\Z")

router = APIRouter(prefix="/api/videos", tags=["videos"], route_class=StrictRoute)
VideoId = Annotated[str, Path(pattern=r"^vid_[0-9a-f]{24}$")]
SEND = refusals(400, 401, 403, 409, 413, 415, 422, 429, 431, 500, 503, 507)


class BrokenOff(HttpError):
    """The client went away before all of the body had come."""

    http_status = 400
    help = "Send it again; a file of any size is better sent in parts (`/api/uploads`)."


class WrongKind(HttpError):
    """The body is not sent as a file."""

    http_status = 415
    help = (
        f"Send the file itself as the body, as `video/*`, `audio/*` or `{RAW}`; forms are not taken. "
        "What lies at an address is fetched by `POST /api/pulls`."
    )


class NewVideo(BaseModel):
    """A video that was taken, and the job that makes its stream."""

    id: str
    slug: str
    job_id: str | None


class VideoLine(BaseModel):
    """A video in a list."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    slug: str
    title: str
    status: VideoStatus
    error: str | None
    duration_s: float | None
    size_bytes: int
    served_version: int | None
    job_id: str | None
    version: int
    created_at: datetime
    updated_at: datetime


class VideoDetail(VideoLine):
    """One video, with what is served of it and where."""

    user_id: str
    file_name: str
    profile: str
    sha256: str
    qualities: list[ServedQuality]
    master: str | None
    manifest: str | None
    page: str | None


class TitleBody(Body):
    """What of a video may be changed."""

    title: str = Field(min_length=1, max_length=TITLE_CHARS_MAX)


class RetranscodeBody(Body):
    """What to make again: all of a stream, or some of its qualities."""

    retranscode_all: bool = True
    qualities: list[Annotated[str, Field(pattern=r"^[0-9a-z-]{1,40}$")]] = Field(
        default_factory=list, max_length=QUALITIES_MAX
    )
    delete_transcription: bool = False


class Retranscoded(BaseModel):
    """The job that makes it; there is no transcription that could be deleted."""

    id: str
    job_id: str
    transcription_deleted: bool = False


class RollbackBody(Body):
    """Which version to serve; the one that was served before, if none is named."""

    to: int | None = Field(default=None, ge=1, le=10**9 - 1)


class RolledBack(BaseModel):
    """What is served now."""

    id: str
    served_version: int


def body_of(kind: str) -> dict[str, object]:
    """How a body that is a file is documented."""
    return {"content": {kind: {"schema": {"type": "string", "format": "binary"}}}, "required": True}


def about(
    title: str | None, file_name: str, profile_name: str, slug: str | None = None, sha256: str | None = None
) -> About:
    """What was said of a file, cleaned; a profile is one of ours, never a file."""
    if profile_name not in profiles.names():
        known = ", ".join(profiles.names())
        raise InvalidInput(f"there is no profile {profile_name[:40]!r}; there are: {known}")
    name = file_label(file_name)
    return About(title_of(title, name), name, profile_name, check_slug(slug) if slug else None, sha256)


def digest_of(content_digest: str | None, x_checksum_sha256: str | None) -> str | None:
    """The SHA-256 that the sender says his file has, in hex."""
    said = []
    if x_checksum_sha256 is not None:
        if not SHA256.match(x_checksum_sha256):
            raise BadHeader("X-Checksum-Sha256 has 64 hex digits")
        said.append(x_checksum_sha256.lower())
    found = DIGEST.search(content_digest or "")
    if content_digest is not None and found is None:
        raise BadHeader("Content-Digest is taken as sha-256=:BASE64:")
    if found is not None:
        try:
            said.append(base64.b64decode(found[1], validate=True).hex())
        except binascii.Error:
            raise BadHeader("Content-Digest holds no base64") from None
    if len(set(said)) > 1:
        raise BadHeader("Content-Digest and X-Checksum-Sha256 contradict each other")
    return said[0] if said else None


@router.post("", status_code=HTTPStatus.CREATED, responses=SEND, openapi_extra={"requestBody": body_of(RAW)})
@large_body(None)
async def send(  # noqa: PLR0913 - each parameter of the call
    request: Request,
    response: Response,
    caller: Writer,
    key: Key,
    *,
    title: Annotated[str | None, Query(max_length=TITLE_CHARS_MAX)] = None,
    file_name: Annotated[str, Query(max_length=NAME_CHARS_MAX)] = "",
    slug: Annotated[str | None, Query(max_length=TITLE_CHARS_MAX)] = None,
    profile: Annotated[str, Query(max_length=40)] = "web-h264",
    content_digest: Annotated[str | None, Header()] = None,
    x_checksum_sha256: Annotated[str | None, Header()] = None,
) -> NewVideo:
    """Send a video as the body; it is looked into, whatever its name says, and its stream is made.

    Sent again with the same `Idempotency-Key` it is kept once, and answered the same.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not KINDS.match(kind):
        told = f"is {kind[:KIND_CHARS_MAX]!r}" if kind else "is not there"
        raise WrongKind(f"the header Content-Type {told}")
    if slug is not None:
        check_slug(slug)
    said = about(title, file_name, profile, slug, digest_of(content_digest, x_checksum_sha256))
    length = request.headers.get("content-length")
    if length is None and "transfer-encoding" not in request.headers:
        length = "0"
    app, size = app_of(request), None if length is None else int(length)
    body = body_of_caller(request, "write")
    try:
        if key is None:
            made = await app.intake.take(caller.user, size, said, body)
        else:
            asked = Asked.of("video", caller.user, key, [title, file_name, slug, profile])
            made = await app.repeats.take(asked, caller.user, size, said, body)
    except ClientDisconnect:
        raise BrokenOff("the body broke off") from None
    response.headers["Location"] = f"/api/videos/{made.id}"
    return NewVideo(id=made.id, slug=made.slug, job_id=made.job_id)


@router.get("", responses=LOOK)
async def list_videos(
    request: Request,
    _caller: Reader,
    status: Annotated[VideoStatus | None, Query()] = None,
    before: Annotated[str | None, Query(pattern=r"^vid_[0-9a-f]{24}$")] = None,
    limit: Limit = LIMIT_DEFAULT,
) -> Page[VideoLine]:
    """Videos, newest first."""
    store = app_of(request).store.videos
    last = await store.find(before) if before else None
    rows = await store.page(status=status, before=last, limit=limit)
    return page_of([VideoLine.model_validate(row) for row in rows], limit, "id")


@router.get("/{video_id}", responses=LOOK)
async def video(request: Request, response: Response, _caller: Reader, video_id: VideoId) -> VideoDetail:
    """One video; its `ETag` is what `If-Match` wants."""
    found = await app_of(request).store.videos.find(video_id)
    return await _detail(request, response, found)


async def _detail(request: Request, response: Response, found: Video) -> VideoDetail:
    app = app_of(request)
    response.headers["ETag"] = f'"{found.version}"'
    is_served = found.served_version is not None or app.shelf.current(found.id) is not None
    folder = f"/videos/{found.slug}"
    line = VideoLine.model_validate(found)
    return VideoDetail(
        **line.model_dump(),
        user_id=found.user_id,
        file_name=found.file_name,
        profile=found.profile,
        sha256=found.sha256,
        qualities=await app.store.videos.qualities(found.id),
        master=f"{folder}/master.m3u8" if is_served else None,
        manifest=f"{folder}/manifest.mpd" if is_served else None,
        page=f"/watch/{found.slug}" if is_served else None,
    )


@router.patch("/{video_id}", responses=CHANGE)
async def retitle(
    request: Request,
    response: Response,
    _caller: Writer,
    video_id: VideoId,
    body: TitleBody,
    if_match: Annotated[str | None, Header()] = None,
) -> VideoDetail:
    """Give a video another title; its slug stays. With `If-Match` only if nobody else did meanwhile."""
    tag = TAG.match(if_match) if if_match is not None else None
    if if_match is not None and tag is None:
        raise BadHeader('If-Match must be the ETag of the video, such as "3"')
    title = label(body.title)
    if not title:
        raise InvalidInput("there is nothing in this title that can be shown")
    version = int(tag[1]) if tag else None
    found = await app_of(request).store.videos.retitle(video_id, title, version=version)
    return await _detail(request, response, found)


@router.delete("/{video_id}", responses=CHANGE)
async def delete(request: Request, _caller: Writer, video_id: VideoId) -> Changed:
    """Serve a video no more and end its job; its files are removed a little later."""
    app = app_of(request)
    changed = await app.store.videos.delete(video_id)
    app.bell.ring("work")
    return Changed(id=video_id, changed=changed)


@router.post("/{video_id}/retranscode", status_code=HTTPStatus.CREATED, responses=CHANGE)
async def retranscode(
    request: Request, caller: Writer, video_id: VideoId, body: RetranscodeBody
) -> Retranscoded:
    """Make its stream again, while the one that is served stays until the new one is whole."""
    if body.retranscode_all is bool(body.qualities):
        raise InvalidInput("name the qualities and set retranscode_all to false, or do neither")
    rungs = tuple(dict.fromkeys(body.qualities))
    job_id = await app_of(request).intake.again(video_id, user_id=caller.user, rungs=rungs)
    return Retranscoded(id=video_id, job_id=job_id)


@router.post("/{video_id}/rollback", responses=CHANGE)
async def roll_back(request: Request, _caller: Writer, video_id: VideoId, body: RollbackBody) -> RolledBack:
    """Serve an earlier version again; whoever plays goes on with the one he began with."""
    version = await app_of(request).shelf.roll_back(video_id, body.to)
    return RolledBack(id=video_id, served_version=version)


@router.get("/{video_id}/source", responses={**PARTS, **LOOK, **refusals(416)}, response_class=Response)
async def source(request: Request, _caller: Reader, video_id: VideoId) -> Response:
    """The file as it was sent, to be saved; parts of it by `Range`."""
    app = app_of(request)
    found = await app.store.videos.find(video_id)
    path = app.intake.places.source(video_id)
    name = found.file_name or f"{found.slug}.bin"
    return await file_response(serving.download(path, name, dict(request.headers)))
