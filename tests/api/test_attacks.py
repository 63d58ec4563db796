"""More attacks on the edge: guessing by the clock, smuggling, idle crowds, what is of others, other sites."""

import asyncio
import contextlib
import random
import statistics
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from takeup.app import App
from takeup.core.errors import StoreUnavailable
from takeup.core.keys import Key, parse_key
from tests.api.conftest import Client, key_of, served
from tests.api.contract_scene import SECRET, SETTINGS
from tests.api.test_jobs import create, refused
from tests.api.test_uploads import PART, TUS, begin
from tests.hooks.receiver import receiving, says
from tests.store.scenes import add_worker

TRIES = 10_000
SIGMAS = 3
ROUNDS = 3
CROWD, PLACES = 300, 100


@pytest.fixture
def url(tmp_path: Path) -> str:
    """One database is enough to try the edge on."""
    return f"sqlite:///{tmp_path}/takeup.db"


@pytest.fixture
def more_settings() -> Mapping[str, object]:
    return SETTINGS


async def spent(app: App, shown: Key) -> int:
    """Nanoseconds until a key is known to be nobody's."""
    before = time.perf_counter_ns()
    assert await app.store.keys.find(shown) is None
    return time.perf_counter_ns() - before


def noise(times: list[int]) -> float:
    """How far the median of these may be off: of half of them against the other, by pieces."""
    pieces = [statistics.median(times[start::20]) for start in range(20)]
    return statistics.stdev(pieces) / len(pieces) ** 0.5


async def test_s5_an_unknown_id_takes_as_long_as_a_wrong_secret(app: App):
    """Both in turn and in no order, so that whatever else the machine does befalls both."""
    key = parse_key(await key_of(app, "viewer"))
    assert key
    shown = (key._replace(id="0" * 12), key._replace(secret=key.secret[::-1]))
    order = random.Random(5)
    for _ in range(ROUNDS):
        times: tuple[list[int], list[int]] = ([], [])
        for _ in range(TRIES // 2 // ROUNDS):
            for which in order.sample((0, 1), 2):
                times[which].append(await spent(app, shown[which]))
        apart = abs(statistics.median(times[0]) - statistics.median(times[1]))
        bound = SIGMAS * (noise(times[0]) ** 2 + noise(times[1]) ** 2) ** 0.5
        if apart <= bound:
            return
    pytest.fail(f"the medians are {apart} ns apart, which is more than {bound:.0f} ns of noise")


@pytest.mark.parametrize("shown", [None, "", "x", SECRET[:-1], SECRET + "x", SECRET.upper(), "ü"])
async def test_s19_nobody_registers_without_the_secret(app: App, client: Client, shown: str | None):
    headers = {"X-Admin-Secret": shown.encode()} if shown is not None else {}
    answer = await client().post("/api/worker/register", json={"worker_name": "x"}, headers=headers)
    refused(answer, 401, "unauthenticated")
    assert await app.store.read.workers() == []


async def test_s26_what_others_send_is_not_there(app: App, operator: httpx2.AsyncClient, client: Client):
    path = await begin(operator)
    other = client(await key_of(app, "operator"))
    for told in (
        await other.get(path),
        await other.patch(path, content=b"x", headers={**PART, "Upload-Offset": "0"}),
        await other.delete(path, headers=TUS),
    ):
        refused(told, 404, "not_found")
    nowhere = f"/api/uploads/upl_{'0' * 24}"
    assert (await other.head(path, headers=TUS)).status_code == 404
    unknown, strange = [(await other.get(one)).json() for one in (nowhere, path)]
    assert unknown["detail"].replace(nowhere[-28:], "") == strange["detail"].replace(path[-28:], "")
    assert (await operator.get(path)).status_code == 200


HEAD = b"POST /health HTTP/1.1\r\nHost: x\r\n"
NEXT = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
SMUGGLED = {
    "two lengths": HEAD + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n" + NEXT,
    "length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + NEXT,
    "chunks and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + NEXT,
    "chunked is not the last": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + NEXT,
    "a blank before the colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + NEXT,
    "a length that is none": HEAD + b"Content-Length: +5\r\n\r\nhello" + NEXT,
    "bare line feeds": b"GET /health HTTP/1.1\nHost: x\n\n" + NEXT,
    "a bare line feed in the head": HEAD.replace(b"x\r\n", b"x\n") + b"Content-Length: 0\r\n\r\n" + NEXT,
    "a bare line feed after a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n" + NEXT,
    "a size of a chunk that is none": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + NEXT,
}


@pytest.mark.parametrize("sent", SMUGGLED.values(), ids=SMUGGLED)
async def test_s31_what_two_could_read_in_two_ways_is_refused(address: str, sent: bytes):
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    told = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    head, _, body = told.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 "), told
    assert b"application/problem+json" in head
    assert b'"code":"bad_request"' in body
    assert told.count(b"HTTP/1.1 ") == 1, "what came behind it is not answered, and the connection is closed"


INNER = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
UPGRADE = b"Host: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /health HTTP/1.1\r\n" + UPGRADE + b"\r\n", 200),
        (b"GET /health HTTP/1.1\r\n" + UPGRADE + b"Content-Length: %d\r\n\r\n" % len(INNER), 400),
        (b"POST /api/login HTTP/1.1\r\n" + UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n", 400),
        (b"CONNECT example.org:80 HTTP/1.1\r\nHost: example.org:80\r\n\r\n", 400),
    ],
)
async def test_s31_behind_a_change_of_protocol_no_request_is_read(address: str, head: bytes, status: int):
    host, _, port = address.removeprefix("http://").partition(":")
    for at_once, later in ((head, INNER), (head + INNER, b"")):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(at_once)
        told = await asyncio.wait_for(reader.readline(), 5)
        writer.write(later)
        with contextlib.suppress(ConnectionError):
            told += await asyncio.wait_for(reader.read(), 5)
        writer.close()
        assert told.startswith(b"HTTP/1.1 %d " % status), told
        assert told.count(b"HTTP/1.1 ") == 1, told


