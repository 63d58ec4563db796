"""The feed by itself: slow readers, limits, looks that fail, what it does while nobody listens."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from takeup.api.sse import EventStream, Line, Pulse
from takeup.app import App
from takeup.core.channels import parse_channels
from takeup.core.plan import NewJob
from takeup.dispatch.bell import Bell
from takeup.engine.feed import Feed, TooManyListeners
from takeup.engine.listener import Listener
from tests.store.scenes import ONE, add_worker

WORKERS = parse_channels(["worker_status"])


@pytest.fixture
def url(tmp_path: Path) -> str:
    """It does the same on every database."""
    return f"sqlite:///{tmp_path}/takeup.db"


@pytest.fixture
async def feed(app: App) -> AsyncIterator[Feed]:
    """One that nobody rings, with room for little."""
    made = Feed(app.store.feed, Bell(), period_s=3600, clients_max=3, waiting_max=4)
    yield made
    await made.close()
    assert not made._tasks


def seqs(listener: Listener) -> list[int]:
    return [item.told.seq for item in listener.take() if item.told.seq is not None]


async def test_s109_a_slow_reader_is_ended_and_nobody_waits_for_him(app: App, feed: Feed):
    await add_worker(app.store, "w")
    quick, slow = await feed.join(WORKERS), await feed.join(WORKERS)
    told: list[int] = []
    for _ in range(3):
        await app.store.operator.disable(["w"])
        await app.store.operator.enable(["w"])
        await feed.run_once()
        told += seqs(quick)
    assert (quick.ended, slow.ended) == (None, "slow")
    assert len(told) == 6
    place = [item.position for item in slow.take() if item.position][-1]
    back = await feed.join(WORKERS, place.text)
    assert seqs(back) == told[4:], "he goes on where he was"
    for listener in (quick, slow, back):
        feed.leave(listener)


async def test_s109_a_connection_that_takes_nothing_is_let_go(app: App, feed: Feed):
    listener = await feed.join(WORKERS)
    stuck = asyncio.Event()

    async def send(message) -> None:
        if message["type"] == "http.response.body":
            stuck.set()
            await asyncio.Event().wait()

    async def receive():
        await asyncio.Event().wait()

    async def is_welcome() -> bool:
        return True

    stream = EventStream(Line(feed, listener, is_welcome, Pulse(30.0), 3.0))
    answering = asyncio.create_task(stream({"type": "http"}, receive, send))
    await stuck.wait()
    listener.end("slow")
    await asyncio.wait_for(answering, 1)
    assert not feed._listeners


async def test_nothing_is_looked_at_while_nobody_listens(
    app: App, feed: Feed, monkeypatch: pytest.MonkeyPatch
):
    listener = await feed.join(WORKERS)
    assert feed._tasks
    feed.leave(listener)
    await asyncio.wait(feed._tasks, timeout=5)
    assert not feed._tasks

    async def never(*_: object, **__: object) -> None:
        raise AssertionError("somebody looked")

    monkeypatch.setattr(app.store.feed, "look", never)
    await feed.run_once()


async def test_there_is_a_limit_and_an_end(app: App, feed: Feed):
    listeners = [await feed.join(WORKERS) for _ in range(3)]
    with pytest.raises(TooManyListeners, match="3 listen"):
        await feed.join(WORKERS)
    feed.leave(listeners[0])
    listeners.append(await feed.join(WORKERS))
    await feed.close()
    assert [listener.ended for listener in listeners[1:]] == ["shutdown"] * 3
    with pytest.raises(TooManyListeners):
        await feed.join(WORKERS)


async def test_a_job_that_went_to_the_archive_unheard_is_told_of(app: App, feed: Feed):
    (job_id,) = await app.store.operator.submit([NewJob(ONE)])
    listener = await feed.join(parse_channels([f"job:{job_id}"]))
    for _ in range(2):  # the feed's own first look comes in between
        await feed.run_once()
    listener.take()
    await app.store.operator.cancel([job_id])
    await app.store.recovery.archive(0)
    await asyncio.sleep(0.3)  # when it is looked again how things stand
    await feed.run_once()
    await feed.run_once()
    assert [(item.told.kind, item.told.channel) for item in listener.take()] == [("reset", f"job:{job_id}")]
    feed.leave(listener)


async def test_whoever_missed_too_much_begins_anew(app: App, feed: Feed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("takeup.engine.feed.REPLAY_MAX", 3)
    await add_worker(app.store, "w")
    first = await feed.join(WORKERS)
    place = first.position.text
    for expected in (["disable", "enable"], ["reset"]):
        await app.store.operator.disable(["w"])
        await app.store.operator.enable(["w"])
        back = await feed.join(WORKERS, place)
        kinds = [item.told.kind for item in back.take() if item.position]
        assert kinds == (["reset"] if expected == ["reset"] else ["worker_status"] * 2)
        feed.leave(back)
    feed.leave(first)


async def test_a_look_that_fails_is_made_up_for(app: App, feed: Feed, monkeypatch: pytest.MonkeyPatch):
    await add_worker(app.store, "w")
    listener = await feed.join(WORKERS)
    for _ in range(2):  # as above
        await feed.run_once()
    listener.take()
    await app.store.operator.disable(["w"])
    with monkeypatch.context() as broken:

        async def breaks() -> None:
            raise ConnectionError("gone")

        broken.setattr(app.store.feed, "workers", breaks)
        with pytest.raises(ConnectionError):
            await feed.run_once()
    assert seqs(listener) == []
    await feed.run_once()
    assert len(seqs(listener)) == 1
    feed.leave(listener)
