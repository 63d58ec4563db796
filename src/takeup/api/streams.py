"""Streams as they are published, for whoever may watch: under the slugs of their videos."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Request, Response
from fastapi.responses import RedirectResponse

from takeup.api.access import OutOfScope, known_caller
from takeup.api.files import ADVICE, PARTS, file_response
from takeup.api.jobs import app_of
from takeup.api.problems import refusals
from takeup.core.errors import NotFound
from takeup.media import serving
from takeup.store.videos import VideoStore

KNOWN_S, KNOWN_MAX = 0.5, 10_000
"""So long a slug leads where it led: a deleted video is served a second longer at the most."""
INNER = frozenset({"plan.json", "version.json"})
"""Notes of ours beside a stream."""
PAGE_POLICY = "base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
"""What a page cannot say for itself; everything else it does."""
OPEN = {
    "Access-Control-Allow-Methods": "GET, HEAD",
    "Access-Control-Allow-Headers": "Range, If-None-Match, If-Modified-Since, If-Range",
    "Access-Control-Expose-Headers": "Accept-Ranges, Content-Length, Content-Range, ETag, Last-Modified",
    "Access-Control-Max-Age": "600",
}
ORIGIN = "Origin"

router = APIRouter(tags=["streams"])
Slug = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,98}[a-z0-9]$")]
WATCH = refusals(400, 401, 403, 404, 413, 416, 422, 429, 431, 500, 503)


class Slugs:
    """Where slugs lead, remembered for a moment: a player asks for many pieces."""

    def __init__(self, videos: VideoStore, clock: Callable[[], float] = time.monotonic) -> None:
        """Slugs are looked up in `videos`."""
        self._videos = videos
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, str | None]] = OrderedDict()

    async def video(self, slug: str) -> str:
        """The video of this slug."""
        now = self._clock()
        seen = self._known.get(slug)
        if seen is None or now - seen[0] >= KNOWN_S:
            seen = now, await self._videos.by_slug(slug)
            self._known[slug] = seen
            self._known.move_to_end(slug)
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        if seen[1] is None:
            raise NotFound(f"there is no video {slug!r}", advice=ADVICE)
        return seen[1]


async def may_watch(request: Request) -> None:
    """Whether the settings let this caller watch."""
    if app_of(request).settings.stream_access == "public":
        return
    caller = await known_caller(request)
    if "read" not in caller.scopes:
        raise OutOfScope(f"the key {caller.name!r} has not the scope 'read'")


@router.get(
    "/videos/{slug}/{path:path}",
    dependencies=[Depends(may_watch)],
    response_class=Response,
    responses={**PARTS, **WATCH},
)
@router.head("/videos/{slug}/{path:path}", dependencies=[Depends(may_watch)], include_in_schema=False)
async def stream(request: Request, slug: Slug, path: str) -> Response:
    """A file of the stream: `master.m3u8`, `manifest.mpd`, and what these lead to."""
    app = app_of(request)
    folder = app.intake.places.stream(await request.app.state.slugs.video(slug))
    if path.rpartition("/")[2] in INNER:
        raise NotFound("there is no such file", advice=ADVICE)
    told = await asyncio.to_thread(serving.answer, folder, "/" + quote(path), dict(request.headers))
    found = await file_response(told, with_body=request.method != "HEAD")
    found.headers.update(_shared(request))
    if found.headers.get("content-type", "").startswith("text/html"):
        found.headers["Content-Security-Policy"] = PAGE_POLICY
    return found


@router.options("/videos/{slug}/{path:path}", include_in_schema=False)
async def ask(request: Request, slug: Slug, path: str) -> Response:  # noqa: ARG001 - as of the call it is about
    """Whether a page of another origin may play."""
    return Response(status_code=HTTPStatus.NO_CONTENT, headers=_shared(request))


@router.get(
    "/watch/{slug}",
    dependencies=[Depends(may_watch)],
    status_code=HTTPStatus.TEMPORARY_REDIRECT,
    response_class=RedirectResponse,
    responses=WATCH,
)
async def watch(request: Request, slug: Slug) -> Response:
    """The page that plays the stream."""
    await request.app.state.slugs.video(slug)
    return RedirectResponse(f"/videos/{slug}/")


def _shared(request: Request) -> dict[str, str]:
    """What lets a page of another origin read a stream, if the settings name it."""
    origins = [name.strip() for name in app_of(request).settings.stream_origins.split(",") if name.strip()]
    if not origins:
        return {}
    if "*" in origins:
        return {"Access-Control-Allow-Origin": "*", **OPEN}
    origin = request.headers.get(ORIGIN, "")
    varies = {"Vary": f"{ORIGIN}, Accept-Encoding"}
    return {"Access-Control-Allow-Origin": origin, **OPEN, **varies} if origin in origins else varies
