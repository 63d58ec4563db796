"""The channels that people listen to live, by the names they call them."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast, get_args

from takeup.core.errors import InvalidInput

Kind = Literal["worker_status", "transcode_progress", "transcode_complete", "job", "pull"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CHANNELS_MAX = 32
"""So many at once one listener may name."""
VIDEO = "video:"
"""How the subject of a video's jobs begins."""
ID = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")
SHOWN_CHARS = 80
FORMS = "worker_status, job:ID, transcode_progress:VIDEO, transcode_complete:VIDEO, pull:ID"


class Channel(NamedTuple):
    """What is told of all workers, of one job, of one video, or of one file that is fetched."""

    kind: Kind
    id: str = ""

    @property
    def name(self) -> str:
        """As callers name it."""
        return f"{self.kind}:{self.id}" if self.id else self.kind

    @property
    def subject(self) -> str | None:
        """The subject whose jobs it tells of, if it is about a video."""
        return VIDEO + self.id if self.kind in ("transcode_progress", "transcode_complete") else None

    @property
    def job_id(self) -> str | None:
        """The job it tells of, if it names one."""
        return self.id if self.kind == "job" else None

    @property
    def pull_id(self) -> str | None:
        """The file that is fetched, if it tells of one."""
        return self.id if self.kind == "pull" else None


def parse_channel(name: str) -> Channel:
    """The channel of this name."""
    kind, colon, which = name.partition(":")
    is_whole = kind in KINDS and (kind == "worker_status") == (not colon)
    if not is_whole or (colon and not ID.match(which)):
        raise InvalidInput(f"there is no channel {name[:SHOWN_CHARS]!r}; there are: {FORMS}")
    return Channel(cast("Kind", kind), which)


def parse_channels(names: Sequence[str]) -> tuple[Channel, ...]:
    """These channels, each once."""
    if not 0 < len(names) <= CHANNELS_MAX:
        raise InvalidInput(f"one to {CHANNELS_MAX} channels can be listened to at once, not {len(names)}")
    return tuple(dict.fromkeys(map(parse_channel, names)))
