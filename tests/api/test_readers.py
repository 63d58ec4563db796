"""Who takes nothing of his answer keeps nobody out and is let go; who takes little is waited for."""

import asyncio
import select
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from takeup.api import protocol
from takeup.app import App
from tests.api.conftest import key_of, served
from tests.api.test_videos import served as published
from tests.store.scenes import add_worker

PLACES = 8
LENGTH = 16 << 20
"""More than the system keeps for both sides."""
ROUND_S = 20.0
BITE = 1 << 20
PATH = "/videos/long/current/240p/00001.m4s"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/takeup.db"


@pytest.fixture
def more_settings() -> Mapping[str, object]:
    return {"stream_access": "public"}


class Hours:
    """The time by which the edge judges, and how often it looked."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.looks = 0
        self.seen: set[protocol.PatientProtocol] = set()

    @property
    def kept(self) -> int:
        """How many connections there are."""
        return sum(not one.transport.is_closing() for one in self.seen)

    async def pass_by(self, seconds: float) -> None:
        """Let so much time pass, seen by all who are looked at."""
        self.now_s += seconds
        until = self.looks + 2 * PLACES
        await true(lambda: self.looks >= until or not self.kept)


async def true(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not happened():
            await asyncio.sleep(0.005)


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    made, look = Hours(), protocol.PatientProtocol._look

    def counted(one: protocol.PatientProtocol) -> None:
        made.looks += 1
        made.seen.add(one)
        look(one)

    monkeypatch.setattr(protocol, "now", lambda: made.now_s)
    monkeypatch.setattr(protocol, "LOOK_S", 0.005)
    monkeypatch.setattr(protocol.PatientProtocol, "_look", counted)
    return made


@asynccontextmanager
async def long_video(app: App, folder: Path) -> AsyncIterator[str]:
    """Yields where a server with few places is; anybody may have a long file of it."""
    app.settings = replace(app.settings, connections_max=PLACES)
    key = await key_of(app, "operator")
    async with served(app) as address:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(base_url=address, headers=headers, trust_env=False) as client:
            made = await published(app, client, folder, slug="long")
        stream = app.intake.places.stream(made["id"])
        with (stream / "current" / "240p" / "00001.m4s").open("wb") as file:
            file.truncate(LENGTH)
        yield address


class Reader:
    """Asks for the long file, and reads when he is told to."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("http://").partition(":")
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        self.socket.connect((host, int(port)))
        self.socket.sendall(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        self.socket.settimeout(0)

    async def read(self, size: int) -> int:
        """So many bytes, or those that are left."""
        loop, count = asyncio.get_running_loop(), 0
        while count < size and (found := await loop.sock_recv(self.socket, size - count)):
            count += len(found)
        return count

    @property
    def has_answer(self) -> bool:
        """Whether something lies there for him."""
        return bool(select.select([self.socket], [], [], 0)[0])


@asynccontextmanager
async def readers(address: str, count: int) -> AsyncIterator[list[Reader]]:
    """So many who ask and take nothing yet."""
    with ExitStack() as opened:
        crowd = [Reader(address) for _ in range(count)]
        for one in crowd:
            opened.enter_context(one.socket)
            await true(lambda one=one: one.has_answer)
        yield crowd


async def test_s32_who_takes_nothing_makes_room(app: App, tmp_path: Path, hours: Hours):
    await add_worker(app.store, "w")
    key = (await app.store.keys.add("w", frozenset({"worker"}), worker_id="w")).text
    options = {"headers": {"Authorization": f"Bearer {key}"}, "trust_env": False}
    async with (
        long_video(app, tmp_path) as address,
        httpx2.AsyncClient(base_url=address, **options) as early,
        httpx2.AsyncClient(base_url=address, **options) as late,
    ):

        async def beats(worker: httpx2.AsyncClient) -> None:
            assert (await worker.post("/api/worker/heartbeat", json={})).json() == {"status": "active"}

        await beats(early)
        async with readers(address, PLACES - 1) as crowd:
            while sum(one.is_stalled for one in hours.seen) < len(crowd):
                await hours.pass_by(0.1)
            assert protocol.STALLED_S <= hours.now_s < protocol.STALLED_S_MAX
            assert hours.kept == PLACES
            await beats(late)
            await beats(early)
            assert hours.kept == PLACES
        (kept,) = early._transport._pool.connections
        assert kept.info().endswith("Request Count: 2"), "a worker that waits does not go for those"


async def test_s32_who_takes_nothing_is_let_go(app: App, tmp_path: Path, hours: Hours):
    async with long_video(app, tmp_path) as address, readers(address, PLACES // 2) as crowd:
        async with asyncio.timeout(20):
            while hours.kept == len(crowd):
                await hours.pass_by(1)
            assert hours.now_s > protocol.STALLED_S_MAX
            while hours.kept:
                await hours.pass_by(1)
        for one in crowd:
            with pytest.raises(ConnectionResetError):
                await one.read(LENGTH)


async def test_s32_who_takes_little_gets_it_all(app: App, tmp_path: Path, hours: Hours):
    """Also what the system has taken, and not yet sent, counts as waiting for him."""
    async with long_video(app, tmp_path) as address, readers(address, 1) as (reader,):
        count = 0
        while count < LENGTH:
            await hours.pass_by(ROUND_S)
            count += await reader.read(BITE)
        assert hours.now_s > 10 * protocol.STALLED_S_MAX
