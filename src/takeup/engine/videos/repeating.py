"""Files that are sent under a key: sent again they are answered the same, and lie here once."""

import hashlib
from collections.abc import AsyncIterator

from takeup.core.errors import IdempotencyMismatch, NotFound
from takeup.core.repeats import Asked
from takeup.core.videos import About, Upload, Video
from takeup.engine.videos.intake import Intake
from takeup.store.videos import UploadStore, VideoStore


class Repeats:
    """The way into the intake for calls that may come twice."""

    def __init__(self, intake: Intake, videos: VideoStore, uploads: UploadStore) -> None:
        """What comes for the first time goes to `intake`."""
        self._intake = intake
        self._videos = videos
        self._uploads = uploads

    async def begin(self, asked: Asked, user_id: str, length: int, about: About) -> Upload | Video:
        """The upload of this key, begun now or before; or the video that it has become."""
        made = await self._videos.asked(asked)
        if made is not None:
            return made
        try:
            known = await self._uploads.find(asked.upload_id, user_id)
        except NotFound:
            await self._intake.forget(asked.upload_id)  # nobody went on with it for too long
            return await self._intake.begin(user_id, length, about, asked=asked)
        asked.check(known.request_hash, known.id)
        return known

    async def take(
        self, asked: Asked, user_id: str, length: int | None, about: About, body: AsyncIterator[bytes]
    ) -> Video:
        """The video of this key; of a file that came before, the body is only compared with it."""
        made = await self._videos.asked(asked) or await self._left(asked)
        if made is None:
            return await self._intake.take(user_id, length, about, body, asked=asked)
        await _compare(made, length, about, body)
        return made

    async def _left(self, asked: Asked) -> Video | None:
        """What another request left behind: a whole file becomes a video, any other is received anew."""
        left = await self._uploads.look(asked.upload_id)
        if left is None:
            return None
        asked.check(left.request_hash, left.id)
        if self._intake.size(left) == left.length_bytes and (made := await self._intake.adopt(left)):
            return made
        await self._intake.end(left)
        return None


async def _compare(made: Video, length: int | None, about: About, body: AsyncIterator[bytes]) -> None:
    """Refuse another file; nothing of it is written."""
    wrong = IdempotencyMismatch(f"the key was used for {made.id} with another file")
    if length not in (None, made.size_bytes) or about.sha256 not in (None, made.sha256):
        raise wrong
    check, size = hashlib.sha256(), 0
    async for chunk in body:
        size += len(chunk)
        if size > made.size_bytes:
            raise wrong
        check.update(chunk)
    if check.hexdigest() != made.sha256:
        raise wrong
