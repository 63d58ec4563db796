"""The page beside a stream: what else it shows, where it finds things, and what it says when it cannot."""

import shutil
from pathlib import Path

import pytest
from playwright.async_api import Page

from takeup.artifacts.versions import Versions
from takeup.media.entry import entries
from tests.browser.conftest import FAST, Serve, play, until

TEXTS = '#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="texts",NAME="Deutsch",LANGUAGE="de",URI="de/index.m3u8"\n'
LISTING = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n1.vtt\n#EXTINF:10,\n2.vtt\n#EXT-X-ENDLIST\n"
MAP = (
    "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:7200,LOCAL:00:00:00.000\n\n"  # 0.08 s, as the first picture of the stream
)
CUES = (
    "00:01.000 --> 00:03.000 align:start\n<i>eins</i>\n\n00:08.000 --> 00:12.000\nzwei\n",
    "00:08.000 --> 00:12.000\nzwei\n\n00:15.000 --> 00:16.000\ndrei\n",
)
CHAPTERS = "WEBVTT\n\n00:00.000 --> 00:10.000\n<b>&lt;First&gt;</b>\n\n00:10.000 --> 00:20.000\nSecond\n"
STORYBOARD = (
    "WEBVTT\n\n00:00.000 --> 00:10.000\nboard.jpg#xywh=0,0,80,45\n\n"
    "00:10.000 --> 00:20.000\nboard.jpg#xywh=80,0,80,45\n"
)


@pytest.fixture
def copy(stream: Path, tmp_path: Path) -> Path:
    """The version that is served, as a package of its own, to be changed."""
    of_versions = shutil.ignore_patterns("entry", "version.json", ".*")
    return Path(shutil.copytree(stream / "current", tmp_path / "out", ignore=of_versions))


def dress(folder: Path) -> None:
    """Give a package texts, chapters and a storyboard."""
    master = (folder / "master.m3u8").read_text()
    head, found, rest = master.partition("#EXT-X-STREAM-INF")
    rest = rest.replace("#EXT-X-STREAM-INF:", '#EXT-X-STREAM-INF:SUBTITLES="texts",')
    (folder / "master.m3u8").write_text(f'{head}{TEXTS}{found}:SUBTITLES="texts",{rest[1:]}')
    (folder / "de").mkdir()
    (folder / "de/index.m3u8").write_text(LISTING)
    for number, cues in enumerate(CUES, 1):
        (folder / f"de/{number}.vtt").write_text(MAP + cues)
    (folder / "chapters.vtt").write_text(CHAPTERS)
    (folder / "storyboard.vtt").write_text(STORYBOARD)


async def test_texts_chapters_looks_and_keys(page: Page, serve: Serve, copy: Path):
    dress(copy)
    await page.goto(serve(copy))
    await page.get_by_label("Texts").select_option("Deutsch")
    cues = "Array.from(video.textTracks[0].cues ?? [], c => [c.startTime, c.endTime, c.text, c.align])"
    await until(page, f"{cues}.length === 3")
    assert await page.evaluate(
        f"(() => {{ const video = document.querySelector('video'); return {cues}; }})()"
    ) == [
        [pytest.approx(1), pytest.approx(3), "<i>eins</i>", "start"],
        [pytest.approx(8), pytest.approx(12), "zwei", "center"],
        [pytest.approx(15), pytest.approx(16), "drei", "center"],
    ]
    await until(page, "document.querySelectorAll('.marks i').length === 2")
    await page.get_by_label("Chapter").select_option("<First>")
    await page.get_by_label("Chapter").select_option("Second")
    await until(page, "video.currentTime === 10")
    bar = await page.locator(".seek").bounding_box()
    assert bar
    await page.mouse.move(bar["x"] + bar["width"] * 0.75, bar["y"] + bar["height"] / 2)
    style = await page.locator(".preview i").evaluate(
        "look => [look.style.backgroundPosition, look.style.width]"
    )
    assert style == ["-80px 0px", "80px"]
    await page.locator(".player").focus()
    for key, holds in (("ArrowLeft", "video.currentTime === 5"), ("9", "video.currentTime === 18"),
                       ("m", "video.muted"), ("k", "!video.paused")):  # fmt: skip
        await page.keyboard.press(key)
        await until(page, holds)


async def test_it_plays_on_in_its_version_while_another_is_published(
    page: Page, serve: Serve, copy: Path, tmp_path: Path
):
    published = Versions(tmp_path / "published")
    published.publish(copy, "first", lambda name: entries(copy, name), keep=1)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    address = serve(published.folder)
    await page.goto(address)
    await until(page, "video.readyState >= 3")
    (copy / "index.html").write_text("<head></head>no player")
    published.publish(copy, "second", lambda name: entries(copy, name), keep=1)
    await play(page, FAST)
    await until(page, "video.currentTime > 13")
    pieces = [url for url in asked if url.endswith(".m4s")]
    assert all(url.startswith(f"{address}v1/") for url in pieces)
    await page.goto(address)
    assert "no player" in await page.content()


async def test_a_quality_that_is_not_there_is_left_out(page: Page, serve: Serve, copy: Path):
    for piece in [*(copy / "180p").glob("*.m4s"), *(copy / "120p").glob("*.m4s")]:
        piece.unlink()
    await page.goto(serve(copy))
    await play(page, FAST)
    await until(page, "video.currentTime > 7 && video.videoWidth === 160")
    assert await page.get_by_label("Quality").locator("option").all_inner_texts() == ["Auto", "90p"]


async def test_sound_alone_is_played_and_its_tracks_are_no_qualities(page: Page, serve: Serve, copy: Path):
    variant = '#EXT-X-STREAM-INF:BANDWIDTH=70000,CODECS="mp4a.40.2"\nsound-{}/index.m3u8\n'
    (copy / "master.m3u8").write_text("#EXTM3U\n" + variant.format(1) + variant.format(2))
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url.split("/")[-2]))
    await page.goto(serve(copy))
    await play(page, FAST)
    await until(page, "video.currentTime > 7 && video.videoWidth === 0")
    assert "sound-2" not in asked
    await page.get_by_label("Sound").select_option("Track 2")
    await until(page, "video.ended")
    assert "sound-2" in asked


async def test_what_is_wrong_is_said_with_what_to_do(page: Page, serve: Serve, copy: Path):
    address = serve(copy)
    alert = page.get_by_role("alert")
    master = copy / "master.m3u8"
    text = master.read_text()

    async def told() -> str:
        await until(page, "!document.querySelector('.message').hidden")
        return await alert.inner_text()

    master.write_text(text.replace("180p/index.m3u8", "//127.0.0.2/180p/index.m3u8"))
    await page.goto(address)
    assert "another server, 127.0.0.2" in await told()
    master.write_text(text.replace("avc1.", "none."))
    await page.goto(address)
    assert "knows none of the codecs" in await told()
    master.write_text(text)
    (copy / "sound-1/00002.m4s").unlink()
    await page.goto(address)
    assert "A file of this stream is missing: /sound-1/00002.m4s" in await told()
    assert await page.get_by_role("button", name="Try again").is_visible()
    await page.goto((copy / "index.html").as_uri())
    assert "Run `takeup watch DIR`" in await told()
