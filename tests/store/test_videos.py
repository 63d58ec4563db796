"""Videos on every database: their status cannot contradict their jobs, their slugs never lead elsewhere."""

import asyncio

import pytest

from takeup.core.errors import InvalidInput, NotFound, SubjectBusy, VersionMismatch
from takeup.core.model import Completion, Failure
from takeup.core.plan import NewJob
from takeup.core.videos import About, NewVideo, Served, ServedQuality, SlugTaken, Video, subject_of
from takeup.store.ops.uploads import Allowance, Quota
from takeup.store.ops.videos import UploadEnded, VideoGone
from takeup.store.store import Store
from tests.store.scenes import ONE, Clock, add_worker, claim_request

SHA = "0" * 64
HIGH = ServedQuality("720p", "avc1.64001f", 1280, 720, 1000, 800_000, 900_000)
LOW = ServedQuality("240p", "avc1.640015", 426, 240, 100, 80_000, 90_000)
FIRST, SECOND = Served(1, 4.0, (HIGH, LOW)), Served(2, 4.5, (LOW,))
LARGE, ROOMY = Allowance(3, 1000, 400), Allowance(100, 1000, 400)


def number(n: int) -> str:
    return f"{n:024x}"


def job_of(video_id: str) -> NewJob:
    return NewJob(ONE, {}, subject=subject_of(video_id), user_id="key:me")


async def add(store: Store, n: int = 1, title: str = "A film", slug: str | None = None) -> Video:
    about = About(title, "film.mp4", slug=slug)
    upload_id = f"upl_{number(n)}"
    if await store.uploads.look(upload_id) is None:
        await store.uploads.begin("key:me", 5, about, life_s=100.0, allowance=ROOMY, upload_id=upload_id)
    new = NewVideo(f"vid_{number(n)}", upload_id, "key:me", about, 5, SHA)
    return await store.videos.add(new, job_of(new.id))


async def again(store: Store, video: Video, *rungs: str) -> str:
    return await store.videos.again(video.id, lambda _: job_of(video.id), rungs=rungs)


async def claim(store: Store):
    (lease,) = await store.worker.claim(claim_request("w1"))
    return lease


async def complete(store: Store) -> None:
    await store.worker.complete("w1", [Completion((await claim(store)).held)])


async def fail(store: Store) -> None:
    await store.worker.fail("w1", [Failure((await claim(store)).held, "no luck", retryable=False)])


async def shown(store: Store, video: Video) -> tuple[str, str | None]:
    found = await store.videos.find(video.id)
    (listed,) = [one for one in await store.videos.page() if one.id == video.id]
    assert listed == found
    assert found in await store.videos.page(status=found.status)
    others = {"pending", "processing", "ready", "failed"} - {found.status}
    assert not [one for status in others for one in await store.videos.page(status=status) if one == found]
    return found.status, found.error


@pytest.fixture
async def video(store: Store) -> Video:
    await add_worker(store)
    return await add(store)


async def test_pending_processing_ready(store: Store, video: Video):
    assert (video.slug, video.status, video.error, video.version) == ("a-film", "pending", None, 1)
    assert await shown(store, video) == ("pending", None)
    lease = await claim(store)
    assert await shown(store, video) == ("processing", None)
    await store.worker.release("w1", [lease.held])
    assert await shown(store, video) == ("processing", None), "as the job says, which began"
    await complete(store)
    assert await shown(store, video) == ("ready", None), "at once, before anybody noted what is served"
    await store.videos.note_served(video.id, FIRST)
    found = await store.videos.find(video.id)
    assert (found.status, found.served_version, found.duration_s) == ("ready", 1, 4.0)
    assert await store.videos.qualities(video.id) == [HIGH, LOW]


async def test_what_failed_with_nothing_to_serve(store: Store, video: Video):
    await fail(store)
    status, error = await shown(store, video)
    assert status == "failed"
    assert "no luck" in str(error)
    await again(store, video)
    assert await shown(store, video) == ("pending", None), "X-17: a failed video can be made again"
    await store.operator.cancel([(await store.videos.find(video.id)).job_id or ""])
    assert await shown(store, video) == ("failed", "the job was cancelled")


