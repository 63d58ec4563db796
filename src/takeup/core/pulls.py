"""Pulls as values: files that the server fetches from an address, and how far each is."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from takeup.core.videos import UPLOAD, VIDEO, About

PULL = "pul_"
PullStatus = Literal["WAITING", "RUNNING", "DONE", "FAILED", "CANCELLED"]
PULL_STATUSES: tuple[PullStatus, ...] = get_args(PullStatus)


@dataclass(frozen=True, slots=True)
class Pull:
    """A file that is fetched; what is there of it lies in the file of the upload that it fills."""

    id: str
    user_id: str
    url: str
    about: About
    status: PullStatus
    attempt: int
    """How often it was begun; who holds it writes under this number, and nobody under an earlier one."""
    failures: int
    """How often in a row nothing more came."""
    received_bytes: int
    length_bytes: int | None
    validator: str
    """What says that the file at the address is still the same: an ETag, or a date."""
    error: str | None
    created_at: datetime
    available_at: datetime
    finished_at: datetime | None

    @property
    def upload_id(self) -> str:
        """The upload that it fills: known before, so that nothing is fetched into two places."""
        return upload_for(self.id)

    @property
    def video_id(self) -> str:
        """The video that it becomes."""
        return VIDEO + self.id.removeprefix(PULL)

    @property
    def is_over(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in ("DONE", "FAILED", "CANCELLED")


def upload_for(pull_id: str) -> str:
    """The upload that a pull fills."""
    return UPLOAD + pull_id.removeprefix(PULL)


def pull_for(upload_id: str) -> str:
    """The pull that fills an upload, if it is one that is pulled."""
    return PULL + upload_id.removeprefix(UPLOAD)


class Beat(NamedTuple):
    """How far a pull is that goes on."""

    received_bytes: int
    length_bytes: int | None
    validator: str


class PullEnd(NamedTuple):
    """How an attempt to fetch ended; WAITING: again after a while."""

    to_status: PullStatus
    error: str | None = None
    failures: int = 0
    delay_s: float = 0.0
