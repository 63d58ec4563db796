"""Rows and files of videos are kept together, wherever a process died between them."""

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from takeup.app import App
from takeup.core.errors import StoreUnavailable
from takeup.core.model import Message
from takeup.core.videos import About, Upload, Video
from takeup.engine.videos import receiving
from takeup.engine.videos.keeper import FILE_AGE_S, PART_AGE_S, VideoKeeper
from takeup.engine.videos.shelf import note_streams
from tests.videos.conftest import BOTH
from tests.videos.making import publish, sound

WAV = sound()
STRANGE = "0b" * 12


async def body(data: bytes = WAV) -> AsyncIterator[bytes]:
    yield data


async def take(app: App) -> Video:
    return await app.intake.take("key:me", len(WAV), About("A film"), body())


async def begin(app: App, life_s: float | None = None) -> Upload:
    return await app.intake.begin("key:me", len(WAV), About("A film"), life_s=life_s)


def keeper(app: App, *, later_s: float = 0.0) -> VideoKeeper:
    loop = app.video_keeper()
    loop._wall = lambda: time.time() + later_s
    return loop


def left(app: App) -> list[str]:
    """The files of videos."""
    places = app.intake.places
    return sorted(
        path.name
        for folder in (places.uploads, places.videos)
        if folder.exists()
        for path in folder.iterdir()
    )


@BOTH
async def test_a_file_that_was_whole_when_we_died_becomes_a_video(app: App):
    upload = await begin(app)
    app.intake.places.part(upload.id).write_bytes(WAV)
    await keeper(app).run_once()
    video = await app.store.videos.find(upload.video_id)
    assert (video.title, video.status, video.size_bytes) == ("A film", "pending", len(WAV))
    assert left(app) == [f"{video.id}.source"]
    await keeper(app).run_once()
    assert len(await app.store.read.jobs()) == 1


async def test_a_file_that_had_its_name_when_we_died_becomes_a_video(
    app: App, monkeypatch: pytest.MonkeyPatch
):
    async def breaks(*_: object) -> Video:
        raise StoreUnavailable("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(app.store.videos, "add", breaks)
        with pytest.raises(StoreUnavailable):
            await take(app)
    (upload,) = await app.store.uploads.page()
    assert left(app) == [f"{upload.video_id}.source"]
    assert app.intake.size(upload) == len(WAV)
    await keeper(app, later_s=2 * FILE_AGE_S).run_once()
    assert (await app.store.videos.find(upload.video_id)).sha256
    assert await app.store.uploads.page() == []


async def test_what_is_no_media_is_not_adopted(app: App):
    upload = await begin(app)
    app.intake.places.part(upload.id).write_bytes(b"x" * len(WAV))
    await keeper(app).run_once()
    assert left(app) == []
    assert await app.store.uploads.look(upload.id) is None


async def test_s50_what_nobody_goes_on_with_is_swept(app: App):
    given_up, coming = await begin(app, 0.001), await begin(app)
    for upload in (given_up, coming):
        app.intake.places.part(upload.id).write_bytes(WAV[:10])
    await keeper(app).run_once()
    assert left(app) == [f"{coming.id}.part"]
    assert [one.id for one in await app.store.uploads.page()] == [coming.id]


async def test_what_is_being_sent_is_not_swept(app: App):
    upload = await begin(app, 0.001)
    path = app.intake.places.part(upload.id)
    path.write_bytes(WAV)
    with receiving.opened(path):
        await keeper(app).run_once()
        assert left(app) == [path.name]
    await keeper(app).run_once()
    assert left(app) == []


@BOTH
async def test_files_that_nobody_knows_go_and_others_stay(app: App):
    video = await take(app)
    places = app.intake.places
    places.part(f"upl_{STRANGE}").write_bytes(b"x")
    places.source(f"vid_{STRANGE}").write_bytes(b"x")
    (places.stream(f"vid_{STRANGE}") / "v1").mkdir(parents=True)
    (places.uploads / "notes.txt").write_text("mine")
    (places.videos / "other").mkdir()
    mine = ["notes.txt", "other", f"{video.id}.source"]
    await keeper(app).run_once()
    assert len(left(app)) == 6
    await keeper(app, later_s=PART_AGE_S + 60).run_once()
    assert left(app) == sorted([*mine, f"vid_{STRANGE}", f"vid_{STRANGE}.source"])
    await keeper(app, later_s=FILE_AGE_S + 60).run_once()
    assert left(app) == sorted(mine)


async def test_what_is_served_is_noted_however_it_came(app: App, tmp_path: Path):
    video = await take(app)
    stream = app.intake.places.stream(video.id)
    publish(stream, tmp_path / "one", video.job_id or "")
    deliver = note_streams(app.shelf, app.store.read)
    message = Message(
        1, "job.completed", str(video.job_id), {}, "SENDING", 1, video.created_at, video.created_at
    )
    await deliver(message)
    found = await app.store.videos.find(video.id)
    assert (found.served_version, found.duration_s, found.status) == (1, 2.5, "ready")
    publish(stream, tmp_path / "two", "another")
    await keeper(app).run_once()
    assert (await app.store.videos.find(video.id)).served_version == 2
    (stream / "v1" / "master.m3u8").write_text("broken")
    assert await app.shelf.roll_back(video.id) == 1
    found = await app.store.videos.find(video.id)
    assert (found.served_version, found.duration_s) == (1, 0.0), (
        "what cannot be described is served all the same"
    )


@BOTH
async def test_the_files_of_a_deleted_video_go_even_if_they_come_late(app: App, tmp_path: Path):
    video = await take(app)
    publish(app.intake.places.stream(video.id), tmp_path / "one", "a job")
    await app.store.videos.delete(video.id)
    await keeper(app).run_once()
    assert left(app) == []
    publish(app.intake.places.stream(video.id), tmp_path / "late", "a job")
    await keeper(app).run_once()
    assert left(app) == []


async def test_a_link_in_the_place_of_a_file_is_not_followed(app: App, tmp_path: Path):
    target = tmp_path / "precious"
    target.write_bytes(b"")
    upload = await begin(app)
    app.intake.places.part(upload.id).symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        await app.intake.go_on(upload, 0, body())
    assert (target.read_bytes(), os.path.lexists(target)) == (b"", True)
