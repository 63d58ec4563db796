"""Files that the server fetches: whole, on from where they broke off, and only from where it may."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from takeup.app import App
from takeup.core.policy import RetryPolicy
from takeup.core.pulls import Pull, PullEnd
from takeup.core.videos import About
from takeup.engine.videos import intake, pulling
from takeup.engine.videos.pulling import Puller
from takeup.net.calling import Caller
from takeup.net.fetch import Fetcher
from takeup.net.guard import Guard, networks
from tests.videos.conftest import BOTH
from tests.videos.making import sound
from tests.videos.origin import Origin, origin_of, repeats, says
from tests.videos.test_keeper import left

WAV = sound(20.0)
GUARD = Guard(networks("127.0.0.1/32"), allows_http=True, settings="pull")
WITHIN_S = 30
Make = Callable[..., Puller]


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with origin_of(WAV) as one:
        yield one


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again at once, three times in a row."""
    monkeypatch.setattr(pulling, "PATIENCE", RetryPolicy(max_attempts=3, initial_s=0))
    monkeypatch.setattr(pulling, "BEAT_S", 0.02)


@pytest.fixture
async def puller(app: App, soon: None) -> AsyncIterator[Make]:
    made: list[Puller] = []

    def make(timeout_s: float = 10.0, **more: Any) -> Puller:
        fetcher = Fetcher(Caller(GUARD), timeout_s=timeout_s)
        made.append(Puller(app.store.pulls, app.intake, fetcher, **{"wait_s": 100.0} | more))
        return made[-1]

    yield make
    for one in made:
        await one.settle()


async def ask(app: App, url: str, user: str = "key:me", **more: str) -> Pull:
    return await app.store.pulls.add(user, url, About("A film", **more), count_max=20)


async def look(app: App, pull: Pull) -> Pull:
    return await app.store.pulls.find(pull.id, pull.user_id)


async def settled(app: App, puller: Puller, pull: Pull) -> Pull:
    """How it stands when it is over."""
    async with asyncio.timeout(WITHIN_S):
        while not (now := await look(app, pull)).is_over:
            await puller.run_once()
            await asyncio.sleep(0.01)
    return now


async def broken_off(app: App, puller: Puller, pull: Pull, attempt: int = 1) -> None:
    """Wait until this attempt ended, and another one shall follow."""
    await puller.run_once()
    async with asyncio.timeout(WITHIN_S):
        while ((now := await look(app, pull)).attempt, now.status) != (attempt, "WAITING"):
            await asyncio.sleep(0.01)


async def begun(app: App, pull: Pull, size: int) -> Pull:
    async with asyncio.timeout(WITHIN_S):
        while (now := await look(app, pull)).received_bytes < size:
            await asyncio.sleep(0.01)
    return now


async def nothing_stays(app: App) -> None:
    """What came is removed a moment after it is told that it failed."""
    async with asyncio.timeout(WITHIN_S):
        while left(app) or await app.store.uploads.page():
            await asyncio.sleep(0.01)
    assert await app.store.videos.page() == []


@BOTH
async def test_a_file_becomes_a_video(app: App, puller: Make, origin: Origin):
    pull = await ask(app, origin.url)
    done = await settled(app, puller(), pull)
    assert (done.status, done.error, done.received_bytes, done.length_bytes) == (
        "DONE",
        None,
        len(WAV),
        len(WAV),
    )
    video = await app.store.videos.find(pull.video_id)
    assert (video.sha256, video.title) == (hashlib.sha256(WAV).hexdigest(), "A film")
    assert len(await app.store.read.jobs()) == 1
    assert left(app) == [f"{video.id}.source"]
    (asked,) = origin.asked
    assert (asked["host"], "range" in asked) == (f"127.0.0.1:{origin.port}", False)


