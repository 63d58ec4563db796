"""Live events: what changes is told at once, and whoever was away goes on where he was."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request

from takeup.api.access import Follower
from takeup.api.gate import Gate
from takeup.api.jobs import LOOK, app_of
from takeup.api.sse import MEDIA_TYPE, EventStream, Line, Pulse
from takeup.api.strict import StrictRoute
from takeup.core.channels import CHANNELS_MAX, FORMS, parse_channels
from takeup.core.errors import StoreError, TakeupError
from takeup.engine.feed import Feed

NAME_CHARS_MAX = 200
EVENT = {
    "description": "Each event; its data is one line of JSON",
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("id", "event", "data")},
}
EXAMPLE = ["worker_status"]
ABOUT = f"What to listen to: {FORMS}; repeat it for more."
Name = Annotated[str, Query(max_length=NAME_CHARS_MAX)]

router = APIRouter(prefix="/api/events", tags=["events"], route_class=StrictRoute)
STREAM: dict[int | str, dict[str, Any]] = {
    HTTPStatus.OK.value: {
        "description": "A stream of events that goes on",
        "content": {MEDIA_TYPE: {"schema": EVENT}},
    }
}


@router.get("", status_code=HTTPStatus.OK, response_class=EventStream, responses={**STREAM, **LOOK})
async def events(
    request: Request,
    _caller: Follower,
    channel: Annotated[
        list[Name], Query(min_length=1, max_length=CHANNELS_MAX, description=ABOUT, examples=[EXAMPLE])
    ],
    last_event_id: Annotated[
        str | None, Header(description="The id of the last event that was heard: what came after it is told.")
    ] = None,
) -> EventStream:
    """Follow jobs, videos and workers live, by Server-Sent Events."""
    feed: Feed = request.app.state.feed
    settings = app_of(request).settings
    listener = await feed.join(parse_channels(channel), last_event_id)

    async def is_welcome() -> bool:
        return await _is_welcome(request)

    pulse = Pulse(settings.sse_heartbeat_interval)
    return EventStream(Line(feed, listener, is_welcome, pulse, settings.sse_reconnect_timeout))


async def _is_welcome(request: Request) -> bool:
    """Whether he may still listen; while the database is silent nobody knows, and nothing is told."""
    gate: Gate = request.app.state.gate
    try:
        caller = await gate.caller(request)
    except StoreError:
        return True
    except TakeupError:
        return False
    return "events" in caller.scopes
