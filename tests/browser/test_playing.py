"""A stream in Chromium: through a player that is not ours, through the page in the package, and by itself."""

from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.browser.conftest import FAST, LENGTH_S, Serve, play, seek, until

HLS = Path(__file__).parent / "node_modules/hls.js/dist/hls.min.js"
FOREIGN = """<!doctype html><video muted width=640 height=360></video><script src="/hls.js"></script><script>
  const video = document.querySelector("video");
  const hls = new Hls();
  const troubles = [];
  hls.on(Hls.Events.ERROR, (_, told) => troubles.push([told.details, video.currentTime]));
  hls.loadSource("/master.m3u8");
  hls.attachMedia(video);
</script>"""
# What hls.js tells of itself or of the machine, not of the stream: a load it gave up, a slow decoder.
HARMLESS = {"aborted", "bufferStalledError"}
LEAD_S = 0.2
"""Streams begin a little after zero; hls.js goes there by a jump and tells it."""
ENDS = f"video.buffered.start(0) < {LEAD_S} && video.buffered.end(0) > {LENGTH_S - 0.1}"


async def open_foreign(page: Page, address: str, html: str) -> None:
    assert HLS.is_file(), "hls.js is missing: run `make setup`"
    await page.route("**/hls.js", lambda route: route.fulfill(path=HLS, content_type="text/javascript"))
    await page.route("**/foreign", lambda route: route.fulfill(body=html, content_type="text/html"))
    await page.goto(f"{address}foreign")


async def troubles_of(page: Page) -> list[tuple[str, float]]:
    """What hls.js told that is the stream's fault."""
    troubles = [(name, time) for name, time in await page.evaluate("troubles") if name not in HARMLESS]
    return [one for one in troubles if one[0] != "bufferSeekOverHole" or one[1] > LEAD_S]


async def test_hls_js_plays_seeks_switches_and_ends(page: Page, serve: Serve, stream: Path):
    await open_foreign(page, serve(stream), FOREIGN)
    await until(page, "hls.levels.length === 3")
    await play(page, FAST)
    await until(page, "video.currentTime > 13")
    for time in (2.5, 17.0, 6.0, LENGTH_S - 0.5):
        await seek(page, time)
    widths = await page.evaluate("hls.levels.map(level => level.width)")
    assert sorted(widths) == [160, 214, 320]
    for name, level in (("currentLevel", 0), ("nextLevel", 2), ("currentLevel", 1), ("nextLevel", 0)):
        await page.evaluate("([name, level]) => { hls[name] = level; }", [name, level])
        await seek(page, 1)
        await play(page, FAST)
        await until(page, f"video.videoWidth === {widths[level]}")
    await until(page, f"video.buffered.length === 1 && {ENDS}")
    await seek(page, LENGTH_S - 1)
    await play(page)
    await until(page, "video.ended")
    assert await troubles_of(page) == []


async def test_the_page_plays_seeks_switches_and_ends(page: Page, serve: Serve, stream: Path):
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    asked: set[str] = set()
    address = serve(stream)
    page.on("request", lambda request: asked.add(request.url))
    await page.goto(address)
    assert await page.title() == "a <film> & more"
    await play(page, FAST)
    await until(page, "video.currentTime > 13")
    for time in (2.5, 17.0, 6.0, LENGTH_S - 0.5):
        await seek(page, time)
    for quality, width in (("90p", 160), ("180p", 320), ("120p", 214)):
        await page.get_by_label("Quality").select_option(quality)
        await play(page, FAST)
        await seek(page, 8)
        await play(page, FAST)
        await until(page, f"video.videoWidth === {width}")
    await page.get_by_label("Sound").select_option(index=1)
    await seek(page, 2)
    await play(page, FAST)
    await until(page, "video.currentTime > 7")
    await seek(page, LENGTH_S - 1)
    await play(page)
    await until(page, "video.ended")
    assert await page.evaluate("document.querySelector('video').duration") == pytest.approx(
        LENGTH_S, abs=0.05
    )
    assert any("sound-2/" in url for url in asked)
    assert all(url.startswith((address, "blob:", "data:")) for url in asked)
    assert not await page.get_by_role("alert").is_visible()
    assert faults == []


async def test_chromium_plays_it_by_itself(page: Page, serve: Serve, stream: Path):
    native = "<!doctype html><video muted src=/master.m3u8></video>"
    await open_foreign(page, serve(stream), native)
    told = await page.evaluate("document.querySelector('video').canPlayType('application/vnd.apple.mpegurl')")
    if not told:
        pytest.skip("this Chromium plays no HLS by itself")
    await play(page, FAST)
    await until(page, "video.currentTime > 7")
    for time in (16.0, 3.0, LENGTH_S - 1):
        await seek(page, time)
    await play(page)
    await until(page, "video.ended && !video.error")
