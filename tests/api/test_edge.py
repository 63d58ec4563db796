"""The edge against those who try it: keys, scopes, bodies, heads, names; tests carry the row of the list."""

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from takeup.api import protocol
from takeup.api.access import FAILURES_MAX, KNOWN_S
from takeup.api.build import routes
from takeup.api.edge import BODY_BYTES_MAX
from takeup.app import App
from takeup.core.keys import Key, parse_key
from takeup.core.model import WorkerSpec
from tests.api.conftest import Client, key_of
from tests.api.test_jobs import create, refused


@pytest.fixture
def url(tmp_path: Path) -> str:
    """One database is enough to try the edge on."""
    return f"sqlite:///{tmp_path}/takeup.db"


SQL = ["'; drop table jobs; --", "%", "_", "a" * 100_000]


async def test_s1_nobody_gets_nothing(client: Client):
    for path in ("/api/jobs", "/api/workers", "/api/keys", "/api/health"):
        answer = await client().get(path)
        refused(answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert (await client().get("/health")).json() == {"status": "ok"}, "s36: not a word more"
    for body, kind in ((b"{", "application/json"), (b"{}", "text/plain")):
        answer = await client().post("/api/jobs", content=body, headers={"Content-Type": kind})
        refused(answer, 401, "unauthenticated")


async def test_s1_every_call_that_needs_somebody_refuses_nobody(client: Client):
    nobody, refused_calls = client(), 0
    for path, calls in routes().openapi()["paths"].items():
        for method, call in calls.items():
            if "security" in call:
                words = {
                    one["name"]: one["schema"].get("enum", ["x"])[0] for one in call.get("parameters", [])
                }
                answer = await nobody.request(method.upper(), path.format(**words))
                refused(answer, 401, "unauthenticated")
                refused_calls += 1
    assert refused_calls > 60


async def test_s2_a_key_of_the_wrong_form_asks_no_database(app: App, client: Client, monkeypatch):
    good = await key_of(app, "viewer")

    async def never(shown: Key) -> None:
        raise AssertionError(shown)

    monkeypatch.setattr(app.store.keys, "find", never)
    for wrong in ("x", good[:-1], good[:-1] + ("0" if good[-1] != "0" else "1"), good.upper(), good + "0"):
        refused(await client(wrong).get("/api/jobs"), 401, "unauthenticated")


async def test_s3_s4_unknown_and_wrong_are_answered_alike(app: App, client: Client):
    key = parse_key(await key_of(app, "viewer"))
    assert key
    unknown = key._replace(id="0" * 12)
    wrong = key._replace(secret=key.secret[::-1])
    told = [(await client(one.text).get("/api/jobs")).json() for one in (unknown, wrong)]
    assert told[0] == told[1]
    assert told[0]["status"] == 401


async def status_within(client: httpx2.AsyncClient, wanted: int, seconds: float) -> int:
    """The status of a call, as soon as it is the wanted one or the time is over."""
    end = time.monotonic() + seconds
    while (status := (await client.get("/api/jobs")).status_code) != wanted and time.monotonic() < end:
        await asyncio.sleep(0.02)
    return int(status)


async def test_s6_s7_s8_a_key_ends(app: App, client: Client):
    store = app.store.keys
    old, new = [(await store.add(name, frozenset({"read"}))) for name in ("old", "new")]
    for key in (old, new):
        assert (await client(key.text).get("/api/jobs")).status_code == 200
    assert await store.expire(old.id, after_s=0.5)
    assert (await client(old.text).get("/api/jobs")).status_code == 200, "both, while one takes over"
    assert await store.revoke(new.id)
    assert await status_within(client(new.text), 401, 1.0) == 401
    assert await status_within(client(old.text), 401, 2.0) == 401
    short = await store.add(
        "short", frozenset({"read"}), life_days=timedelta(milliseconds=1) / timedelta(days=1)
    )
    refused(await client(short.text).get("/api/jobs"), 401, "key_expired")


async def test_s9_s10_scopes(
    app: App, viewer: httpx2.AsyncClient, operator: httpx2.AsyncClient, client: Client
):
    job_id = await create(operator)
    refused(await viewer.post("/api/jobs", json={"pipeline": "flow"}), 403, "scope")
    refused(await viewer.post(f"/api/jobs/{job_id}/cancel", json={}), 403, "scope")
    refused(await viewer.patch(f"/api/jobs/{job_id}", json={"priority": 1}), 403, "scope")
    refused(await operator.get("/api/keys"), 403, "scope")
    await app.store.worker.register(WorkerSpec("w"))
    worker = await app.store.keys.add("w", frozenset({"worker"}), worker_id="w")
    refused(await client(worker.text).get("/api/jobs"), 403, "scope")


async def test_s11_s12_one_credential_in_its_place(app: App, client: Client):
    key = await key_of(app, "viewer")
    refused(await client().get(f"/api/jobs?x={key}"), 400, "key_in_url")
    refused(await client().get("/api/jobs?api_key=x"), 400, "key_in_url")
    for path in (f"/api/jobs?subject=Bearer%20{key}", f"/health?x={key}", f"/api/jobs/{key}"):
        answer = await client().get(path)
        refused(answer, 400, "key_in_url")
        assert key not in answer.text
    twice = httpx2.Headers([("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {key}")])
    refused(await client().get("/api/jobs", headers=twice), 400, "two_credentials")


async def test_s13_guessing_is_slowed_down(app: App, client: Client):
    good = client(await key_of(app, "viewer"))
    assert (await good.get("/api/jobs")).status_code == 200
    for _ in range(FAILURES_MAX):
        refused(await client("guess").get("/api/jobs"), 401, "unauthenticated")
    answer = await client("guess").get("/api/jobs")
    refused(answer, 429, "too_many_failures")
    assert int(answer.headers["retry-after"]) > 0
    elsewhere = client("guess", transport=httpx2.AsyncHTTPTransport(local_address="127.0.0.2"))
    refused(await elsewhere.get("/api/jobs"), 401, "unauthenticated")
    await asyncio.sleep(KNOWN_S)
    assert (await good.get("/api/jobs")).status_code == 200, "somebody else calls from the same address"


async def test_s14_keys_are_listed_without_what_opens(app: App, admin: httpx2.AsyncClient):
    made = (await admin.post("/api/keys", json={"name": "mine", "scopes": ["read"], "life_days": 2})).json()
    found = (await admin.get("/api/keys")).text
    assert made["id"] in found
    key = parse_key(made["key"])
    assert key
    assert not [secret for secret in (key.secret, key.hash) if secret in found]
    assert (await admin.delete(f"/api/keys/{made['id']}")).json() == {"id": made["id"], "changed": True}
    refused(await admin.delete(f"/api/keys/{'0' * 12}"), 404, "not_found")


async def test_s18_a_disabled_worker_is_refused(app: App, admin: httpx2.AsyncClient, client: Client):
    await app.store.worker.register(WorkerSpec("w"))
    made = (await admin.post("/api/workers/w/keys", json={"name": "first"})).json()
    refused(await client(made["key"]).get("/api/jobs"), 403, "scope")
    disabled = await admin.post("/api/workers/w/disable", json={"reason": "smokes"})
    assert disabled.json()["disabled"] is True
    other = (await admin.post("/api/workers/w/keys", json={"name": "second", "replaces": made["id"]})).json()
    refused(await client(other["key"]).get("/api/jobs"), 403, "worker_refused")
    assert (await admin.delete(f"/api/workers/w/keys/{other['id']}")).json()["changed"]
    refused(await admin.delete(f"/api/workers/x/keys/{made['id']}"), 404, "not_found")
    before = len((await admin.get("/api/keys")).json()["items"])
    wrong = await admin.post("/api/workers/w/keys", json={"name": "third", "replaces": "0" * 12})
    refused(wrong, 404, "not_found")
    assert len((await admin.get("/api/keys")).json()["items"]) == before, "nobody has a key that nobody saw"


@pytest.mark.parametrize("text", SQL)
async def test_s20_words_are_words(operator: httpx2.AsyncClient, text: str):
    job_id = await create(operator, spec={"text": text})
    assert (await operator.get(f"/api/jobs/{job_id}")).json()["spec"] == {"text": text}
    answer = await operator.get("/api/jobs", params={"subject": text[:500]})
    assert answer.json()["items"] == []
    refused(
        await operator.post("/api/jobs", json={"pipeline": "flow", "subject": "\x00"}), 422, "invalid_input"
    )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{" + b'"a":' * 10_000, 400),
        (b"[" * 100_000, 400),
        (b'{"pipeline": "flow", "pipeline": "flow"}', 400),
        (b'{"pipeline": "flow", "priority": NaN}', 400),
        (b'{"pipeline": "flow", "spec": {"n": 1e400}}', 422),
        (b'{"pipeline": "flow", "spec": {"n": %s}}' % (b"9" * 5000), 422),
        (b'{"pipeline": "flow", "priority": "5"}', 422),
        (b'{"pipeline": "flow", "priority": 11}', 422),
        (b'{"pipeline": "flow", "status": "DONE"}', 422),
        (b'{"pipeline": "flow", "not_before": "2030-01-31T18:00"}', 422),
        (b"\xff", 400),
        (b"", 422),
    ],
)
async def test_s21_s23_s27_bodies_that_mean_something_else(
    operator: httpx2.AsyncClient, body: bytes, status: int
):
    answer = await operator.post("/api/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await operator.get("/api/jobs")).json()["items"] == []


async def test_s21_large_bodies(operator: httpx2.AsyncClient):
    big = json.dumps({"pipeline": "flow", "spec": {"x": "x" * 10_000_000}}).encode()
    kind = {"Content-Type": "application/json"}
    refused(await operator.post("/api/jobs", content=big, headers=kind), 413, "too_large")

    async def pieces():
        for _ in range(BODY_BYTES_MAX // 50_000 + 2):
            yield b" " * 50_000

    refused(await operator.post("/api/jobs", content=pieces(), headers=kind), 413, "too_large")


async def test_s39_a_large_body_is_refused_before_it_is_read(operator: httpx2.AsyncClient, address: str):
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"POST /api/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Length: 99999999999\r\n\r\n".encode())
    assert (await asyncio.wait_for(reader.readline(), 5)).startswith(b"HTTP/1.1 413 ")
    writer.close()
    await writer.wait_closed()


async def raw(address: str, *parts: bytes) -> bytes:
    """What comes back for bytes that no client would send, until the server closes."""
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for part in parts:
        writer.write(part)
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    try:
        return await asyncio.wait_for(reader.read(1000), 30)
    except ConnectionResetError:
        return b"reset"
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.mark.parametrize("head", [b"X-a: b\r\n" * 20_000, b"X: " + b"x" * 200_000], ids=["many", "long"])
async def test_a_head_is_bounded(address: str, head: bytes):
    told = await raw(address, b"GET /health HTTP/1.1\r\nHost: x\r\n" + head)
    assert told.startswith((b"HTTP/1.1 431 ", b"reset"))


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "half"])
async def test_s30_who_sends_half_a_request_is_not_waited_for(
    address: str, monkeypatch: pytest.MonkeyPatch, sent: bytes
):
    monkeypatch.setattr(protocol, "HEAD_S_MAX", 0.2)
    monkeypatch.setattr(protocol, "LOOK_S", 0.05)
    assert await raw(address, sent) == b""


