"""Killed between any two steps, a file is a video or nothing at all after the next sweep."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from takeup.app import App
from takeup.core.videos import About, Video
from takeup.engine.videos.keeper import FILE_AGE_S
from takeup.engine.videos.pulling import Puller
from takeup.net.calling import Caller
from takeup.net.fetch import Fetcher
from tests.videos.dying import WAV
from tests.videos.making import publish
from tests.videos.origin import origin_of
from tests.videos.test_keeper import begin, keeper, left, take
from tests.videos.test_pulling import GUARD, settled

TREE = Path(__file__).parents[2]
BEFORE = ("intake.after begin", "intake.after receive", "intake.after rename", "intake.after add")


async def die(app: App, what: str, point: str) -> None:
    """Do this in a process of its own, which is killed at this point."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tests.videos.dying", app.settings.data_dir, what],
        env={**os.environ, "TAKEUP_CRASH": point},
        cwd=TREE,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def long_after(app: App) -> None:
    """Nobody waits for an upload any more."""
    with closing(sqlite3.connect(app.settings.data_dir / "takeup.db", timeout=30)) as connection, connection:
        connection.execute("UPDATE uploads SET expires_at = created_at")


async def all_of(app: App) -> tuple[list[Video], int, int]:
    """The videos there are, how many jobs they have, and how many uploads are not over."""
    videos = await app.store.videos.page()
    return videos, len(await app.store.read.jobs()), len(await app.store.uploads.page())


async def sweep(app: App, later_s: float = 0.0) -> None:
    await keeper(app, later_s=later_s).run_once()


@pytest.mark.parametrize("point", BEFORE)
async def test_taking_a_file_is_made_up_for_or_forgotten(app: App, point: str):
    await die(app, "take", point)
    await sweep(app)
    videos, jobs, coming = await all_of(app)
    if point == BEFORE[0]:
        assert (videos, jobs, coming, left(app)) == ([], 0, 1, [])
    else:
        (video,) = videos
        assert (jobs, coming, left(app)) == (1, 0, [f"{video.id}.source"])
        assert (app.settings.data_dir / "uploads" / left(app)[0]).read_bytes() == WAV
        await app.store.videos.delete(video.id)
    long_after(app)
    await sweep(app, 2 * FILE_AGE_S)
    videos, _, coming = await all_of(app)
    assert (videos, coming, left(app)) == ([], 0, [])


@pytest.mark.parametrize("point", ["intake.after receive", "intake.after rename"])
async def test_a_file_of_which_nobody_said_how_long_it_is(app: App, point: str):
    await die(app, "take without a length", point)
    assert len(left(app)) == 1
    long_after(app)
    await sweep(app, 2 * FILE_AGE_S)
    assert (await all_of(app), left(app)) == (([], 0, 0), [])


async def test_what_was_refused_is_swept(app: App):
    await die(app, "take what is no media", "intake.after drop")
    assert len(left(app)) == 1
    await sweep(app)
    assert len(left(app)) == 1, "it may be one of another that is new"
    await sweep(app, FILE_AGE_S)
    assert (await all_of(app), left(app)) == (([], 0, 0), [])


async def test_an_upload_that_was_given_up_is_swept(app: App):
    upload = await begin(app)
    app.intake.places.part(upload.id).write_bytes(WAV[:10])
    long_after(app)
    await die(app, "sweep", "intake.after drop")
    assert (await app.store.uploads.page(), len(left(app))) == ([], 1)
    await sweep(app, FILE_AGE_S)
    assert left(app) == []


@pytest.mark.parametrize("point", ["keeper.after remove#1", "keeper.after remove#2"])
async def test_a_deleted_video_goes_with_all_that_is_its(app: App, tmp_path: Path, point: str):
    video, other = await take(app), await take(app)
    for one in (video, other):
        publish(app.intake.places.stream(one.id), tmp_path / one.id, "a job")
    assert len(left(app)) == 4
    await app.store.videos.delete(video.id)
    await die(app, "sweep", point)
    await sweep(app)
    assert left(app) == sorted([other.id, f"{other.id}.source"])
    assert [one.id for one in (await all_of(app))[0]] == [other.id]


@pytest.mark.parametrize("point", BEFORE[1:3])
async def test_what_is_cancelled_before_anybody_saw_its_end_is_not_adopted(app: App, point: str):
    async with origin_of(WAV) as origin:
        pull = await app.store.pulls.add("key:me", origin.url, About("Fetched"), count_max=1)
        await die(app, "pull", point)
    assert len(left(app)) == 1
    assert await app.store.pulls.cancel(pull.id, "key:me")
    await sweep(app)
    assert (await all_of(app), left(app)) == (([], 0, 0), [])


async def test_what_became_a_video_before_anybody_noted_it_is_not_cancelled(app: App):
    async with origin_of(WAV) as origin:
        pull = await app.store.pulls.add("key:me", origin.url, About("Fetched"), count_max=1)
        await die(app, "pull", "intake.after add")
        assert not await app.store.pulls.cancel(pull.id, "key:me")
    await sweep(app, 2 * FILE_AGE_S)
    assert left(app) == [f"{pull.video_id}.source"]


async def test_ended_between_its_row_and_its_file_a_whole_file_is_swept(app: App):
    await die(app, "take without a length", "intake.after rename")
    long_after(app)
    await die(app, "sweep", "intake.after drop")
    assert ((await all_of(app)), len(left(app))) == (([], 0, 0), 1)
    await sweep(app, 2 * FILE_AGE_S)
    assert left(app) == []


@pytest.mark.parametrize("point", BEFORE[1:])
async def test_a_file_that_is_fetched_is_fetched_once(app: App, point: str):
    async with origin_of(WAV) as origin:
        pull = await app.store.pulls.add("key:me", origin.url, About("Fetched"), count_max=1)
        await die(app, "pull", point)
        puller = Puller(app.store.pulls, app.intake, Fetcher(Caller(GUARD), timeout_s=5))
        assert (await settled(app, puller, pull)).status == "DONE"
        assert len(origin.asked) == 1, "all of it was there"
    (video,), jobs, coming = await all_of(app)
    assert (video.id, video.title, jobs, coming) == (pull.video_id, "Fetched", 1, 0)
    assert left(app) == [f"{video.id}.source"]
