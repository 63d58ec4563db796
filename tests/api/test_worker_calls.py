"""The calls of a worker elsewhere, by its own client and by hand: repeated, late and foreign ones too."""

import asyncio
import hashlib
import io
import secrets
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

import httpx2
import pytest

from takeup.app import App
from takeup.core.errors import Conflict, InvalidInput, LeaseLost, WorkerRefused
from takeup.core.ids import Token
from takeup.core.model import (
    Artifact,
    Completion,
    Failure,
    Held,
    Lease,
    LogLine,
    Progress,
    Step,
    StepEnd,
    WorkerSpec,
)
from takeup.core.plan import NewJob
from takeup.core.remote import PROTOCOL
from takeup.engine.enrolment import enrol
from takeup.engine.remote.client import Client
from takeup.engine.remote.source import HttpSource
from takeup.store.ops.claim import ClaimRequest
from tests.api.conftest import flow
from tests.api.test_edge import refused

SECRET = "a secret of the administrator"  # noqa: S105 - of this test alone
START = {"protocol": PROTOCOL, "version": "0", "slots": 1, "stages": ["*"]}


@pytest.fixture
def more_settings() -> Mapping[str, object]:
    return {"worker_admin_secret": SECRET}


@dataclass
class Afar:
    """A worker elsewhere: its calls, and the client that makes them."""

    id: str
    key: str
    client: Client
    source: HttpSource

    async def claim(self, request_id: str = "", secret: str = "", limit: int = 1) -> list[Lease]:
        request = ClaimRequest(
            self.id, request_id or secrets.token_hex(8), secret or secrets.token_hex(16), limit
        )
        return await self.source.claim(request)


Hire = Callable[[str], Awaitable[Afar]]


@pytest.fixture
async def hire(app: App, address: str) -> AsyncIterator[Hire]:
    clients: list[Client] = []

    async def hire(name: str) -> Afar:
        worker_id, key = await enrol(app.store, name)
        client = Client(address, key.text)
        clients.append(client)
        source = HttpSource(client, wait_s=0.0)
        await source.register(WorkerSpec(worker_id, name, "remote", 4))
        return Afar(worker_id, key.text, client, source)

    yield hire
    for client in clients:
        await client.close()


async def submit(app: App, count: int = 1) -> list[str]:
    ids = await app.submit([NewJob(flow, {"n": n}) for n in range(count)])
    await app.store.orchestrator.advance(ids)
    return ids


async def test_a_worker_registers_with_the_secret_and_works_with_its_key(app: App, address: str):
    async with httpx2.AsyncClient(base_url=address, trust_env=False) as http:
        body = {"worker_name": "attic", "capabilities": ["gpu"], "metadata": {"rack": 3}}
        refused(await http.post("/api/worker/register", json=body), 401, "unauthenticated")
        wrong = await http.post("/api/worker/register", json=body, headers={"X-Admin-Secret": "no"})
        assert SECRET not in wrong.text
        refused(wrong, 401, "unauthenticated")
        right = {"X-Admin-Secret": SECRET}
        for bad in (
            {**body, "metadata": {"x": "y" * 10_300}},
            {**body, "capabilities": ["storage"]},
            {**body, "status": "active"},
            {"worker_name": ""},
        ):
            refused(await http.post("/api/worker/register", json=bad, headers=right), 422, "invalid_input")
        made = (await http.post("/api/worker/register", json=body, headers=right)).json()
        key = {"Authorization": f"Bearer {made['api_key']}"}
        me = (await http.get("/api/worker/me", headers=key)).json()
        assert (me["worker_id"], me["name"]) == (made["worker_id"], "attic")
        known = await app.store.read.worker(made["worker_id"])
        assert (known.status, known.kind, known.capabilities) == ("offline", "remote", {"gpu"})
        assert (await http.post("/api/worker/start", json=START, headers=key)).json() == {"status": "active"}
        beaten = await http.post("/api/worker/heartbeat", json={"status": "idle"}, headers=key)
        assert beaten.json() == {"status": "active"}
        refused(await http.get("/api/jobs", headers=key), 403, "scope")
        assert (await http.post("/api/worker/leave", headers=key)).json() == {"status": "offline"}