async def test_made_again_the_old_version_stays(store: Store, video: Video):
    await complete(store)
    await store.videos.note_served(video.id, FIRST)
    job_id = await again(store, video, "720p")
    assert await shown(store, video) == ("ready", None), "B-134: while it is queued"
    assert (await store.videos.find(video.id)).job_id == job_id
    with pytest.raises(SubjectBusy, match=job_id):
        await again(store, video)
    lease = await claim(store)
    assert await shown(store, video) == ("processing", None)
    await store.worker.fail("w1", [Failure(lease.held, "no luck", retryable=False)])
    status, error = await shown(store, video)
    assert (status, "no luck" in str(error)) == ("ready", True)
    await again(store, video)
    await store.operator.cancel([(await store.videos.find(video.id)).job_id or ""])
    assert await shown(store, video) == ("ready", None)
    await again(store, video)
    await complete(store)
    await store.videos.note_served(video.id, SECOND)
    assert await store.videos.qualities(video.id) == [LOW]
    assert (await store.videos.find(video.id)).served_version == 2


async def test_the_archive_is_asked_too(every_store: Store, clock: Clock):
    store = every_store
    await add_worker(store)
    good, bad = await add(store, 1, "good"), await add(store, 2, "bad")
    await complete(store)
    await fail(store)
    clock.pass_s(10)
    assert len(await store.recovery.archive(1.0)) == 2
    assert await shown(store, good) == ("ready", None)
    status, error = await shown(store, bad)
    assert (status, "no luck" in str(error)) == ("failed", True)
    await again(store, bad)
    assert await shown(store, bad) == ("pending", None), "the newest counts"
    for served in (FIRST, SECOND, FIRST):
        await store.videos.note_served(good.id, served)
        assert await store.videos.qualities(good.id) == list(served.qualities)
    assert await store.videos.delete(bad.id)
    assert [one.id for one in await store.videos.page()] == [good.id]


async def test_some_qualities_must_be_served(store: Store, video: Video):
    await complete(store)
    with pytest.raises(InvalidInput, match="nothing of video"):
        await again(store, video, "720p")
    await store.videos.note_served(video.id, FIRST)
    with pytest.raises(InvalidInput, match="no quality '1p'; there are: 720p, 240p"):
        await again(store, video, "1p")


async def test_a_repeated_add_changes_nothing(store: Store, video: Video):
    assert await add(store) == video
    assert len(await store.read.jobs()) == 1


async def test_a_deleted_video_is_gone_with_its_job_and_keeps_its_slug(store: Store, video: Video):
    lease = await claim(store)
    assert await store.videos.by_slug(video.slug) == video.id
    assert await store.videos.delete(video.id)
    assert not await store.videos.delete(video.id)
    assert (await store.read.job(lease.job_id)).status == "cancelled"
    assert await store.videos.by_slug(video.slug) is None
    assert await store.videos.page() == []
    for refused in (
        store.videos.find(video.id),
        store.videos.retitle(video.id, "x"),
        again(store, video),
        store.videos.delete("vid_none"),
    ):
        with pytest.raises(NotFound):
            await refused
    (kept,) = await store.videos.kept([video.id, "vid_none"])
    assert (kept.is_deleted, kept.is_busy) == (True, False)
    assert (await add(store, 2)).slug == "a-film-2"
    with pytest.raises(SlugTaken):
        await add(store, 3, slug="a-film")
    assert len(await store.videos.page()) == 1, "nothing of what was refused is there"


async def test_slugs_are_numbered_and_then_all_ones_own(store: Store):
    slugs = [(await add(store, n)).slug for n in range(1, 23)]
    assert slugs[:2] == ["a-film", "a-film-2"]
    assert slugs[18] == "a-film-19"
    assert slugs[19:] == [f"a-film-{number(n)}" for n in (20, 21, 22)]


async def test_a_title_is_changed_by_one_at_a_time(store: Store, video: Video):
    changed = await store.videos.retitle(video.id, "Other", version=1)
    assert (changed.title, changed.version, changed.slug) == ("Other", 2, video.slug)
    with pytest.raises(VersionMismatch):
        await store.videos.retitle(video.id, "Late", version=1)


async def test_videos_come_in_pages_newest_first(store: Store, clock: Clock):
    made = []
    for n in range(1, 6):
        made.append((await add(store, n)).id)
        clock.pass_s(n % 2)
    seen: list[Video] = []
    while page := await store.videos.page(before=seen[-1] if seen else None, limit=2):
        seen += page
    assert [one.id for one in seen] == made[::-1]