async def test_s30_a_body_must_move(address: str, app: App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "BODY_LOOK_S", 0.2)
    monkeypatch.setattr(protocol, "LOOK_S", 0.05)
    key = await key_of(app, "operator")
    head = f"POST /api/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n".encode()
    kind = b"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
    assert await raw(address, head, kind, b"{") == b""


async def test_s38_a_fault_is_told_without_its_secrets(
    app: App, viewer: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    async def breaks(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("postgresql://u:hunter2@h/db password=swordfish")

    monkeypatch.setattr(app.store.read, "jobs", breaks)
    answer = await viewer.get("/api/jobs")
    refused(answer, 500, "fault")
    assert answer.headers["x-content-type-options"] == "nosniff"
    told = answer.text + "".join(capfd.readouterr())
    assert not [secret for secret in ("hunter2", "swordfish") if secret in told]


async def test_s28_unknown_parameters_and_slashes(viewer: httpx2.AsyncClient):
    refused(await viewer.get("/api/jobs?sort=nonsense"), 422, "invalid_input")
    refused(await viewer.get("/api/jobs/"), 404, "not_found")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-23:59"])
async def test_moments_that_no_database_can_hold(operator: httpx2.AsyncClient, moment: str):
    refused(
        await operator.post("/api/jobs", json={"pipeline": "flow", "not_before": moment}),
        422,
        "invalid_input",
    )


async def test_s22_s25_types_and_methods(operator: httpx2.AsyncClient):
    plain = {"Content-Type": "text/plain"}
    answer = await operator.post("/api/jobs", content=b'{"pipeline": "flow"}', headers=plain)
    refused(answer, 415, "unsupported_media_type")
    for path, methods in (
        ("/api/jobs", "GET, POST"),
        ("/api/jobs/x", "GET, PATCH"),
        ("/api/jobs/x/logs", "GET"),
    ):
        wrong = await operator.delete(path)
        refused(wrong, 405, "method_not_allowed")
        assert wrong.headers["allow"] == methods
    refused(await operator.post("/api/jobs/x/explode", json={}), 404, "not_found")
    answer = await operator.get("/api/jobs", headers={"X-HTTP-Method-Override": "DELETE"})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["..%2f..%2fetc", "%00", "%c0%ae", "a" * 200])
async def test_s24_odd_paths(viewer: httpx2.AsyncClient, path: str):
    assert (await viewer.get(f"/api/jobs/{path}")).status_code in (404, 422)


async def test_answers_carry_what_browsers_need(client: Client):
    headers = (await client().get("/health")).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "server" not in headers


class TestNamedHosts:
    @pytest.fixture
    def more_settings(self) -> Mapping[str, object]:
        return {"allowed_hosts": "takeup.example, 127.0.0.1"}

    async def test_s33_only_these_names_are_answered(self, client: Client, address: str):
        assert (await client().get("/health")).status_code == 200
        for host in ("evil.example", "evil.example:80", "x@evil.example"):
            refused(await client().get("/health", headers={"Host": host}), 400, "bad_host")
        head = (
            b"GET /health HTTP/1.1\r\nHost: evil.example\r\nHost: takeup.example\r\nConnection: close\r\n\r\n"
        )
        assert (await raw(address, head)).startswith(b"HTTP/1.1 400 ")
        forwarded = {"Host": "takeup.example:8080", "X-Forwarded-Host": "evil.example"}
        assert (await client().get("/health", headers=forwarded)).status_code == 200
