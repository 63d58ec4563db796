"""What is told to whom: the events there are, the endpoints that want them, and how a message reads."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from takeup.core.errors import InvalidInput
from takeup.core.ids import digest

JOB_EVENTS = ("job.completed", "job.failed", "job.cancelled")
ALERTS = (
    "stale_job_recovered",
    "job_max_retries_exceeded",
    "job_failed_pattern",
    "worker_startup",
    "worker_shutdown",
    "worker_quarantined",
    "webhook_disabled",
)
EVENTS = (*JOB_EVENTS, *ALERTS)
EVERY = "*"
TEST = "test"
"""What is sent when somebody asks whether an endpoint works; nobody has to want it."""

Form = Literal["standard", "slack", "discord"]
FORMS: tuple[Form, ...] = get_args(Form)

FROM_SETTINGS = "wh_settings"
"""The endpoint that `alert_webhook_url` names."""

TEXT_CHARS_MAX = 1500
VALUE_CHARS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Webhook:
    """An endpoint: everything but its secret."""

    id: str
    url: str
    events: tuple[str, ...]
    form: str
    secret_end: str | None
    """The last four characters, to tell one secret from another; null: messages are not signed."""
    former_ends_at: datetime | None
    """Until when the secret before it signs, too."""
    disabled: bool
    reason: str | None
    failures: int
    """In a row."""
    failing_since_at: datetime | None
    resumes_at: datetime | None
    """Not called before, because it asked for that or cannot be reached."""
    dropped: int
    """Messages that were not kept for it, because too many waited already."""
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message to one endpoint, and how that went so far."""

    id: int
    webhook_id: str
    event_id: str
    event: str
    status: str
    attempt: int
    created_at: datetime
    available_at: datetime
    finished_at: datetime | None
    http_status: int | None
    answer: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A delivery in the hands of who sends it."""

    id: int
    webhook_id: str
    event_id: str
    attempt: int
    form: str
    body: str
    url: str = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attempt of a delivery ended."""

    to_status: Literal["SENT", "WAITING", "FAILED"]
    http_status: int | None = None
    answer: str | None = None
    error: str | None = None
    delay_s: float = 0.0
    pause_s: float | None = None
    """For so long nothing else is sent to the endpoint; None: it may be called."""
    is_gone: bool = False
    """The endpoint says that it will never take anything again."""


@dataclass(frozen=True, slots=True)
class News:
    """Something that happened, before anybody is told."""

    id: str
    event: str
    happened_at: datetime
    data: Mapping[str, Any]


def check_events(events: Sequence[str]) -> tuple[str, ...]:
    """The events that an endpoint wants, each once; all if none is named."""
    wanted = tuple(dict.fromkeys(events)) or (EVERY,)
    if unknown := set(wanted) - {EVERY, *EVENTS}:
        raise InvalidInput(f"{min(unknown)[:80]!r} is no event; there are: {EVERY}, {', '.join(EVENTS)}")
    return wanted


def check_form(form: str) -> Form:
    """How messages are written for an endpoint."""
    for known in FORMS:
        if form == known:
            return known
    raise InvalidInput(f"{form[:80]!r} is no form; there are: {', '.join(FORMS)}")


def wants(events: Sequence[str], event: str) -> bool:
    """Whether who wants these is told of this."""
    return EVERY in events or event in events


def news_id(*parts: object) -> str:
    """The same id for the same thing, whoever tells of it and how often; nowhere else is there the same."""
    return f"msg_{digest(':'.join(map(str, parts)))[:32]}"


def body_of(form: str, news: News) -> str:
    """The body of a message as this kind of receiver reads it."""
    if form == "slack":
        return _dump({"text": _for_slack(text_of(news))})
    if form == "discord":
        return _dump({"content": text_of(news), "allowed_mentions": {"parse": []}})
    return _dump({"type": news.event, "timestamp": news.happened_at.isoformat(), "data": dict(news.data)})


def text_of(news: News) -> str:
    """The news in a line for people."""
    told = ", ".join(f"{name} {value}" for name, value in news.data.items() if value not in (None, "", 0))
    text = " ".join(f"Takeup: {news.event.replace('_', ' ')}: {told}".split())
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"


def clipped(value: Any) -> Any:
    """A value of the data of news in a length that every receiver takes."""
    is_long = isinstance(value, str) and len(value) > VALUE_CHARS_MAX
    return value[: VALUE_CHARS_MAX - 1] + "…" if is_long else value


def _for_slack(text: str) -> str:
    """Without what Slack would take for links and calls to people."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _dump(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
