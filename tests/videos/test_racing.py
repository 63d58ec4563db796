"""Whatever is ended, expired, swept or cancelled meanwhile: a video that is there has its file."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pytest

from takeup.app import App, open_app
from takeup.core.points import arm
from takeup.core.videos import About, Upload, Video, upload_of, video_id_of
from takeup.engine.videos import pulling
from takeup.engine.videos.errors import UploadBusy
from takeup.engine.videos.keeper import FILE_AGE_S
from takeup.engine.videos.pulling import Puller
from tests.videos.conftest import BOTH
from tests.videos.origin import Origin, origin_of
from tests.videos.test_dying import sweep
from tests.videos.test_keeper import WAV, begin, body, keeper, left, take
from tests.videos.test_pulling import ask, look, puller, settled, soon

__all__ = ["puller", "soon"]

WITHIN_S = 30
ROUNDS = 12
STEPS = ("", "intake.after receive", "intake.after rename", "intake.after add")


@dataclass
class Pause:
    """Who comes here waits until the test lets him on."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    may_go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def stop(self) -> None:
        self.reached.set()
        await asyncio.wait_for(self.may_go_on.wait(), WITHIN_S)

    async def come(self) -> None:
        await asyncio.wait_for(self.reached.wait(), WITHIN_S)


@pytest.fixture
def renamed(app: App, monkeypatch: pytest.MonkeyPatch) -> Pause:
    """The file has its last name, and nobody has written the video yet."""
    pause, add = Pause(), app.store.videos.add

    async def later(*arguments: object, **more: object) -> Video:
        await pause.stop()
        return await add(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(app.store.videos, "add", later)
    return pause


@pytest.fixture
async def other(app: App) -> AsyncIterator[App]:
    """A second server on the same database and folder."""
    async with open_app(app.settings) as opened:
        yield opened


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with origin_of(WAV) as one:
        yield one


async def whole(app: App, video_id: str) -> None:
    """The one video is there, and so is its file, and nothing else."""
    (video,) = await app.store.videos.page()
    assert video.id == video_id
    assert left(app) == [f"{video_id}.source"]
    assert app.intake.places.source(video_id).read_bytes() == WAV
    assert await app.store.uploads.page() == []


async def nothing(app: App) -> None:
    assert (await app.store.videos.page(), await app.store.uploads.page(), left(app)) == ([], [], [])
    assert await app.store.read.jobs() == []


@BOTH
async def test_a_file_that_becomes_a_video_is_not_ended(app: App, other: App, renamed: Pause):
    upload = await begin(app, 0.001)
    app.intake.limits = app.intake.limits._replace(life_s=0.001)
    sending = asyncio.create_task(app.intake.go_on(upload, 0, body()))
    await renamed.come()
    assert left(app) == [f"{upload.video_id}.source"]
    for server in (app, other):
        with pytest.raises(UploadBusy):
            await server.intake.end(upload)
        with pytest.raises(UploadBusy):
            await server.intake.forget(upload.id)
        await sweep(server, 2 * FILE_AGE_S)
    renamed.may_go_on.set()
    size, video = await sending
    assert (size, video and video.id) == (len(WAV), upload.video_id)
    for server in (app, other):
        await server.intake.end(upload)
        await sweep(server, 2 * FILE_AGE_S)
    await whole(app, upload.video_id)


@BOTH
async def test_without_its_upload_a_file_becomes_no_video(app: App, renamed: Pause):
    sending = asyncio.create_task(take(app))
    await renamed.come()
    (upload,) = await app.store.uploads.page()
    assert await app.store.uploads.drop(upload.id)
    renamed.may_go_on.set()
    with pytest.raises(UploadBusy, match="ended"):
        await sending
    await nothing(app)


@BOTH
async def test_ended_before_its_file_is_there(app: App, other: App, monkeypatch: pytest.MonkeyPatch):
    pause, begin_one = Pause(), app.store.uploads.begin

    async def begun(*arguments: object, **more: object) -> Upload:
        made = await begin_one(*arguments, **more)  # type: ignore[arg-type]
        await pause.stop()
        return made

    monkeypatch.setattr(app.store.uploads, "begin", begun)
    sending = asyncio.create_task(take(app))
    await pause.come()
    (upload,) = await other.store.uploads.page()
    await other.intake.end(upload)
    pause.may_go_on.set()
    with pytest.raises(UploadBusy):
        await sending
    await nothing(app)


@BOTH
async def test_seen_before_it_had_its_name_and_ended_after(app: App, other: App):
    """Who ends it saw the upload open; by the time he holds the file it is one of a video."""
    upload = await begin(app)
    await app.intake.go_on(upload, 0, body())
    await other.intake.end(upload)
    await whole(app, upload.video_id)


@BOTH
async def test_gone_on_with_since_it_expired(app: App):
    upload = await begin(app, 0.001)
    async with asyncio.timeout(10):
        while not (found := await app.store.uploads.expired()):
            await asyncio.sleep(0.01)
    (expired,) = found
    await app.intake.go_on(upload, 0, body(WAV[:10]))
    with pytest.raises(UploadBusy):
        await app.intake.end(expired)
    assert left(app) == [f"{upload.id}.part"]


async def test_adopted_by_another_server_while_this_one_sweeps(
    app: App, other: App, monkeypatch: pytest.MonkeyPatch
):
    upload = await begin(app)
    app.intake.places.source(upload.video_id).write_bytes(WAV)
    kept, sweeper = app.store.videos.kept, keeper(app, later_s=2 * FILE_AGE_S)

    async def busy(_: Upload) -> None:
        raise UploadBusy("the other one has it")

    async def seen_before(video_ids: list[str]) -> object:
        seen = await kept(video_ids)
        await other.intake.adopt(upload)
        return seen

    monkeypatch.setattr(app.intake, "adopt", busy)
    monkeypatch.setattr(app.store.videos, "kept", seen_before)
    await sweeper.run_once()
    await whole(other, upload.video_id)


@BOTH
async def test_a_pull_that_is_cancelled_becomes_no_video(
    app: App, origin: Origin, renamed: Pause, puller: Callable[..., Puller], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pulling, "BEAT_S", WITHIN_S)  # who fetches it does not hear of it before
    pull, one = await ask(app, origin.url), puller()
    await one.run_once()
    await renamed.come()
    assert await app.store.pulls.cancel(pull.id, "key:me")
    with pytest.raises(UploadBusy):
        await app.intake.forget(upload_of(pull.video_id))
    renamed.may_go_on.set()
    async with asyncio.timeout(WITHIN_S):
        while left(app) or await app.store.uploads.page():
            await asyncio.sleep(0.01)
    await nothing(app)
    assert (await look(app, pull)).status == "CANCELLED"


@BOTH
async def test_a_pull_that_became_a_video_is_not_cancelled(
    app: App, origin: Origin, puller: Callable[..., Puller], monkeypatch: pytest.MonkeyPatch
):
    pause, end = Pause(), app.store.pulls.end

    async def ended(*arguments: object) -> bool:
        await pause.stop()
        return await end(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(app.store.pulls, "end", ended)
    pull, one = await ask(app, origin.url), puller()
    await one.run_once()
    await pause.come()
    assert not await app.store.pulls.cancel(pull.id, "key:me")
    pause.may_go_on.set()
    assert (await settled(app, one, pull)).status == "DONE"
    await whole(app, pull.video_id)


async def ended_again_and_again(server: App, upload_id: str, sending: asyncio.Task[object]) -> None:
    while not sending.done():
        with suppress(UploadBusy):
            await server.intake.forget(upload_id)
        await asyncio.sleep(0)


@contextmanager
def passed(name: str) -> Iterator[asyncio.Event]:
    """Set once somebody comes by this point."""
    event = asyncio.Event()
    before = arm(lambda reached: event.set() if reached == name else None)
    try:
        yield event
    finally:
        arm(before)


@BOTH
@pytest.mark.parametrize("way", ["in parts", "at once"])
async def test_two_servers_race(app: App, other: App, way: str):
    """One receives, the other ends it again and again: from the start, or from some step on."""
    came = 0
    for number in range(ROUNDS):
        upload_id, step = f"upl_{number:024x}", STEPS[number % len(STEPS)]
        sends: Coroutine[object, object, object]
        if way == "in parts":
            upload = await app.intake.begin("key:me", len(WAV), About("A film"), upload_id=upload_id)
            sends = app.intake.go_on(upload, 0, body())
        else:
            sends = app.intake.take("key:me", len(WAV), About("A film"), body(), upload_id=upload_id)
        with passed(step) as is_there:
            work = asyncio.create_task(sends)
            if step:
                await asyncio.wait_for(is_there.wait(), WITHIN_S)
            await ended_again_and_again(other, upload_id, work)
        error = work.exception()
        assert error is None or isinstance(error, UploadBusy), error
        videos = await app.store.videos.page()
        assert [one.id for one in videos] == ([] if error else [video_id_of(upload_id)])
        assert left(app) == [f"{one.id}.source" for one in videos]
        came += len(videos)
        for one in videos:
            await app.store.videos.delete(one.id)
        await sweep(app)
    assert came > 0