async def test_versions_that_do_not_fit_are_refused(client, app: App):
    _, key = await enrol(app.store, "old")
    http = client(key.text)
    old = refused(await http.post("/api/worker/start", json={**START, "protocol": 99}), 409, "other_version")
    assert "protocol 99" in str(old["detail"])
    other = await http.post("/api/worker/start", json={**START, "pipelines": {"flow": 7, "own": 1}})
    assert "flow is of version 7" in str(refused(other, 409, "other_version")["detail"])


async def test_a_program_is_no_worker(client, app: App):
    key = await app.store.keys.add("odd", frozenset({"worker"}))
    refused(await client(key.text).post("/api/worker/heartbeat", json={}), 403, "worker_refused")


async def test_claim_renew_complete_and_all_of_it_again(app: App, hire: Hire):
    (job_id,) = await submit(app)
    afar = await hire("a")
    secret = secrets.token_hex(16)
    (lease,) = await afar.claim("once", secret)
    assert (lease.job_id, lease.stage, lease.brief) == (job_id, "only", ({"n": 0}, None))
    assert await afar.claim("once", secret) == [lease]  # its answer was lost
    assert await afar.claim() == []
    (answer,) = await afar.source.renew(afar.id, [Progress(lease.held, 50.0, "half")], request_id="r")
    assert (answer.accepted, answer.order) == (True, "continue")
    assert answer.expires_at
    assert answer.expires_at >= lease.expires_at
    assert (await app.store.read.task(lease.task_id)).progress_percent == 50
    seen = await afar.source.glance(afar.id, [lease.held])
    assert (seen.status, seen.held) == ("active", {lease.task_id})
    done = Completion(lease.held, {"made": 1})
    first = await afar.source.complete(afar.id, [done], request_id="c")
    assert [(one.accepted, one.status) for one in first] == [(True, "DONE")]
    again = await afar.source.complete(afar.id, [done], request_id="c2")
    assert [(one.accepted, one.status) for one in again] == [(True, "DONE")]
    assert (await app.store.read.task(lease.task_id)).result == {"made": 1}
    moves = [event.event for event in await app.store.read.events(job_id=job_id) if event.noun == "task"]
    assert moves.count("complete") == 1


async def test_a_late_or_foreign_token_is_refused_and_changes_nothing(
    app: App, hire: Hire, client: Callable[..., httpx2.AsyncClient]
):
    (job_id,) = await submit(app)
    first, second = await hire("first"), await hire("second")
    (lease,) = await first.claim()
    before = await app.store.read.events(job_id=job_id)
    for held in (
        lease.held,
        Held(lease.task_id, Token(lease.token.epoch + 1, lease.token.nonce)),
        Held(lease.task_id, Token(lease.token.epoch, "0" * 32)),
    ):
        caller = second if held == lease.held else first
        for answers in (
            await caller.source.renew(caller.id, [Progress(held)], request_id="x"),
            await caller.source.complete(caller.id, [Completion(held)], request_id="x"),
            await caller.source.fail(caller.id, [Failure(held, "no")], request_id="x"),
            await caller.source.release(caller.id, [held], request_id="x"),
        ):
            assert [one.accepted for one in answers] == [False]
    assert await app.store.read.events(job_id=job_id) == before
    raw = await client(second.key).post(
        "/api/worker/complete",
        json={
            "request_id": "x",
            "reports": [{"task_id": lease.task_id, "epoch": 1, "nonce": lease.token.nonce}],
        },
    )
    told = refused(raw, 409, "lease_lost")
    assert first.id not in raw.text
    assert told["answers"]
    with pytest.raises(LeaseLost):
        await second.source.inputs(lease, "only")
    line = LogLine(job_id, lease.task_id, lease.token.epoch, "info", "only", "mine")
    with pytest.raises(LeaseLost):
        await second.source.add_logs([line])
    await first.source.add_logs([line])
    assert [one.message for one in await app.store.read.logs(job_id)] == ["mine"]


