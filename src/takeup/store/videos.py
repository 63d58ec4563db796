"""The facades of videos and uploads: what people do to them, and what is noted of their files."""

import secrets
from collections.abc import Callable, Sequence

from takeup.core.ids import RandomBytes, new_id
from takeup.core.plan import NewJob, plan_job
from takeup.core.repeats import Asked
from takeup.core.videos import UPLOAD, About, NewVideo, Served, ServedQuality, Upload, Video
from takeup.store.drivers import Driver
from takeup.store.ops import uploads, videos


class VideoStore:
    """Videos: added with their job, made again, retitled, deleted, listed."""

    def __init__(self, driver: Driver, random: RandomBytes = secrets.token_bytes) -> None:
        """`random` makes the ids of jobs."""
        self._driver = driver
        self._random = random

    async def add(self, new: NewVideo, job: NewJob, *, hint: str = "") -> Video:
        """Write a video whose file is in its place, and the job that makes its stream."""
        job_id = new_id("job", self._random)
        return await self._driver.run(videos.add, new, job_id, plan_job(job), hint)

    async def again(
        self, video_id: str, make: Callable[[str], NewJob], *, rungs: Sequence[str] = (), hint: str = ""
    ) -> str:
        """Make its stream once more; `make` is the job for its profile. Answers with the job's id."""
        job_id = new_id("job", self._random)
        return await self._driver.run(
            videos.again, video_id, job_id, lambda profile: plan_job(make(profile)), rungs, hint
        )

    async def find(self, video_id: str) -> Video:
        """One video."""
        return await self._driver.read(videos.find, video_id)

    async def asked(self, what: Asked) -> Video | None:
        """The video that a call with this key made, also if it was deleted since."""
        return await self._driver.read(videos.asked, what)

    async def by_slug(self, slug: str) -> str | None:
        """The id of the video that has this slug."""
        return await self._driver.read(videos.by_slug, slug)

    async def page(
        self, *, status: str | None = None, before: Video | None = None, limit: int = 100
    ) -> list[Video]:
        """A page of videos, newest first."""
        return await self._driver.read(videos.page, status, before, limit)

    async def qualities(self, video_id: str) -> list[ServedQuality]:
        """The rungs that are served."""
        return await self._driver.read(videos.qualities, video_id)

    async def retitle(self, video_id: str, title: str, *, version: int | None = None) -> Video:
        """Give it another title."""
        return await self._driver.run(videos.retitle, video_id, title, version)

    async def delete(self, video_id: str) -> bool:
        """Serve it no more; whether it was there until now."""
        return await self._driver.run(videos.delete, video_id)

    async def note_served(self, video_id: str, served: Served) -> None:
        """Write down what is served now."""
        await self._driver.run(videos.note_served, video_id, served)

    async def kept(self, video_ids: Sequence[str]) -> list[videos.Kept]:
        """What decides about the files of these videos."""
        return await self._driver.read(videos.kept, video_ids)


class UploadStore:
    """Uploads: begun within a quota, gone on with, ended."""

    def __init__(self, driver: Driver, random: RandomBytes = secrets.token_bytes) -> None:
        """`random` makes the ids."""
        self._driver = driver
        self._random = random

    async def begin(
        self,
        user_id: str,
        length: int | None,
        about: About,
        *,
        life_s: float,
        allowance: uploads.Allowance,
        upload_id: str | None = None,
        asked: Asked | None = None,
    ) -> Upload:
        """Note an upload before its file comes, under a new id if none is named."""
        upload_id = asked.upload_id if asked else upload_id or new_id(UPLOAD.rstrip("_"), self._random)
        return await self._driver.run(
            uploads.begin, upload_id, user_id, length, about, life_s, allowance, asked
        )

    async def find(self, upload_id: str, user_id: str) -> Upload:
        """An upload of this caller."""
        return await self._driver.read(uploads.find, upload_id, user_id)

    async def look(self, upload_id: str) -> Upload | None:
        """An upload as it is now."""
        return await self._driver.read(uploads.look, upload_id)

    async def extend(self, upload_id: str, life_s: float) -> None:
        """Wait on for it."""
        await self._driver.run(uploads.extend, upload_id, life_s)

    async def drop(self, upload_id: str, *, state: str = "open") -> bool:
        """Forget it; whether it was there, and in this state."""
        return await self._driver.run(uploads.drop, upload_id, state)

    async def page(self, *, after: str = "", limit: int = uploads.BATCH_MAX) -> list[Upload]:
        """A page of those that are not over."""
        return await self._driver.read(uploads.page, after, limit)

    async def expired(self, *, limit: int = uploads.BATCH_MAX) -> list[Upload]:
        """Those that are not waited for any more."""
        return await self._driver.read(uploads.expired, limit)

    async def known(self, upload_ids: Sequence[str]) -> set[str]:
        """Which of these are not over."""
        return await self._driver.read(uploads.known, upload_ids)
