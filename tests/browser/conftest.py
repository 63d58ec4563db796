"""A real browser, a small real stream, and `takeup watch` between them."""

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright

from takeup.media.binaries import find
from tests.cli.conftest import environment

LENGTH_S = 20
WAIT_MS = 20_000
NEAR_S = 0.25
FAST = 8.0
PROFILE = """
name = "tiny"
[audio]
codec = "aac"
kbps_a_channel = 64
[[families]]
codec = "h264"
encoder = "libx264"
preset = "ultrafast"
range = "sdr"
critical = true
rungs = [
  { short = 180, crf = 30, max_kbps = 600 },
  { short = 120, crf = 32, max_kbps = 300 },
  { short = 90, crf = 34, max_kbps = 150 },
]
"""
FLAGS = (
    "--autoplay-policy=no-user-gesture-required",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
UNTIL = """([words, ms]) => new Promise((resolve, reject) => {
  const end = performance.now() + ms;
  const video = document.querySelector("video");
  const look = () => {
    if (holds(video)) return resolve();
    if (performance.now() < end) return setTimeout(look, 25);
    const ranges = Array.from(video.buffered, (_, n) => [video.buffered.start(n), video.buffered.end(n)]);
    reject(new Error(`${words} did not come true: ${JSON.stringify({
      time: video.currentTime, width: video.videoWidth, ready: video.readyState, paused: video.paused,
      ended: video.ended, error: video.error?.message, ranges, told: document.body.innerText,
    })}`));
  };
  look();
})"""

Serve = Callable[[Path], str]


@pytest.fixture(scope="session")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream of 20 s in three sizes with two sound tracks, made and published by the real command."""
    folder = tmp_path_factory.mktemp("stream")
    picture = f"testsrc2=size=320x180:rate=25:duration={LENGTH_S}"
    sounds = [f"sine=f={pitch}:duration={LENGTH_S}" for pitch in (440, 880)]
    inputs = [part for source in (picture, *sounds) for part in ("-f", "lavfi", "-i", source)]
    tracks = ["-map", "0", "-map", "1", "-map", "2", "-metadata:s:a:0", "language=eng"]
    tracks += ["-metadata:s:a:1", "language=fra", "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac"]
    source = folder / "a <film> & more.mp4"
    subprocess.run([find().ffmpeg, "-v", "error", *inputs, *tracks, source], check=True, timeout=60)
    (folder / "tiny.toml").write_text(PROFILE)
    command = [sys.executable, "-m", "takeup.cli.main", "transcode", source, "-o", "out"]
    ran = subprocess.run(
        [*command, "--profile", "tiny.toml"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return folder / "out"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """`takeup watch` of a folder, as its address; it must end well when it is asked to."""
    running: list[subprocess.Popen[str]] = []
    with ExitStack() as stack:

        def start(folder: Path) -> str:
            command = [sys.executable, "-m", "takeup.cli.main", "watch", str(folder)]
            process = stack.enter_context(
                subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
            )
            running.append(process)
            assert process.stdout
            return process.stdout.readline().strip()

        yield start
        for process in running:
            process.terminate()
        assert [process.wait(timeout=10) for process in running] == [0] * len(running)


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """A page of the system's Chromium."""
    program = shutil.which("chromium")
    if program is None:
        pytest.fail(
            "there is no chromium: `make setup` gets it as root, else 'sudo apt-get install chromium'"
        )
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=FLAGS, chromium_sandbox=os.geteuid() != 0
        )
        opened = await browser.new_page(viewport={"width": 800, "height": 700})
        yield opened
        await browser.close()


async def until(page: Page, holds: str) -> None:
    """Wait until this is true of `video` in the page."""
    await page.evaluate(UNTIL.replace("holds(video)", f"({holds})"), [holds, WAIT_MS])


async def play(page: Page, rate: float = 1) -> None:
    await page.evaluate(
        "rate => { const v = document.querySelector('video'); v.playbackRate = rate; v.play(); }", rate
    )


async def seek(page: Page, time: float) -> None:
    """Go there, and see that the picture of that moment is the one that is shown.

    A picture from before may still be on its way to the screen, so not the first but the last one counts.
    """
    shown = await page.evaluate(
        """([time, near, wait]) => new Promise((resolve) => {
          const video = document.querySelector("video");
          const shown = [];
          const look = () => video.requestVideoFrameCallback((_, frame) => {
            shown.push(frame.mediaTime);
            Math.abs(frame.mediaTime - time) < near ? resolve(shown) : look();
          });
          setTimeout(() => resolve(shown), wait);
          video.pause();
          look();
          video.currentTime = time;
        })""",
        [time, NEAR_S, WAIT_MS],
    )
    assert abs([-1.0, *shown][-1] - time) < NEAR_S, f"at {time} these were shown: {shown}"