async def test_commands_are_noted_by_their_own_worker_only(app: App, hire: Hire):
    (job_id,) = await submit(app)
    first, second = await hire("first"), await hire("second")
    (lease,) = await first.claim()
    step = Step(job_id, lease.task_id, lease.token.epoch, "step_1", "media", "ffmpeg -i x")
    with pytest.raises(LeaseLost):
        await second.source.add_steps([step], [0.5])
    known = await first.source.add_steps([step], [0.5])
    end = StepEnd(*known["step_1"], 0.1, 400, 0, "out", "", None)
    with pytest.raises(LeaseLost):
        await second.source.end_steps([end])
    await first.source.end_steps([end])
    (noted,) = await app.store.read.steps(job_id)
    assert (noted.exit_code, noted.stdout, noted.duration_ms) == (0, "out", 400)


async def test_a_failure_is_kept_and_a_release_gives_the_task_back(app: App, hire: Hire):
    await submit(app, 2)
    afar = await hire("a")
    one, two = await afar.claim(limit=2)
    (failed,) = await afar.source.fail(
        afar.id, [Failure(one.held, "it broke", retryable=False)], request_id="f"
    )
    (freed,) = await afar.source.release(afar.id, [two.held], reason="drained", request_id="g")
    assert (failed.status, freed.status) == ("FAILED", "READY")
    assert (await app.store.read.task(one.task_id)).error == "it broke"


async def test_a_claim_waits_for_work(app: App, hire: Hire):
    afar = await hire("a")
    waiting = HttpSource(afar.client, wait_s=30.0)
    request = ClaimRequest(afar.id, "patient", secrets.token_hex(16), 1)
    claim = asyncio.create_task(waiting.claim(request))
    await asyncio.sleep(0.2)
    assert not claim.done()
    (job_id,) = await submit(app)
    app.bell.ring("work")
    (lease,) = await asyncio.wait_for(claim, 10)
    assert lease.job_id == job_id
    other = asyncio.create_task(waiting.claim(ClaimRequest(afar.id, "hasty", secrets.token_hex(16), 1)))
    await asyncio.sleep(0.2)
    waiting.stop_waiting()
    assert await asyncio.wait_for(other, 10) == []


async def test_a_disabled_worker_is_refused(app: App, hire: Hire):
    await submit(app)
    afar = await hire("a")
    (lease,) = await afar.claim()
    await app.store.operator.disable([afar.id])
    await asyncio.sleep(0.6)  # as long as a caller is taken for who he was
    for call in (
        afar.claim(),
        afar.source.complete(afar.id, [Completion(lease.held)]),
        afar.source.heartbeat([]),
    ):
        with pytest.raises(WorkerRefused):
            await call


