"""Where the files of videos lie: under our own ids alone, whatever they were called."""

import re
from collections.abc import Iterator
from pathlib import Path

from takeup.core.errors import NotFound
from takeup.core.videos import UPLOAD, VIDEO

UPLOADS, VIDEOS = "uploads", "videos"
PART, SOURCE = ".part", ".source"
DIGITS = r"[0-9a-f]{24}\Z"
UPLOAD_ID, VIDEO_ID = re.compile(UPLOAD + DIGITS), re.compile(VIDEO + DIGITS)


class Places:
    """The folders of one media directory; servers on one database have the same.

    uploads/upl_….part     a file that is being received
    uploads/vid_….source   a file that became a video
    videos/vid_…/          its stream: versions, and the link to the one that is served
    """

    def __init__(self, media: Path) -> None:
        """The folders need not be there yet."""
        self.uploads = media.resolve() / UPLOADS
        self.videos = media.resolve() / VIDEOS

    def part(self, upload_id: str) -> Path:
        """Where the file of this upload grows."""
        return self.uploads / (_checked(UPLOAD_ID, upload_id) + PART)

    def source(self, video_id: str) -> Path:
        """Where the file of this video is."""
        return self.uploads / (_checked(VIDEO_ID, video_id) + SOURCE)

    def stream(self, video_id: str) -> Path:
        """Where its stream is published."""
        return self.videos / _checked(VIDEO_ID, video_id)

    def parts(self) -> Iterator[tuple[str, Path]]:
        """Every file that is being received, with the id of its upload."""
        return _files(self.uploads, PART, UPLOAD_ID)

    def sources(self) -> Iterator[tuple[str, Path]]:
        """Every file of a video, with its id."""
        return _files(self.uploads, SOURCE, VIDEO_ID)

    def streams(self) -> Iterator[tuple[str, Path]]:
        """Every folder of a stream, with the id of its video."""
        return _files(self.videos, "", VIDEO_ID)


def _checked(form: re.Pattern[str], name: str) -> str:
    if not form.match(name):
        raise NotFound(f"{name[:80]!r} is no such id")
    return name


def _files(folder: Path, ending: str, form: re.Pattern[str]) -> Iterator[tuple[str, Path]]:
    """What has the name of one of our files; everything else in the folder is not ours."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        name = path.name.removesuffix(ending)
        if path.name.endswith(ending) and form.match(name):
            yield name, path