async def test_many_at_once_get_slugs_of_their_own(store: Store):
    found = await asyncio.gather(*(add(store, n) for n in range(1, 9)))
    assert len({video.slug for video in found}) == 8


async def begin(store: Store, user: str = "key:me", length: int | None = 400, life_s: float = 100.0):
    return await store.uploads.begin(user, length, About("x"), life_s=life_s, allowance=LARGE)


async def test_s51_a_quota_of_files_and_of_bytes(every_store: Store, clock: Clock):
    store = every_store
    first = await begin(store)
    await begin(store, length=None)
    with pytest.raises(Quota, match="1200 bytes"):
        await begin(store)
    await begin(store, length=200)
    with pytest.raises(Quota, match="3 files"):
        await begin(store, length=1)
    await begin(store, user="key:other", length=1000)
    assert await store.uploads.drop(first.id)
    assert not await store.uploads.drop(first.id)
    await begin(store, length=300)
    clock.pass_s(101)
    assert [one.id for one in await store.uploads.page()] != []
    await begin(store, length=1000)


async def test_an_upload_is_its_owners_until_it_expires(store: Store, clock: Clock):
    made = await begin(store)
    assert await store.uploads.find(made.id, "key:me") == made
    with pytest.raises(NotFound):
        await store.uploads.find(made.id, "key:other")
    await store.uploads.extend(made.id, 100.0)
    assert await store.uploads.look(made.id) == made, "it has most of its life before it"
    clock.pass_s(60)
    await store.uploads.extend(made.id, 100.0)
    clock.pass_s(60)
    assert (await store.uploads.find(made.id, "key:me")).id == made.id
    assert await store.uploads.known([made.id, "upl_none"]) == {made.id}
    clock.pass_s(41)
    with pytest.raises(NotFound):
        await store.uploads.find(made.id, "key:me")
    assert [one.id for one in await store.uploads.expired()] == [made.id]


async def test_a_video_ends_its_upload(every_store: Store):
    made = await begin(every_store)
    new = NewVideo(made.video_id, made.id, "key:me", made.about, 400, SHA)
    await every_store.videos.add(new, job_of(new.id))
    found = await every_store.uploads.look(made.id)
    assert found
    assert found.state == "done"
    assert not await every_store.uploads.drop(made.id)
    assert await every_store.uploads.page() == []
    assert await every_store.uploads.drop(made.id, state="done")


async def test_without_an_open_upload_there_is_no_video(every_store: Store):
    made = await begin(every_store)
    new = NewVideo(made.video_id, made.id, "key:me", made.about, 400, SHA)
    assert await every_store.uploads.drop(made.id)
    with pytest.raises(UploadEnded):
        await every_store.videos.add(new, job_of(new.id))
    assert (await every_store.videos.page(), await every_store.read.jobs()) == ([], [])


async def test_whoever_commits_first_has_the_file(store: Store):
    for _ in range(10):
        made = await begin(store)
        new = NewVideo(made.video_id, made.id, "key:me", made.about, 400, SHA)
        added, was_dropped = await asyncio.gather(
            store.videos.add(new, job_of(new.id)), store.uploads.drop(made.id), return_exceptions=True
        )
        assert isinstance(added, UploadEnded if was_dropped is True else Video)
        assert bool(await store.videos.kept([new.id])) is not was_dropped


async def test_the_job_of_a_deleted_video_is_not_retried(every_store: Store):
    await add_worker(every_store)
    video = await add(every_store)
    await fail(every_store)
    (again_id,) = await every_store.operator.retry([video.job_id or ""])
    await fail(every_store)
    await every_store.videos.delete(video.id)
    with pytest.raises(VideoGone, match=video.id):
        await every_store.operator.retry([again_id])
    assert {job.status for job in await every_store.read.jobs()} == {"failed"}


async def test_retried_and_deleted_at_once_nothing_goes_on(store: Store):
    await add_worker(store)
    for n in range(1, 9):
        video = await add(store, n)
        await store.operator.cancel([video.job_id or ""])
        await asyncio.gather(
            store.operator.retry([video.job_id or ""]), store.videos.delete(video.id), return_exceptions=True
        )
    assert {job.status for job in await store.read.jobs()} == {"cancelled"}


async def test_two_that_begin_at_once_share_the_quota(store: Store):
    told = await asyncio.gather(*(begin(store) for _ in range(6)), return_exceptions=True)
    assert [type(one) for one in told].count(Quota) == 4