async def test_it_goes_on_where_it_broke_off(app: App, puller: Make, origin: Origin):
    origin.breaks = [100_000, 50_000]
    pull = await ask(app, origin.url)
    done = await settled(app, puller(), pull)
    assert (done.status, done.attempt) == ("DONE", 3)
    assert [one.get("range") for one in origin.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert {one.get("if-range") for one in origin.asked[1:]} == {origin.tag}
    assert (await app.store.videos.find(pull.video_id)).sha256 == hashlib.sha256(WAV).hexdigest()


async def test_another_file_at_the_address_is_fetched_anew(app: App, puller: Make, origin: Origin):
    origin.breaks = [100_000]
    pull = await ask(app, origin.url)
    one = puller()
    await broken_off(app, one, pull)
    origin.data = sound(19.0)
    assert (await settled(app, one, pull)).status == "DONE"
    assert (await app.store.videos.find(pull.video_id)).sha256 == hashlib.sha256(origin.data).hexdigest()


async def test_a_part_of_another_file_is_not_taken(app: App, puller: Make, origin: Origin):
    origin.breaks = [100_000]
    pull = await ask(app, origin.url)
    one = puller()
    await broken_off(app, one, pull)
    lie = f"HTTP/1.1 206 X\nContent-Range: bytes 100000-{len(WAV)}/{len(WAV) + 1}\nContent-Length: 5"
    origin.misbehave = says(lie, b"12345")
    await broken_off(app, one, pull, 2)
    origin.misbehave = None
    assert (await settled(app, one, pull)).status == "DONE"
    assert (await app.store.videos.find(pull.video_id)).sha256 == hashlib.sha256(WAV).hexdigest()


async def test_more_than_was_said_is_not_counted(app: App, puller: Make, origin: Origin):
    origin.breaks = [100_000]
    pull = await ask(app, origin.url)
    one = puller()
    await broken_off(app, one, pull)
    size = len(WAV)
    head = f"HTTP/1.1 206 X\nContent-Range: bytes 100000-{size - 1}/{size}\nContent-Length: {size}"
    origin.misbehave = says(head, b"x" * size)
    ended = await settled(app, one, pull)
    assert (ended.status, ended.length_bytes) == ("FAILED", size)
    assert ended.received_bytes <= size
    assert f"more than {size} bytes came" in (ended.error or "")
    await nothing_stays(app)


@pytest.mark.parametrize(
    ("head", "body", "why"),
    [
        ("HTTP/1.1 404 X", b"", "it answered 404"),
        (
            "HTTP/1.1 302 X\nLocation: http://127.0.0.2:PORT/",
            b"",
            "the address 127.0.0.2 is not a public one",
        ),
        ("HTTP/1.1 302 X\nLocation: //169.254.169.254/latest", b"", "169.254.169.254 is not a public one"),
        ("HTTP/1.1 302 X\nLocation: file:///etc/passwd", b"", "must begin with https://"),
        ("HTTP/1.1 302 X\nLocation: http://[::1", b"", "an address that cannot be read"),
        ("HTTP/1.1 302 X\nLocation: /again", b"", "it leads on more than 5 times"),
        ("HTTP/1.1 200 X\nContent-Length: 60000000000", b"x", "a file has at most"),
        ("HTTP/1.1 200 X\nContent-Length: 20", b"just words, no media", "cannot be decoded"),
        ("HTTP/1.1 200 X\nContent-Length: 0", b"", "the file is empty"),
    ],
)
async def test_what_ends_a_pull(app: App, puller: Make, origin: Origin, head: str, body: bytes, why: str):
    async with origin_of(WAV, "127.0.0.2") as forbidden:
        origin.misbehave = says(head.replace("PORT", str(forbidden.port)), body)
        pull = await ask(app, origin.url)
        ended = await settled(app, puller(), pull)
        assert forbidden.asked == [], "nobody there was called"
    assert (ended.status, ended.attempt) == ("FAILED", 1)
    assert why in (ended.error or "")
    await nothing_stays(app)


@pytest.mark.parametrize(
    ("head", "body", "every_s", "why"),
    [
        ("HTTP/1.1 200 X\nContent-Length: 100000", b"x", 0.01, "less than 30000 bytes came within 0.3 s"),
        ("HTTP/1.1 200 X\nTransfer-Encoding: chunked", b"1\r\nx\r\n", 0.01, "less than 30000 bytes came"),
        ("HTTP/1.1 100 X", b"HTTP/1.1 103 X\r\n\r\n", 0.01, "it never came to the answer itself"),
        ("HTTP/1.1 200 X\nContent-Encoding: gzip", b"x", 0.01, "packed as 'gzip'"),
        ("HTTP/1.1 200 X\nContent-Length: abc", b"x", 0.01, "its length is no number"),
        ("HTTP/1.1 503 X\nContent-Length: 5", b"x", 0.01, "it answered 503"),
        *(
            ("HTTP/1.1 200 X\nTransfer-Encoding: chunked", size + b"\r\nx\r\n", 0.01, "how long it is")
            for size in (b"-1", b"0x5_0", b"+1", b"", b"f" * 900)
        ),
        (
            "HTTP/1.1 200 X\nTransfer-Encoding: chunked",
            b"1\r\nxyz\r\n0\r\n\r\n",
            0.01,
            "a piece is longer than it said",
        ),
    ],
)
async def test_what_is_tried_again_until_patience_ends(
    app: App, puller: Make, origin: Origin, head: str, body: bytes, every_s: float, why: str
):
    origin.misbehave = repeats(head, body, every_s)
    ended = await settled(app, puller(timeout_s=0.3), await ask(app, origin.url))
    assert (ended.status, len(origin.asked)) == ("FAILED", 3)
    assert why in (ended.error or "")
    await nothing_stays(app)


async def test_less_than_was_said(app: App, puller: Make, origin: Origin):
    origin.misbehave = says(f"HTTP/1.1 200 X\nContent-Length: {len(WAV)}", WAV[:-1])
    ended = await settled(app, puller(), await ask(app, origin.url))
    assert (ended.status, ended.error) == ("FAILED", "it broke off 1 bytes before its end")
    await nothing_stays(app)


async def test_a_body_without_an_end(app: App, puller: Make, origin: Origin):
    app.intake.limits = app.intake.limits._replace(bytes_max=1_000_000)
    origin.misbehave = repeats("HTTP/1.1 200 X", b"x" * 50_000, 0.0)
    ended = await settled(app, puller(), await ask(app, origin.url))
    assert (ended.status, ended.attempt) == ("FAILED", 1)
    assert "more than 1000000 bytes came" in (ended.error or "")
    await nothing_stays(app)


async def test_a_body_whose_length_nobody_says(app: App, puller: Make, origin: Origin):
    body = (
        b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (WAV[:70_000], WAV[70_000:])) + b"0\r\n\r\n"
    )
    origin.misbehave = says("HTTP/1.1 200 X\nTransfer-Encoding: chunked", body)
    pull = await ask(app, origin.url, sha256=hashlib.sha256(WAV).hexdigest())
    assert (await settled(app, puller(), pull)).status == "DONE"
    assert (await app.store.videos.find(pull.video_id)).size_bytes == len(WAV)