class TestFiles:
    """Outputs are sent under the token, and seen when their task is done."""

    @staticmethod
    async def send(
        http: httpx2.AsyncClient, lease: Lease, name: str, data: bytes, **headers: object
    ) -> httpx2.Response:
        told = {"Takeup-Token": f"{lease.token.epoch}.{lease.token.nonce}", "Upload-Length": str(len(data))}
        more = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        return await http.put(
            f"/api/worker/tasks/{lease.task_id}/outputs/{name}", content=data, headers={**told, **more}
        )

    async def test_sent_in_parts_checked_and_published(
        self, app: App, hire: Hire, client: Callable[..., httpx2.AsyncClient]
    ):
        (job_id,) = await submit(app)
        afar = await hire("a")
        http = client(afar.key)
        (lease,) = await afar.claim()
        data = secrets.token_bytes(3_000_000)
        half = await self.send(http, lease, "film/a.bin", data[:1_000_000], Upload_Length=len(data))
        assert half.json() == {"name": "film/a.bin", "size_bytes": 1_000_000}
        wrong = await self.send(http, lease, "film/a.bin", data[5:], Upload_Offset=5, Upload_Length=len(data))
        refused(wrong, 409, "wrong_offset")
        token = {"Takeup-Token": f"{lease.token.epoch}.{lease.token.nonce}"}
        held = await http.get(f"/api/worker/tasks/{lease.task_id}/outputs", headers=token)
        assert held.json() == {"files": {"film/a.bin": 1_000_000}}
        rest = await self.send(
            http, lease, "film/a.bin", data[1_000_000:], Upload_Offset=1_000_000, Upload_Length=len(data)
        )
        assert rest.json()["size_bytes"] == len(data)
        for bad in ("%2e%2e/x", "a//b", "manifest.json", "%00"):
            assert (await self.send(http, lease, bad, b"x")).status_code in (404, 422)
        told = Artifact("film/a.bin", "", hashlib.sha256(data).hexdigest(), len(data))
        liar = Artifact("film/a.bin", "", "0" * 64, len(data))
        with pytest.raises(InvalidInput, match="SHA-256"):
            await afar.source.complete(afar.id, [Completion(lease.held, {}, (liar,))])
        assert not list(app.settings.storage.glob("flow.v1/**/a.bin"))
        for _ in range(2):
            (answer,) = await afar.source.complete(afar.id, [Completion(lease.held, {"k": 1}, (told,))])
            assert answer.accepted
        (artifact,) = await app.store.read.artifacts(job_id)
        assert (app.settings.storage / artifact.key).read_bytes() == data
        refused(await self.send(http, lease, "late.bin", b"x"), 409, "lease_lost")

    async def test_a_stale_token_is_refused_before_the_body_is_read(self, app: App, hire: Hire, address: str):
        await submit(app)
        afar = await hire("a")
        (lease,) = await afar.claim()
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        token = f"{lease.token.epoch + 1}.{lease.token.nonce}"
        head = (
            f"PUT /api/worker/tasks/{lease.task_id}/outputs/a.bin HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {afar.key}\r\nTakeup-Token: {token}\r\n"
            "Upload-Length: 100000000\r\nContent-Length: 100000000\r\n\r\n"
        )
        writer.write(head.encode())
        assert b" 409 " in await asyncio.wait_for(reader.readline(), 5)
        writer.close()

    async def test_only_inputs_of_the_own_job_can_be_fetched(
        self, app: App, hire: Hire, client: Callable[..., httpx2.AsyncClient]
    ):
        await submit(app, 2)
        afar = await hire("a")
        http = client(afar.key)
        one, two = await afar.claim(limit=2)
        data = b"made of one"
        await self.send(http, one, "a.txt", data)
        told = Artifact("a.txt", "", hashlib.sha256(data).hexdigest(), len(data))
        await afar.source.complete(afar.id, [Completion(one.held, {}, (told,))])
        (artifact,) = await app.store.read.artifacts(one.job_id)
        token = {"Takeup-Token": f"{two.token.epoch}.{two.token.nonce}"}
        place = f"/api/worker/tasks/{two.task_id}/inputs"
        refused(await http.get(f"{place}/{artifact.key}", headers=token), 404, "not_found")
        refused(await http.get(f"{place}/..%2f..%2fetc%2fpasswd", headers=token), 404, "not_found")
        files = f"/api/worker/tasks/{two.task_id}/files/n"
        refused(await http.get(files, headers=token), 404, "not_found")
        old = {"Takeup-Token": f"{one.token.epoch}.{one.token.nonce}"}
        refused(
            await http.get(f"/api/worker/tasks/{one.task_id}/inputs/{artifact.key}", headers=old),
            409,
            "lease_lost",
        )
        refused(await http.get(f"{place}/{artifact.key}", headers={"Takeup-Token": "x"}), 400, "bad_header")

    async def test_two_at_once_and_no_room(self, app: App, hire: Hire):
        await submit(app)
        afar = await hire("a")
        (lease,) = await afar.claim()
        gate = asyncio.Event()

        async def slowly() -> AsyncIterator[bytes]:
            yield b"a"
            await gate.wait()
            yield b"b"

        headers = {
            "Takeup-Token": f"{lease.token.epoch}.{lease.token.nonce}",
            "Upload-Length": "2",
            "Upload-Offset": "0",
        }
        place = f"/api/worker/tasks/{lease.task_id}/outputs/a.bin"
        first = asyncio.create_task(afar.client.put(place, slowly(), headers))
        await asyncio.sleep(0.2)
        with pytest.raises(Conflict, match="being sent already"):
            await afar.client.put(place, _of(b"ab"), headers)
        gate.set()
        assert (await first)["size_bytes"] == 2
        huge = {**headers, "Upload-Length": str(1 << 40)}
        with pytest.raises(Exception, match="no room"):
            await afar.client.put(place, _of(b"ab"), huge)


