"""What is served of each video, as its folder says it: noted in its row, and taken back if somebody wants."""

import asyncio

from takeup.artifacts.versions import Versions
from takeup.core.errors import NotFound, TakeupError
from takeup.core.model import Message
from takeup.core.videos import Served, video_of
from takeup.engine.outbox import Deliver
from takeup.engine.videos.places import Places
from takeup.media.published import served
from takeup.store.store import ReadStore
from takeup.store.videos import VideoStore
from takeup.telemetry.logs import logger

OVER = ("job.completed", "job.failed", "job.cancelled")

log = logger("videos")


class Shelf:
    """The published streams of one data directory."""

    def __init__(self, videos: VideoStore, places: Places) -> None:
        """Streams lie where `places` says."""
        self._videos = videos
        self._places = places

    @property
    def has_streams(self) -> bool:
        """Whether anything was ever published here; where it was not, no job needs to be looked at."""
        return self._places.videos.is_dir()

    async def note(self, video_id: str) -> None:
        """Write down what is served of a video now; nothing, if nothing of it is here."""
        found = await asyncio.to_thread(self._read, video_id)
        if found is not None:
            await self._videos.note_served(video_id, found)

    def current(self, video_id: str) -> int | None:
        """The version that is served."""
        return Versions(self._places.stream(video_id)).current()

    def _read(self, video_id: str) -> Served | None:
        versions = Versions(self._places.stream(video_id))
        current = versions.current()
        if current is None:
            return None
        try:
            return served(versions.path(current), current)
        except (OSError, TakeupError) as error:
            log.warning("a stream cannot be described", video=video_id, error=str(error))
            return Served(current, 0.0, ())

    async def roll_back(self, video_id: str, to: int | None = None) -> int:
        """Serve an earlier version again: this one, or that which was served before."""
        await self._videos.find(video_id)
        version = await asyncio.to_thread(Versions(self._places.stream(video_id)).roll_back, to)
        await self.note(video_id)
        return version


def note_streams(shelf: Shelf, read: ReadStore) -> Deliver:
    """What carries out the message that a job is over: if it was about a video, what is served is noted.

    However it ended: it may have published before it failed.
    """

    async def deliver(message: Message) -> None:
        if not shelf.has_streams:
            return
        try:
            job = await read.job(message.subject)
        except NotFound:  # archived already; the keeper sees it
            return
        video_id = video_of(job.subject)
        if video_id is not None:
            await shelf.note(video_id)

    return deliver
