"""Takes files in: counts them, receives them, looks into them, and makes each a video with its job."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from takeup.artifacts.files import hash_file
from takeup.artifacts.hashing import beside
from takeup.child.guard import GIB
from takeup.config import Settings
from takeup.core.errors import NotFound, TakeupError
from takeup.core.plan import NewJob
from takeup.core.points import point
from takeup.core.repeats import Asked
from takeup.core.videos import About, NewVideo, Upload, Video, subject_of, video_id_of
from takeup.dispatch.bell import Bell
from takeup.engine.videos.errors import (
    CannotProbe,
    Checksum,
    NoRoom,
    SourceGone,
    TooLarge,
    UploadBusy,
    WrongOffset,
)
from takeup.engine.videos.holding import LATE, growing, held
from takeup.engine.videos.places import Places
from takeup.engine.videos.receiving import Digest, Part, receive, to_its_end, undisturbed
from takeup.media.errors import MediaError, NotMedia, NoTools, ToolCrashed, ToolFailed
from takeup.media.probe import probe
from takeup.media.source import look_at
from takeup.media.tools import tools_of
from takeup.pipelines.transcode import transcode
from takeup.store.ops.uploads import BATCH_MAX, Allowance
from takeup.store.ops.videos import UploadEnded
from takeup.store.videos import UploadStore, VideoStore
from takeup.telemetry.logs import logger

LOOKS_MAX = 2
"""So many files are looked into at a time."""
SENT_AT_ONCE_S = 3600.0
"""How long a file is kept that cannot be gone on with, should we die while it comes."""
FAULTS_FROM = 500
CHANGES = "work"

Look = Callable[[Path], Awaitable[object]]
"""Whether a file is media; raises if it is not."""

log = logger("videos")


class Limits(NamedTuple):
    """How much is taken."""

    bytes_max: int
    life_s: float
    quota_count: int
    quota_bytes: int
    reserve_bytes: int

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        """As the settings say."""
        return cls(
            bytes_max=int(settings.upload_max_gb * GIB),
            life_s=settings.upload_expiry_hours * 3600,
            quota_count=settings.upload_quota_count,
            quota_bytes=int(settings.upload_quota_gb * GIB),
            reserve_bytes=settings.disk_reserve_mb << 20,
        )

    @property
    def allowance(self) -> Allowance:
        """What one caller may send at a time."""
        return Allowance(self.quota_count, self.quota_bytes, self.bytes_max)


def look_with(settings: Settings) -> Look:
    """Looks into files with the tools of this machine."""

    async def look(path: Path) -> None:
        await probe(tools_of(settings), look_at(path))

    return look


class Intake:
    """The way of a file from a request to a video."""

    def __init__(
        self,
        videos: VideoStore,
        uploads: UploadStore,
        bell: Bell,
        places: Places,
        limits: Limits,
        look: Look,
    ) -> None:
        """`look` looks into a file, in the sandbox."""
        self.limits = limits
        self.places = places
        self._videos = videos
        self._uploads = uploads
        self._bell = bell
        self._look = look
        self._looking = asyncio.Semaphore(LOOKS_MAX)

    async def begin(
        self,
        user_id: str,
        length: int | None,
        about: About,
        *,
        life_s: float | None = None,
        upload_id: str | None = None,
        asked: Asked | None = None,
    ) -> Upload:
        """Note a file that is to come, if there is room for it beside all others that are coming."""
        await self._check_size(length)
        upload = await self._uploads.begin(
            user_id,
            length,
            about,
            life_s=life_s or self.limits.life_s,
            allowance=self.limits.allowance,
            upload_id=upload_id,
            asked=asked,
        )
        try:
            await self._check_room()
        except BaseException:
            await self._uploads.drop(upload.id)
            raise
        return upload

    async def _check_size(self, length: int | None) -> None:
        """Refuse what could not be taken even if nothing else was coming."""
        limits = self.limits
        if length == 0:
            raise NotMedia("the file is empty")
        if length is not None and length > limits.bytes_max:
            raise TooLarge(f"a file has at most {limits.bytes_max} bytes here")
        if (length or limits.bytes_max) > limits.quota_bytes:
            counted = "" if length else f"; without its length this one counts {limits.bytes_max}"
            raise TooLarge(
                f"at most {limits.quota_bytes} bytes are taken at a time (upload_quota_gb){counted}",
                advice="Send a smaller file, say how long it is, or raise `upload_quota_gb`.",
            )
        total = await asyncio.to_thread(self._total_bytes)
        if length is not None and length + limits.reserve_bytes > total:
            raise TooLarge(
                f"with the reserve this file does not fit on the whole disk, which has {total} bytes",
                advice="Send a smaller file, or give the data directory a larger disk.",
            )

    def _total_bytes(self) -> int:
        self.places.uploads.mkdir(parents=True, exist_ok=True)
        return shutil.disk_usage(self.places.uploads).total

    async def _check_room(self) -> None:
        """Room for everything that is coming, and the reserve; who was noted together is refused together."""
        coming, after = 0, ""
        while True:
            page = await self._uploads.page(after=after)
            coming += await asyncio.to_thread(self._coming_bytes, page)
            if len(page) < BATCH_MAX:
                break
            after = page[-1].id
        free = await asyncio.to_thread(self._free_bytes)
        if free < coming + self.limits.reserve_bytes:
            raise NoRoom("there is not enough room for this file and those that are being sent")

    def _coming_bytes(self, uploads: Sequence[Upload]) -> int:
        return sum(max((one.length_bytes or 0) - self.size(one), 0) for one in uploads)

    def _free_bytes(self) -> int:
        self.places.uploads.mkdir(parents=True, exist_ok=True)
        return shutil.disk_usage(self.places.uploads).free

    def size(self, upload: Upload) -> int:
        """How much of a file is there."""
        for path in (self.places.source(upload.video_id), self.places.part(upload.id)):
            try:
                return path.stat().st_size
            except FileNotFoundError:
                continue
        return 0

    async def take(
        self,
        user_id: str,
        length: int | None,
        about: About,
        body: AsyncIterator[bytes],
        *,
        upload_id: str | None = None,
        asked: Asked | None = None,
    ) -> Video:
        """A whole file at once; nothing of it stays if it is not taken."""
        upload = await self.begin(
            user_id, length, about, life_s=SENT_AT_ONCE_S, upload_id=upload_id, asked=asked
        )
        point("intake.after begin")
        with growing(self.places, upload.id) as part:
            await self._check_still_open(upload, part)
            try:
                await self._receive(part, body, offset=0, size_max=length or self.limits.bytes_max)
            except BaseException:
                await self._drop(upload.id, part)
                raise
            return await self._finish(upload, part)

    async def go_on(
        self,
        upload: Upload,
        offset: int,
        body: AsyncIterator[bytes],
        *,
        coming_bytes: int = 0,
        digest: Digest | None = None,
    ) -> tuple[int, Video | None]:
        """The next part of a file; where it ends then, and the video if that was the last."""
        length = upload.length_bytes or self.limits.bytes_max
        self._check_open(upload)
        with growing(self.places, upload.id) as part:
            await self._check_still_open(upload, part)
            if part.size != offset:
                raise WrongOffset(f"{part.size} bytes are there, not {offset}")
            await self._uploads.extend(upload.id, self.limits.life_s)
            size = await self._receive(
                part, body, offset=offset, size_max=length, coming_bytes=coming_bytes, digest=digest
            )
            return size, await self._finish(upload, part) if size == upload.length_bytes else None

    async def _check_still_open(self, upload: Upload, part: Part) -> None:
        """Refuse a file that another request finished or removed before we had it."""
        now = await self._uploads.look(upload.id)
        if now is None or now.state != "open":
            part.remove()  # we made it, after that request
            raise UploadBusy(LATE)

    def _check_open(self, upload: Upload) -> None:
        """Refuse to go on with a file that is whole."""
        if upload.state != "open" or self.places.source(upload.video_id).exists():
            raise WrongOffset(f"all {upload.length_bytes} bytes are there")

    async def _receive(
        self,
        part: Part,
        body: AsyncIterator[bytes],
        *,
        offset: int,
        size_max: int,
        coming_bytes: int = 0,
        digest: Digest | None = None,
    ) -> int:
        return await receive(
            part,
            body,
            offset=offset,
            size_max=size_max,
            reserve_bytes=self.limits.reserve_bytes,
            coming_bytes=coming_bytes,
            digest=digest,
        )

    async def known(self, upload_id: str) -> Upload | None:
        """An upload as it is now, if there is one."""
        return await self._uploads.look(upload_id)

    async def is_taken(self, video_id: str) -> bool:
        """Whether this is a video, or was one."""
        return bool(await self._videos.kept([video_id]))

    async def _drop(self, upload_id: str, part: Part) -> None:
        """Forget an upload and what is there of it: its file, which we hold, unless it is that of a video."""

        async def drop() -> None:
            await self._uploads.drop(upload_id)
            point("intake.after drop")
            if not await self.is_taken(video_id_of(upload_id)):
                part.remove()

        await to_its_end(drop())

    async def forget(self, upload_id: str) -> None:
        """Drop what is left of an upload that broke off, if there is one."""
        upload = await self._uploads.look(upload_id)
        if upload is not None:
            await self.end(upload)

    async def end(self, upload: Upload) -> None:
        """Forget an upload that nobody is sending, as it was seen; the video that it became stays."""
        if upload.state != "open":
            return
        try:
            with held(self.places, upload.id) as part:
                now = await self._uploads.look(upload.id)
                if now is not None and now.state == "open" and now.expires_at != upload.expires_at:
                    raise UploadBusy("this file was gone on with just now")
                await self._drop(upload.id, part)
        except NotFound:
            await self._uploads.drop(upload.id)

    async def adopt(self, upload: Upload) -> Video | None:
        """Make a video of a file that is there, and whose end nobody has seen."""
        try:
            with held(self.places, upload.id) as part:
                now = await self._uploads.look(upload.id)
                if now is None or now.state != "open" or part.size != now.length_bytes:
                    return None
                return await self._finish(now, part)
        except (UploadBusy, NotFound):
            return None

    async def _finish(self, upload: Upload, part: Part) -> Video:
        """Look into a file, put it in its place, write the video; what is refused leaves nothing behind."""
        point("intake.after receive")
        try:
            source = self.places.source(upload.video_id)
            if part.path != source:
                await self._inspect(part.path)
            sha256, size = await beside(hash_file, part.path)
            if upload.about.sha256 not in (None, sha256):
                raise Checksum("the SHA-256 of the file is another one")
            if part.path != source:
                await undisturbed(part.rename, source)
                point("intake.after rename")
            new = NewVideo(upload.video_id, upload.id, upload.user_id, upload.about, size, sha256)
            video = await self._videos.add(
                new, self.job(new.id, new.about.profile, new.about.title, user_id=new.user_id)
            )
        except UploadEnded as error:
            await self._drop(upload.id, part)
            raise UploadBusy(str(error), advice=error.help) from error
        except TakeupError as error:
            if error.http_status < FAULTS_FROM:
                await self._drop(upload.id, part)
            raise
        point("intake.after add")
        self._bell.ring(CHANGES)
        log.info("a video came", video=video.id, bytes=size)
        return video

    async def _inspect(self, path: Path) -> None:
        """Refuse what is no media, whatever its name says."""
        async with self._looking:
            try:
                await self._look(path)
            except MediaError as error:
                kind = NotMedia if type(error) is MediaError else type(error)
                raise kind(str(error).replace(str(path), "the file")) from error
            except ToolCrashed as error:
                raise NotMedia("a tool crashed while it looked into the file") from error
            except (ToolFailed, NoTools, OSError) as error:
                log.warning("a file could not be looked into", error=str(error))
                raise CannotProbe("the file could not be looked into") from error

    def job(
        self, video_id: str, profile: str, title: str, *, user_id: str, rungs: tuple[str, ...] = ()
    ) -> NewJob:
        """The job that makes a stream of a video, whole or some rungs of it anew."""
        spec: dict[str, object] = {
            "source": str(self.places.source(video_id)),
            "publish_to": str(self.places.stream(video_id)),
            "profile": profile,
            "title": title,
        }
        more = {"rungs": list(rungs)} if rungs else {}
        return NewJob(transcode, spec | more, subject=subject_of(video_id), user_id=user_id)

    async def again(self, video_id: str, *, user_id: str, rungs: tuple[str, ...] = ()) -> str:
        """Make a stream once more, while the one that is served stays; answers with the job's id."""
        video = await self._videos.find(video_id)
        if not await asyncio.to_thread(self.places.source(video_id).is_file):
            raise SourceGone(f"the file of video {video_id} is not there any more")

        def make(profile: str) -> NewJob:
            return self.job(video_id, profile, video.title, user_id=user_id, rungs=rungs)

        job_id = await self._videos.again(video_id, make, rungs=rungs)
        self._bell.ring(CHANGES)
        return job_id