async def _of(data: bytes) -> AsyncIterator[bytes]:
    yield data


class TestArchives:
    """A whole stream as one packed folder; the rules of unpacking are held to in tests/artifacts."""

    @staticmethod
    def packed(files: Mapping[str, bytes]) -> bytes:
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w:gz") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        return made.getvalue()

    @staticmethod
    async def send(
        http: httpx2.AsyncClient, lease: Lease, data: bytes, *, epoch: int | None = None, sha256: str = ""
    ) -> httpx2.Response:
        headers = {
            "Takeup-Token": f"{epoch or lease.token.epoch}.{lease.token.nonce}",
            "Upload-Length": str(len(data)),
            "Upload-Sha256": sha256 or hashlib.sha256(data).hexdigest(),
        }
        return await http.post(
            f"/api/worker/tasks/{lease.task_id}/outputs.tar.gz", content=data, headers=headers
        )

    async def test_only_a_whole_stream_of_the_holder_is_taken(
        self, app: App, hire: Hire, client: Callable[..., httpx2.AsyncClient]
    ):
        await submit(app)
        afar = await hire("a")
        http = client(afar.key)
        (lease,) = await afar.claim()
        segment = b"\x00\x00\x00\x18ftypiso5" + bytes(12)
        stream = {
            "master.m3u8": b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nlow/index.m3u8\n",
            "low/index.m3u8": b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n1.m4s\n#EXT-X-ENDLIST\n",
            "low/1.m4s": b"\x00\x00\x00\x18stypmsdh" + bytes(12),
        }
        good = self.packed(stream)
        refused(await self.send(http, lease, good, epoch=lease.token.epoch + 1), 409, "lease_lost")
        refused(await self.send(http, lease, good, sha256="0" * 64), 422, "checksum")
        refused(await self.send(http, lease, good[:-20]), 422, "bad_archive")
        without = self.packed({name: data for name, data in stream.items() if name != "low/1.m4s"})
        refused(await self.send(http, lease, without), 422, "bad_archive")
        outside = self.packed({**stream, "../x.m4s": segment})
        refused(await self.send(http, lease, outside), 422, "bad_archive")
        staged = app.settings.storage / ".staging"
        assert not any(file.is_file() for file in staged.rglob("*"))
        sent = await self.send(http, lease, good)
        assert sent.json() == {"files": {name: len(data) for name, data in stream.items()}}
        told = tuple(
            Artifact(name, "", hashlib.sha256(data).hexdigest(), len(data)) for name, data in stream.items()
        )
        (answer,) = await afar.source.complete(afar.id, [Completion(lease.held, {}, told)])
        assert answer.accepted
