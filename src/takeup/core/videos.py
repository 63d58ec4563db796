"""Videos and uploads as values; how a title becomes a part of an address, and a stranger's name a label."""

import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from takeup.core.errors import Conflict, InvalidInput

VideoStatus = Literal["pending", "processing", "ready", "failed"]
STATUSES: tuple[VideoStatus, ...] = ("pending", "processing", "ready", "failed")
UploadState = Literal["open", "done"]

SUBJECT = "video:"
VIDEO, UPLOAD = "vid_", "upl_"
SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,98}[a-z0-9]\Z")
SLUG_CHARS, SLUG_CHARS_MIN = 60, 2
"""A slug made from a title is cut there, which leaves room for a number."""
DEVICES = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)))
)
"""Names that some systems keep for themselves, with whatever behind them."""
NUMBERED_MAX = 20
LABEL_CHARS_MAX = 200
UNTITLED = "Untitled"


class SlugTaken(Conflict):
    """Another video has this slug, or had it."""

    help = "Choose another slug, or leave it out and get one that is made from the title."


@dataclass(frozen=True, slots=True)
class Video:
    """A video as it is now; its status is what its newest job and what is served say."""

    id: str
    slug: str
    title: str
    user_id: str
    file_name: str
    profile: str
    size_bytes: int
    sha256: str
    status: VideoStatus
    error: str | None
    """Why its newest job failed, also where an earlier version is served."""
    duration_s: float | None
    served_version: int | None
    job_id: str | None
    version: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None


@dataclass(frozen=True, slots=True)
class ServedQuality:
    """One rung of what is served; rates are in bits a second."""

    name: str
    codec: str
    width: int | None
    height: int | None
    size_bytes: int
    mean_rate: int
    peak_rate: int


class Served(NamedTuple):
    """What is served of a video."""

    version: int
    duration_s: float
    qualities: tuple[ServedQuality, ...]


class About(NamedTuple):
    """What was said of a file before it came."""

    title: str
    file_name: str = ""
    profile: str = "web-h264"
    slug: str | None = None
    sha256: str | None = None
    """What the whole file must have."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that is being received; how much is there, the file itself says."""

    id: str
    user_id: str
    length_bytes: int | None
    """None if nobody said how long it will be."""
    about: About
    state: UploadState
    created_at: datetime
    expires_at: datetime
    request_hash: str | None = None
    """Of what was asked for, if the call had a key."""

    @property
    def video_id(self) -> str:
        """The video that it becomes."""
        return video_id_of(self.id)


class NewVideo(NamedTuple):
    """A video whose file is in its place."""

    id: str
    upload_id: str
    user_id: str
    about: About
    size_bytes: int
    sha256: str


def subject_of(video_id: str) -> str:
    """What the jobs of a video are about."""
    return SUBJECT + video_id


def video_of(subject: str | None) -> str | None:
    """The video that a job is about, if it is one."""
    return subject.removeprefix(SUBJECT) if subject and subject.startswith(SUBJECT) else None


def video_id_of(upload_id: str) -> str:
    """The video that an upload becomes: known before, so that nothing of it can be made twice."""
    return VIDEO + upload_id.removeprefix(UPLOAD)


def upload_of(video_id: str) -> str:
    """The upload that became this video."""
    return UPLOAD + video_id.removeprefix(VIDEO)


def label(text: str, most: int = LABEL_CHARS_MAX) -> str:
    """A text of a stranger in one line, without what moves a cursor, hides or turns text."""
    head = text[: 4 * most]
    return " ".join("".join(c if c.isprintable() else " " for c in head).split())[:most]


def file_label(name: str) -> str:
    """The name of a file without its folders; it is shown, and never opened."""
    return label(re.split(r"[/\\]", name)[-1])


def title_of(title: str | None, file_name: str) -> str:
    """The title that was given, or one made from the name of the file."""
    return label(title or "") or label(file_name.rpartition(".")[0] or file_name) or UNTITLED


def check_slug(slug: str) -> str:
    """A slug that somebody chose, if it can be one."""
    if not SLUG.match(slug) or slug in DEVICES:
        raise InvalidInput(
            "a slug has 2 to 100 characters: a-z, 0-9, and - between them; and is no name of a device"
        )
    return slug


def slug_from(title: str) -> str:
    """The part of an address that a title makes."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:SLUG_CHARS].strip("-")
    return slug if len(slug) >= SLUG_CHARS_MIN and slug not in DEVICES else f"video-{slug}".strip("-")


def slugs_to_try(title: str, video_id: str) -> list[str]:
    """What this video may be called, best first; the last is nobody else's."""
    slug = slug_from(title)
    own = video_id.removeprefix(VIDEO)
    return [slug, *(f"{slug}-{number}" for number in range(2, NUMBERED_MAX)), f"{slug}-{own}"]
