"""Videos: each is written with the job that makes its stream; what is served is noted afterwards."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from datetime import UTC, datetime
from typing import NamedTuple

from takeup.core.errors import Conflict, InvalidInput, NotFound, SubjectBusy, VersionMismatch
from takeup.core.plan import YEARS, JobPlan
from takeup.core.pulls import pull_for
from takeup.core.repeats import Asked
from takeup.core.videos import NewVideo, Served, ServedQuality, SlugTaken, Video, slugs_to_try, subject_of
from takeup.store.op import Op, Row, Together, query
from takeup.store.ops.operate import cancel
from takeup.store.ops.read import page_size
from takeup.store.ops.submit import submit

ADVICE = "`GET /api/videos` lists the videos there are."
BEHIND_ALL = datetime(YEARS[1], 1, 1, tzinfo=UTC)
CANCELLED = "the video was deleted"
GIVEN_UP = ("CANCELLED", "FAILED")
"""What became of a pull of which nothing is kept."""

MakePlan = Callable[[str], JobPlan]
"""The job of a video, for the profile it has."""


class UploadEnded(Conflict):
    """The file came whole, and was not wanted any more."""

    help = "Send it again as a new upload; nothing of it was kept."


class VideoGone(Conflict):
    """The job is one of a video that is served no more."""

    help = "Send the file again as a new video."


class Kept(NamedTuple):
    """What decides about the files of one video."""

    id: str
    served_version: int | None
    is_deleted: bool
    is_busy: bool


def add(new: NewVideo, job_id: str, plan: JobPlan, hint: str = "") -> Op[Video]:
    """Write a video and its job, and end its upload: all or nothing; what was written before is answered.

    Whoever ended the upload, or gave up its pull, before this commits has the last word.
    """
    yield Together()
    pulls = yield query("pull_for_change", id=pull_for(new.upload_id))
    was_open = yield query("end_upload", id=new.upload_id)
    known = yield query("video_state", id=new.id)
    if known:
        return video_from(known[0])
    if not was_open or (pulls and pulls[0]["status"] in GIVEN_UP):
        raise UploadEnded(f"{new.upload_id} was ended before its file became a video")
    yield query(
        "add_video",
        id=new.id,
        slug=(yield from _free_slug(new)),
        title=new.about.title,
        user_id=new.user_id,
        file_name=new.about.file_name,
        profile=new.about.profile,
        size_bytes=new.size_bytes,
        digest=new.sha256,
        upload_id=new.upload_id,
    )
    yield from submit([(job_id, plan)], hint=hint)
    return (yield from find(new.id))


def _free_slug(new: NewVideo) -> Op[str]:
    wanted = [new.about.slug] if new.about.slug else slugs_to_try(new.about.title, new.id)
    rows = yield query("slugs_taken", g=[(slug,) for slug in wanted])
    taken = {row["slug"] for row in rows}
    free = [slug for slug in wanted if slug not in taken]
    if not free:
        raise SlugTaken(f"the slug {wanted[0]!r} is taken")
    return free[0]


def find(video_id: str) -> Op[Video]:
    """One video that was not deleted."""
    rows = yield query("video_state", id=video_id)
    if not rows or rows[0]["deleted_at"] is not None:
        raise NotFound(f"no video has the id {video_id!r}", advice=ADVICE)
    return video_from(rows[0])


def asked(what: Asked) -> Op[Video | None]:
    """The video that a call with this key made, also if it was deleted since."""
    rows = yield query("video_request", id=what.video_id)
    if not rows:
        return None
    what.check(rows[0]["request_hash"], what.video_id)
    found = yield query("video_state", id=what.video_id)
    return video_from(found[0])


def by_slug(slug: str) -> Op[str | None]:
    """The id of the video with this slug, if it is there."""
    rows = yield query("video_by_slug", slug=slug)
    return rows[0]["id"] if rows else None


def page(status: str | None, before: Video | None, limit_count: int) -> Op[list[Video]]:
    """A page of videos, newest first; `before` is the last one of the page before."""
    place = {
        "before_id": before.id if before else "",
        "before_at": before.created_at if before else BEHIND_ALL,
        "limit_count": page_size(limit_count),
    }
    if status is None:
        ids = yield query("newest_videos", **place)
        rows = yield query("videos_shown", g=[(row["id"],) for row in ids])
    else:
        rows = yield query("videos_in_status", status=status, **place)
    return [video_from(row) for row in rows]


def retitle(video_id: str, title: str, version: int | None) -> Op[Video]:
    """Give a video another title, if a version is named only that one."""
    row = yield from _hold(video_id)
    if version is not None and row["version"] != version:
        raise VersionMismatch(f"video {video_id} has version {row['version']}, not {version}")
    yield query("retitle_video", id=video_id, title=title)
    return (yield from find(video_id))


def delete(video_id: str) -> Op[bool]:
    """Serve a video no more and cancel its job; whether it was there. Its files are removed later."""
    yield Together()
    if not (yield query("video_for_change", id=video_id)):
        if (yield query("video_state", id=video_id)):
            return False
        raise NotFound(f"no video has the id {video_id!r}", advice=ADVICE)
    yield query("delete_video", id=video_id)
    jobs = yield query("live_by_subject", s=[(subject_of(video_id),)])
    if jobs:
        yield from cancel([row["id"] for row in jobs], reason=CANCELLED)
    return True


def again(video_id: str, job_id: str, make_plan: MakePlan, rungs: Sequence[str], hint: str = "") -> Op[str]:
    """Make a stream once more, whole or some rungs of what is served; refused while it is being made."""
    row = yield from _hold(video_id)
    jobs = yield query("live_by_subject", s=[(subject_of(video_id),)])
    if jobs:
        raise SubjectBusy(f"video {video_id} is being made by job {jobs[0]['id']}")
    if rungs and row["served_version"] is None:
        raise InvalidInput(f"nothing of video {video_id} is served; make all of it: retranscode_all")
    known = [one.name for one in (yield from qualities(video_id))]
    if unknown := [name for name in rungs if known and name not in known]:
        raise InvalidInput(f"there is no quality {unknown[0]!r}; there are: {', '.join(known)}")
    (made,) = yield from submit([(job_id, make_plan(row["profile"]))], hint=hint)
    return made


def _hold(video_id: str) -> Op[Row]:
    yield Together()
    rows = yield query("video_for_change", id=video_id)
    if not rows:
        raise NotFound(f"no video has the id {video_id!r}", advice=ADVICE)
    return rows[0]


def check_wanted(video_ids: Iterable[str | None]) -> Op[None]:
    """Refuse to make streams of videos that were deleted; until the commit nobody deletes these."""
    for video_id in sorted(set(filter(None, video_ids))):
        is_there = yield query("video_for_change", id=video_id)
        if not is_there and (yield query("video_state", id=video_id)):
            raise VideoGone(f"video {video_id} was deleted; its job cannot be retried")


def qualities(video_id: str) -> Op[list[ServedQuality]]:
    """The rungs that are served."""
    rows = yield query("qualities_of_video", id=video_id)
    return [ServedQuality(**row) for row in rows]


def note_served(video_id: str, served: Served) -> Op[None]:
    """Write down what is served now."""
    yield Together()
    names = [(one.name,) for one in served.qualities]
    yield query("note_served", id=video_id, served_version=served.version, duration_s=served.duration_s)
    yield query("drop_other_qualities", id=video_id, g=names)
    if names:
        rows = [(video_id, position, *astuple(one)) for position, one in enumerate(served.qualities)]
        yield query("put_qualities", g=rows)


def kept(video_ids: Sequence[str]) -> Op[list[Kept]]:
    """What is known of the videos that have files; those that nobody knows are left out."""
    rows = yield query("videos_kept", g=[(video_id,) for video_id in video_ids])
    return [
        Kept(row["id"], row["served_version"], row["deleted_at"] is not None, bool(row["is_busy"]))
        for row in rows
    ]


def video_from(row: Row) -> Video:
    """A video from its row of the view."""
    deleted_at: datetime | None = row["deleted_at"]
    return Video(
        id=row["id"],
        slug=row["slug"],
        title=row["title"],
        user_id=row["user_id"],
        file_name=row["file_name"],
        profile=row["profile"],
        size_bytes=row["size_bytes"],
        sha256=row["sha256"],
        status=row["status"],
        error=row["error"],
        duration_s=row["duration_s"],
        served_version=row["served_version"],
        job_id=row["job_id"],
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        deleted_at=deleted_at,
    )