@pytest.mark.parametrize("line", [b"X-A: " + b"a" * 70_000 + b"\r\n", b"a: b\r\n" * 20_000])
async def test_s31_a_head_that_is_too_large_is_refused_though_it_comes_at_once(address: str, line: bytes):
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\n" + line + b"\r\n")
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 431 ")
    writer.close()


async def test_s32_an_idle_crowd_keeps_nobody_out(app: App):
    app.settings = replace(app.settings, connections_max=PLACES)
    await add_worker(app.store, "w")
    key = (await app.store.keys.add("w", frozenset({"worker"}), worker_id="w")).text
    options = {"headers": {"Authorization": f"Bearer {key}"}, "trust_env": False}
    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(served(app))
        early, late = [
            await stack.enter_async_context(httpx2.AsyncClient(base_url=address, **options)) for _ in range(2)
        ]

        async def beats(worker: httpx2.AsyncClient) -> None:
            assert (await worker.post("/api/worker/heartbeat", json={})).json() == {"status": "active"}

        await beats(early)
        host, _, port = address.removeprefix("http://").partition(":")
        crowd = [await asyncio.open_connection(host, int(port)) for _ in range(CROWD)]
        await beats(late)
        await beats(early)
        gone = 0
        async with asyncio.timeout(10):
            for reader, _ in crowd[: CROWD - PLACES + 2]:
                gone += await ended(reader)
        assert gone == CROWD - PLACES + 2, "who came first and said nothing makes room"
        (opened,) = early._transport._pool.connections  # it is the one from before
        assert opened.info().endswith("Request Count: 2"), opened.info()
        for _, writer in crowd:
            writer.close()


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("path", ["/api/jobs", "/api/uploads", "/api/login", "/health", "/", "/openapi.json"])
async def test_s34_no_other_origin_is_let_in(client: Client, operator: httpx2.AsyncClient, path: str):
    origin = {"Origin": "https://evil.example"}
    asked = {
        **origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    for answer in (
        await client().request("OPTIONS", path, headers=asked),
        await operator.request("OPTIONS", path, headers=asked),
        await operator.get(path, headers=origin),
    ):
        allowed = [name for name in answer.headers if name.startswith("access-control-")]
        assert allowed == [], (path, answer.headers)


async def test_s36_health_says_one_word(app: App, client: Client, monkeypatch: pytest.MonkeyPatch):
    answer = await client().get("/health")
    assert answer.json() == {"status": "ok"}
    assert {"server", "via", "x-powered-by"}.isdisjoint(answer.headers)
    refused(await client().get("/api/health"), 401, "unauthenticated")

    async def silent() -> None:
        raise StoreUnavailable(f"nothing answers at sqlite:///{app.settings.data_dir}")

    monkeypatch.setattr(app.store.read, "now", silent)
    told = refused(await client().get("/health"), 503, "unavailable")
    assert str(app.settings.data_dir) not in str(told)
    assert "sqlite" not in str(told).lower()


async def test_s121_s125_what_a_webhook_answers_is_text(app: App, admin: httpx2.AsyncClient):
    script = "<script>document.title='taken'</script>\x00\x1b[31m"
    async with receiving(says(200, script * 200)) as receiver:
        made = (await admin.post("/api/webhooks", json={"url": f"http://127.0.0.1:{receiver.port}/"})).json()
        assert made["id"].replace("_", "").isalnum()
        await admin.post(f"/api/webhooks/{made['id']}/test")
        sender = next(loop for loop in app.webhook_loops() if hasattr(loop, "settle"))
        await sender.run_once()
        await sender.settle()
        (got,) = receiver.received
        assert got.headers["webhook-id"].replace("_", "").isalnum(), "nothing in it looks like what parts it"
    shown = await admin.get(f"/api/webhooks/{made['id']}/deliveries")
    assert (shown.headers["content-type"], shown.headers["x-content-type-options"]) == (
        "application/json",
        "nosniff",
    )
    (sent,) = shown.json()["items"]
    assert sent["answer"].startswith("<script>")
    assert len(sent["answer"].encode()) <= 1024
    assert "\x00" not in sent["answer"]
    assert b"\x1b" not in shown.content, "no terminal is told anything by it"


async def test_s110_a_job_that_is_not_there_is_not_listened_to(operator: httpx2.AsyncClient):
    await create(operator)
    for channel in ("job:job_nobody", "transcode_progress:vid_nobody", "transcode_complete:vid_nobody"):
        answer = await operator.get(
            "/api/events", params=[("channel", "worker_status"), ("channel", channel)]
        )
        refused(answer, 404, "not_found")
        assert "event:" not in answer.text