async def test_without_room_it_waits(app: App, puller: Make, origin: Origin, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pulling, "ROOM_S", 0.0)
    pull = await ask(app, origin.url)
    one = puller()
    with monkeypatch.context() as patch:
        patch.setattr(type(app.intake), "_free_bytes", lambda _: 0)
        for _ in range(5):
            await one.run_once()
            while (now := await look(app, pull)).status == "RUNNING":
                await asyncio.sleep(0.01)
        assert (now.status, now.failures, now.attempt) == ("WAITING", 0, 5)
        assert "not enough room" in (now.error or "")
    assert (await settled(app, one, pull)).status == "DONE"


@BOTH
async def test_it_does_not_wait_for_room_for_ever(
    app: App, puller: Make, origin: Origin, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(type(app.intake), "_free_bytes", lambda _: 0)
    ended = await settled(app, puller(wait_s=0.0), await ask(app, origin.url))
    assert (ended.status, ended.attempt) == ("FAILED", 1)
    assert "not enough room" in (ended.error or "")
    assert "pull_wait_days" in (ended.error or "")
    await nothing_stays(app)


@pytest.mark.parametrize("has_length", [True, False])
async def test_what_can_never_be_taken_is_not_waited_for(
    app: App, puller: Make, origin: Origin, *, has_length: bool
):
    app.intake.limits = app.intake.limits._replace(quota_bytes=len(WAV) - 1)
    if not has_length:
        origin.misbehave = repeats("HTTP/1.1 200 X", b"x" * 50_000, 0.0)
    ended = await settled(app, puller(), await ask(app, origin.url))
    assert (ended.status, ended.attempt) == ("FAILED", 1)
    assert "upload_quota_gb" in (ended.error or "")
    await nothing_stays(app)


async def test_what_no_disk_of_ours_can_hold_is_not_waited_for(
    app: App, puller: Make, origin: Origin, monkeypatch: pytest.MonkeyPatch
):
    whole = len(WAV) + app.intake.limits.reserve_bytes
    usage = type("Usage", (), {"free": 0, "total": whole - 1})()
    monkeypatch.setattr(intake.shutil, "disk_usage", lambda _: usage)
    ended = await settled(app, puller(), await ask(app, origin.url))
    assert (ended.status, ended.attempt) == ("FAILED", 1)
    assert "the whole disk" in (ended.error or "")
    await nothing_stays(app)


async def test_cancelled_in_the_middle_nothing_stays(app: App, puller: Make, origin: Origin):
    origin.may_go_on = asyncio.Event()
    pull = await ask(app, origin.url)
    one = puller()
    await one.run_once()
    await begun(app, pull, 100_000)
    assert await app.store.pulls.cancel(pull.id, "key:me")
    assert not await app.store.pulls.cancel(pull.id, "key:me")
    await nothing_stays(app)
    assert (await look(app, pull)).status == "CANCELLED"


@BOTH
async def test_two_servers_fetch_a_file_once(app: App, puller: Make, origin: Origin):
    origin.may_go_on = asyncio.Event()
    pull = await ask(app, origin.url)
    first, second = puller(), puller()
    await asyncio.gather(first.run_once(), second.run_once())
    now = await begun(app, pull, 100_000)
    await second.run_once()
    assert (now.attempt, len(origin.asked)) == (1, 1)
    origin.may_go_on.set()
    assert (await settled(app, second, pull)).status == "DONE"
    assert len(origin.asked) == 1


@BOTH
async def test_one_user_does_not_stop_the_others(app: App, puller: Make, origin: Origin):
    async with origin_of(WAV) as slow:
        slow.may_go_on = asyncio.Event()
        mine = [await ask(app, slow.url) for _ in range(5)]
        one = puller(at_once=3)
        await one.run_once()
        theirs = await ask(app, origin.url, "key:other")
        assert (await settled(app, one, theirs)).status == "DONE"
        assert [(await look(app, pull)).status for pull in mine].count("RUNNING") == 2
        assert len(slow.asked) == 2


@BOTH
async def test_who_had_his_turn_lets_others_go_first(app: App, puller: Make, origin: Origin):
    async with origin_of(WAV) as slow:
        slow.may_go_on = asyncio.Event()
        mine = await ask(app, slow.url)
        one = puller(at_once=1, turn_s=0.0)
        await one.run_once()
        await begun(app, mine, 100_000)
        assert (await look(app, mine)).attempt == 1, "nobody else waits"
        theirs = await ask(app, origin.url, "key:other")
        assert (await settled(app, one, theirs)).status == "DONE"
        assert "its turn is over" in ((await look(app, mine)).error or "")
        slow.may_go_on.set()
        assert (await settled(app, one, mine)).status == "DONE"
        assert slow.asked[1]["range"].startswith("bytes=")


async def test_what_a_dead_server_held_is_gone_on_with(app: App, puller: Make, origin: Origin):
    pull = await ask(app, origin.url)
    (held,) = await app.store.pulls.take(limit=5, lease_s=0.0)
    assert (await settled(app, puller(), pull)).status == "DONE"
    assert not await app.store.pulls.end(held, PullEnd("FAILED", "late")), "it is not his any more"
    assert (await look(app, pull)).attempt == 2
    assert await app.store.pulls.forget(0.0) == 1


async def test_a_server_that_stops_hands_it_back(app: App, puller: Make, origin: Origin):
    origin.may_go_on = asyncio.Event()
    pull = await ask(app, origin.url)
    one = puller()
    await one.run_once()
    await begun(app, pull, 100_000)
    await one.settle()
    now = await look(app, pull)
    assert (now.status, now.failures) == ("WAITING", 0)
    origin.may_go_on.set()
    assert (await settled(app, puller(), pull)).status == "DONE"
    assert origin.asked[1]["range"].startswith("bytes=1")
