"""Every kind of good source, from the command to the browser: streamed, checked against itself, played."""

from pathlib import Path

import pytest
from playwright.async_api import Page

from takeup.media.binaries import find
from tests.browser.conftest import FAST, PROFILE, Serve, play, seek, until
from tests.browser.test_playing import FOREIGN, LEAD_S, open_foreign, troubles_of
from tests.media.kinds import KINDS, made
from tests.media.test_transcode import takeup

SEEKABLE_S = 1.5
"""What is shorter has hardly another picture to seek to."""
NO_PROGRESS = "bufferAppendNoProgress"
"""What hls.js says of a single picture: nothing comes after it."""


@pytest.mark.parametrize("name", KINDS)
async def test_it_passes_the_check_and_plays(page: Page, serve: Serve, tmp_path: Path, name: str):
    source = made(find().ffmpeg, name, tmp_path)
    (tmp_path / "tiny.toml").write_text(PROFILE)
    ran = takeup(tmp_path, "transcode", source, "-o", "out", "--profile", "tiny.toml")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    checked = takeup(tmp_path, "check", "out", "--source", source)
    assert checked.returncode == 0, checked.stdout
    await open_foreign(page, serve(tmp_path / "out"), FOREIGN)
    await until(page, "hls.levels.length > 0 && video.duration > 0")
    await play(page, FAST)
    await until(page, "video.ended")
    length_s = await page.evaluate("video.duration")
    if length_s > SEEKABLE_S:
        for level, width in enumerate(await page.evaluate("hls.levels.map(level => level.width)")):
            await page.evaluate("level => { hls.currentLevel = level; }", level)
            await seek(page, length_s / 2)
            await until(page, f"video.videoWidth === {width}")
        await seek(page, LEAD_S)
    troubles = {name for name, _ in await troubles_of(page)}
    assert troubles <= ({NO_PROGRESS} if length_s < LEAD_S else set())
