"""A folder that is watched: whole files of ours become videos, once; everything else is passed over."""

import os
import time
from pathlib import Path

import pytest

from takeup.app import App
from takeup.core.errors import StoreUnavailable
from takeup.core.videos import Video
from takeup.engine.videos.watching import WatchFolder
from tests.videos.making import sound

WAV = sound()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "inbox"
    made.mkdir()
    return made


def watcher(app: App, folder: Path, *, later_s: float = 60.0) -> WatchFolder:
    return WatchFolder(folder, app.intake, app.store.videos, wall=lambda: time.time() + later_s)


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


async def titles(app: App) -> list[str]:
    return sorted(video.title for video in await app.store.videos.page())


async def test_files_become_videos_when_they_are_whole(app: App, folder: Path):
    (folder / "My clip.wav").write_bytes(WAV)
    (folder / "words.mp4").write_text("just words\n" * 100)
    await watcher(app, folder, later_s=0).run_once()
    assert (await titles(app), left(folder)) == ([], ["My clip.wav", "words.mp4"]), "too young"
    await watcher(app, folder).run_once()
    assert await titles(app) == ["My clip"]
    assert left(folder) == ["refused/words.mp4", "taken/My clip.wav"]
    (video,) = await app.store.videos.page()
    assert (video.user_id, video.size_bytes, video.status) == ("folder", len(WAV), "pending")
    (folder / "My clip.wav").write_bytes(WAV)
    await watcher(app, folder).run_once()
    assert len(await titles(app)) == 2
    assert len(left(folder / "taken")) == 2


async def test_s52_links_pipes_folders_and_files_of_others(app: App, folder: Path, tmp_path: Path):
    secret = tmp_path / "secret.wav"
    secret.write_bytes(WAV)
    (folder / "link.wav").symlink_to(secret)
    os.mkfifo(folder / "pipe.wav")
    (folder / "folder.wav").mkdir()
    (folder / ".hidden.wav").write_bytes(WAV)
    if os.geteuid() == 0:
        (folder / "other.wav").write_bytes(WAV)
        os.chown(folder / "other.wav", 12345, 12345)
    before = left(folder)
    await watcher(app, folder).run_once()
    assert (await titles(app), left(folder)) == ([], before)


async def test_a_file_is_taken_once_however_often_we_die(
    app: App, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    async def breaks(*_: object) -> Video:
        raise StoreUnavailable("the database is away")

    (folder / "a.wav").write_bytes(WAV)
    with monkeypatch.context() as patch:
        patch.setattr(app.store.videos, "add", breaks)
        await watcher(app, folder).run_once()
    assert left(folder) == ["a.wav"], "that was not its fault"
    with monkeypatch.context() as patch:
        patch.setattr(WatchFolder, "_move", lambda *_: None)
        await watcher(app, folder).run_once()
        await watcher(app, folder).run_once()
    await watcher(app, folder).run_once()
    assert (await titles(app), left(folder)) == (["a"], ["taken/a.wav"])
    assert len(await app.store.read.jobs()) == 1


async def test_nobody_leads_files_out_of_the_folder(app: App, folder: Path, tmp_path: Path):
    (folder / "a.wav").write_bytes(WAV)
    (folder / "taken").symlink_to(tmp_path)
    await watcher(app, folder).run_once()
    assert not (tmp_path / "a.wav").exists()
    assert (folder / "a.wav").exists()
    await watcher(app, tmp_path / "none").run_once()


async def test_the_settings_name_the_folder(app: App, folder: Path):
    assert [loop for loop in app.loops() if isinstance(loop, WatchFolder)] == []
    object.__setattr__(app.settings, "watch_dir", str(folder))
    (loop,) = [loop for loop in app.loops() if isinstance(loop, WatchFolder)]
    assert (loop._folder, loop.period_s) == (folder, 5.0)
