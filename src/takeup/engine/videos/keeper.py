"""The loop that keeps rows and files of videos together: adopts, notes, and removes what nobody needs."""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from takeup.core.errors import NotFound, TakeupError
from takeup.core.points import point
from takeup.core.videos import Upload, upload_of, video_id_of
from takeup.engine.videos.errors import UploadBusy
from takeup.engine.videos.intake import Intake
from takeup.engine.videos.places import SOURCE
from takeup.engine.videos.receiving import opened
from takeup.engine.videos.shelf import Shelf
from takeup.store.ops.uploads import BATCH_MAX
from takeup.store.ops.videos import Kept
from takeup.store.videos import UploadStore, VideoStore
from takeup.telemetry.logs import logger

PART_AGE_S = 3600.0
FILE_AGE_S = 86_400.0
"""Files of videos that nobody knows are kept longer: another database may know them."""

UNKNOWN = "nobody knows it"

T = TypeVar("T")

log = logger("videos")


class VideoKeeper:
    """Goes through all files of videos; what becomes of each is what the database says."""

    name = "videos"

    def __init__(
        self,
        videos: VideoStore,
        uploads: UploadStore,
        intake: Intake,
        shelf: Shelf,
        *,
        period_s: float = 60.0,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`wall` is compared with the times of files."""
        self.period_s = period_s
        self._videos = videos
        self._uploads = uploads
        self._intake = intake
        self._shelf = shelf
        self._places = intake.places
        self._wall = wall

    async def run_once(self) -> bool:
        """One round over everything; True if more uploads are over than one round ends."""
        expired = await self._uploads.expired()
        for upload in expired:
            await self._carefully(upload, self._expire)
        await self._adopt()
        await self._sweep_parts()
        await self._keep_videos()
        return len(expired) == BATCH_MAX

    async def _carefully(self, upload: Upload, settle: Callable[[Upload], Awaitable[object]]) -> None:
        """One upload that cannot be handled must not keep the others from it."""
        try:
            await settle(upload)
        except UploadBusy:
            pass
        except (TakeupError, OSError) as error:
            log.warning("not settled", upload=upload.id, error=str(error))

    async def _expire(self, upload: Upload) -> None:
        if upload.state == "done":
            await self._uploads.drop(upload.id, state="done")
            return
        await self._intake.end(upload)
        log.info("an upload was given up", upload=upload.id)

    async def _adopt(self) -> None:
        """Finish what was whole when a process died."""
        after = ""
        while True:
            page = await self._uploads.page(after=after)
            for upload in page:
                if upload.length_bytes == self._intake.size(upload):
                    await self._carefully(upload, self._intake.adopt)
            if len(page) < BATCH_MAX:
                return
            after = page[-1].id

    async def _sweep_parts(self) -> None:
        parts = await asyncio.to_thread(lambda: list(self._places.parts()))
        for batch in _batches(parts):
            known = await self._uploads.known([upload_id for upload_id, _ in batch])
            for upload_id, path in batch:
                if upload_id not in known and self._is_old(path, PART_AGE_S):
                    await self._sweep(upload_id, path)

    async def _keep_videos(self) -> None:
        files = await asyncio.to_thread(lambda: dict(self._places.sources()))
        folders = await asyncio.to_thread(lambda: dict(self._places.streams()))
        for ids in _batches(sorted({*files, *folders})):
            rows = {row.id: row for row in await self._videos.kept(ids)}
            coming = await self._uploads.known([upload_of(video_id) for video_id in ids])
            for video_id in ids:
                if upload_of(video_id) not in coming:
                    paths = [found[video_id] for found in (files, folders) if video_id in found]
                    await self._keep(video_id, rows.get(video_id), paths)

    async def _keep(self, video_id: str, row: Kept | None, paths: Sequence[Path]) -> None:
        """Remove the files of a video that was deleted or is unknown; note what is served of any other."""
        if row is None:
            for path in [path for path in paths if self._is_old(path, FILE_AGE_S)]:
                if path.is_dir():
                    await self._remove([path], UNKNOWN)
                else:
                    await self._sweep(upload_of(video_id), path)
        elif row.is_deleted:
            await self._remove([] if row.is_busy else paths, "its video was deleted")
        elif self._shelf.current(video_id) not in (None, row.served_version):
            await self._shelf.note(video_id)

    async def _sweep(self, upload_id: str, path: Path) -> None:
        """Remove the file of an upload if nobody knows it, while nobody can begin to."""
        if _is_link(path):  # none of ours: nobody opens it
            await self._remove([path], UNKNOWN)
            return
        with suppress(UploadBusy, NotFound), opened(path) as part:
            if await self._uploads.known([upload_id]):
                return
            if path.suffix == SOURCE and await self._intake.is_taken(video_id_of(upload_id)):
                return
            part.remove()
            point("keeper.after remove")
            log.info("removed", file=path.name, why=UNKNOWN)

    async def _remove(self, paths: Sequence[Path], why: str) -> None:
        for path in paths:
            if path.is_dir():
                await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            point("keeper.after remove")
            log.info("removed", file=path.name, why=why)

    def _is_old(self, path: Path, age_s: float) -> bool:
        try:
            return self._wall() - path.stat().st_mtime > age_s
        except FileNotFoundError:
            return False


def _is_link(path: Path) -> bool:
    return path.is_symlink()


def _batches(found: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(found), BATCH_MAX):
        yield found[start : start + BATCH_MAX]
