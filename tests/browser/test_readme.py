"""The README's way from a clone to a playing video: its very commands, and then a browser."""

import asyncio
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from playwright.async_api import Page

from takeup.media.binaries import find
from tests.browser.conftest import play, until
from tests.cli.conftest import environment
from tests.processes import environment_mark, left_after

ROOT = Path(__file__).resolve().parents[2]
HEADING = "### From a clone to a playing video, over HTTP\n"
PORT = "8080"
PATIENCE_S = 90
CLIP = "testsrc2=size=320x180:rate=25:duration=4"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What lies in the tree, and a video."""
    for entry in ROOT.iterdir():
        if entry.name not in ("takeup-data", "takeup.toml", ".git"):
            (tmp_path / entry.name).symlink_to(entry)
    made = ["-f", "lavfi", "-i", CLIP, "-f", "lavfi", "-i", "sine=d=4", "-preset", "ultrafast"]
    subprocess.run([find().ffmpeg, "-v", "error", *made, tmp_path / "movie.mp4"], check=True, timeout=60)
    return tmp_path


@pytest.fixture
def section() -> str:
    """The words of the README about this, with a port that is free here instead of the usual one."""
    text = (ROOT / "README.md").read_text("utf-8").partition(HEADING)[2].partition("\n### ")[0]
    assert PORT in text
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return text.replace(PORT, port)


def begin(commands: str, folder: Path, log: Path, port: str) -> subprocess.Popen[bytes]:
    """Somebody types this; what he leaves running is found again."""
    with log.open("w") as told:
        return subprocess.Popen(
            ["/bin/bash", "-euo", "pipefail", "-c", commands],
            cwd=folder,
            env=environment(TAKEUP_PORT=port, no_proxy="*", **environment_mark(folder)),
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
            start_new_session=True,
        )


async def test_the_commands_lead_to_a_video_that_plays(clone: Path, section: str, page: Page):
    (commands,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    watch, master = (
        re.findall(rf"http://[\w.:]+/{kind}/[\w./-]+", section)[0] for kind in ("watch", "videos")
    )
    port = watch.split("/")[2].rpartition(":")[2]
    log = clone / "told.log"
    typed = begin(commands, clone, log, port)
    try:
        assert typed.wait(PATIENCE_S) == 0, log.read_text()
        assert '"status":"ready"' in log.read_text(), log.read_text()
        assert f"make the first admin at http://127.0.0.1:{port}/setup#" in log.read_text()
        await page.goto(watch)
        assert await page.title() == "My movie"
        await play(page)
        await until(page, "video.currentTime > 1 && video.videoWidth === 320")
        folder = master.removesuffix("/master.m3u8")
        checked = await asyncio.to_thread(
            subprocess.run,
            [clone / ".venv/bin/takeup", "check", folder],
            cwd=clone,
            env=environment(no_proxy="*"),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr
    finally:
        os.killpg(typed.pid, signal.SIGTERM)
    assert await asyncio.to_thread(left_after, clone, PATIENCE_S) == []
