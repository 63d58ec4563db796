"""Files that the server fetches from an address: asked for, looked at, cancelled."""

from contextlib import suppress
from datetime import datetime
from http import HTTPStatus
from typing import Annotated
from urllib.parse import unquote, urlsplit

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from takeup.api.access import Reader, Writer
from takeup.api.jobs import CHANGE, LOOK, Changed, Key, app_of
from takeup.api.pages import LIMIT_DEFAULT, Body, Limit, Page, page_of
from takeup.api.strict import StrictRoute
from takeup.api.videos import NAME_CHARS_MAX, TITLE_CHARS_MAX, about
from takeup.app import App
from takeup.core.pulls import Pull, PullStatus, upload_for
from takeup.core.repeats import Asked
from takeup.engine.videos.errors import UploadBusy
from takeup.net.guard import URL_CHARS_MAX

router = APIRouter(prefix="/api/pulls", tags=["videos"], route_class=StrictRoute)
PullId = Annotated[str, Path(pattern=r"^pul_[0-9a-f]{24}$")]


class PullBody(Body):
    """A file to fetch, and what is said of it."""

    url: str = Field(min_length=1, max_length=URL_CHARS_MAX)
    title: str | None = Field(default=None, max_length=TITLE_CHARS_MAX)
    file_name: str | None = Field(default=None, max_length=NAME_CHARS_MAX)
    slug: str | None = Field(default=None, max_length=TITLE_CHARS_MAX)
    profile: str = Field(default="web-h264", max_length=40)
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class PullLine(BaseModel):
    """How far a pull is; the video is there once it is DONE."""

    id: str
    url: str
    status: PullStatus
    received_bytes: int
    length_bytes: int | None
    failures: int
    error: str | None
    video_id: str
    created_at: datetime
    available_at: datetime
    finished_at: datetime | None


@router.post("", status_code=HTTPStatus.CREATED, responses=CHANGE)
async def begin(request: Request, response: Response, caller: Writer, body: PullBody, key: Key) -> PullLine:
    """Let the server fetch a file; its address is looked up and judged first.

    Sent again with the same `Idempotency-Key` it is fetched once, and the answer is how far that pull is.
    """
    app = app_of(request)
    asked = Asked.of("pull", caller.user, key, body.model_dump()) if key is not None else None
    made = await app.store.pulls.asked(asked) if asked else None
    if made is None:
        made = await _add(app, caller.user, body, asked)
    response.headers["Location"] = f"/api/pulls/{made.id}"
    return line_of(made)


async def _add(app: App, user_id: str, body: PullBody, asked: Asked | None) -> Pull:
    await app.fetcher.check(body.url)
    name = unquote(urlsplit(body.url).path) if body.file_name is None else body.file_name
    said = about(body.title, name, body.profile, body.slug, body.sha256)
    return await app.store.pulls.add(
        user_id, body.url, said, count_max=app.intake.limits.quota_count, asked=asked
    )


@router.get("", responses=LOOK)
async def list_pulls(
    request: Request,
    caller: Reader,
    before: Annotated[str | None, Query(pattern=r"^pul_[0-9a-f]{24}$")] = None,
    limit: Limit = LIMIT_DEFAULT,
) -> Page[PullLine]:
    """The caller's own, newest first."""
    store = app_of(request).store.pulls
    last = await store.find(before, caller.user) if before else None
    rows = await store.page(caller.user, before=last, limit=limit)
    return page_of([line_of(row) for row in rows], limit, "id")


@router.get("/{pull_id}", responses=LOOK)
async def pull(request: Request, caller: Reader, pull_id: PullId) -> PullLine:
    """How far one is."""
    return line_of(await app_of(request).store.pulls.find(pull_id, caller.user))


@router.delete("/{pull_id}", responses=CHANGE)
async def cancel(request: Request, caller: Writer, pull_id: PullId) -> Changed:
    """Fetch no more of it and forget what came; a video that it became stays."""
    app = app_of(request)
    changed = await app.store.pulls.cancel(pull_id, caller.user)
    if changed:
        with suppress(UploadBusy):  # whoever fetches it sees that it is cancelled, and removes it
            await app.intake.forget(upload_for(pull_id))
    return Changed(id=pull_id, changed=changed)


def line_of(made: Pull) -> PullLine:
    return PullLine(**{name: getattr(made, name) for name in PullLine.model_fields})
