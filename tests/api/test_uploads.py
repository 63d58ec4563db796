"""Files in parts, and what no file may do: be too large, fill the disk, come damaged or twice at once."""

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx2
import pytest

from takeup.api import edge, protocol
from takeup.app import App
from takeup.engine.videos import intake, receiving
from takeup.engine.videos.errors import UploadBusy
from takeup.testing.clocks import ManualClock
from tests.api.conftest import Client, key_of
from tests.api.test_jobs import refused
from tests.api.test_videos import RAW, files, send, sent
from tests.videos.making import sound

WAV = sound(1.0)
TUS = {"Tus-Resumable": "1.0.0"}
PART = {**TUS, "Content-Type": "application/offset+octet-stream"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/takeup.db"


def said(**values: str) -> dict[str, str]:
    pairs = (f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in values.items())
    return {"Upload-Metadata": ",".join(pairs)}


async def begin(client: httpx2.AsyncClient, length: object = len(WAV), **metadata: str) -> str:
    headers = {**TUS, "Upload-Length": str(length), **said(**metadata)}
    answer = await client.post("/api/uploads", headers=headers)
    assert (answer.status_code, answer.headers["upload-offset"]) == (201, "0"), answer.text
    return answer.headers["location"]


async def go_on(
    client: httpx2.AsyncClient, path: str, place: int, data: object, **more: str
) -> httpx2.Response:
    headers = {**PART, "Upload-Offset": str(place), **{k.replace("_", "-"): v for k, v in more.items()}}
    return await client.patch(path, content=data, headers=headers)


async def place_of(client: httpx2.AsyncClient, path: str) -> int:
    answer = await client.head(path, headers=TUS)
    assert answer.status_code == 200
    return int(answer.headers["upload-offset"])


async def test_a_file_in_parts_becomes_a_video(app: App, operator: httpx2.AsyncClient):
    path = await begin(operator, filename="clip.wav", title="In parts", slug="in-parts")
    for place in (0, 5000, 10_000):
        assert await place_of(operator, path) == place
        answer = await go_on(operator, path, place, WAV[place : place + 5000])
        assert (answer.status_code, answer.headers["upload-offset"]) == (
            204,
            str(place + len(WAV[place : place + 5000])),
        )
        assert "takeup-video-id" not in answer.headers
    assert (await operator.get(path)).json()["offset"] == 15_000
    answer = await go_on(operator, path, 15_000, WAV[15_000:])
    assert (answer.status_code, answer.headers["takeup-slug"]) == (204, "in-parts")
    video = (await operator.get(f"/api/videos/{answer.headers['takeup-video-id']}")).json()
    assert (video["title"], video["file_name"]) == ("In parts", "clip.wav")
    assert (video["sha256"], video["job_id"]) == (
        hashlib.sha256(WAV).hexdigest(), answer.headers["takeup-job-id"],
    )  # fmt: skip
    assert (await operator.get(path)).json()["state"] == "done"
    assert await place_of(operator, path) == len(WAV)
    refused(await go_on(operator, path, 0, WAV), 409, "wrong_offset")
    assert (await operator.delete(path, headers=TUS)).status_code == 204
    assert files(app) == [f"uploads/{video['id']}.source"]


async def test_what_is_spoken_here(operator: httpx2.AsyncClient, client: Client):
    answer = await operator.request("OPTIONS", "/api/uploads")
    assert (answer.status_code, answer.headers["tus-version"]) == (204, "1.0.0")
    assert answer.headers["tus-extension"] == "creation,expiration,checksum,termination"
    old = await operator.post("/api/uploads", headers={"Tus-Resumable": "0.2.2", "Upload-Length": "5"})
    refused(old, 412, "wrong_version")
    assert old.headers["tus-version"] == "1.0.0"
    refused(await client().post("/api/uploads", headers=TUS), 401, "unauthenticated")
    for length in ("", "-1", "x", "1" * 20):
        wrong = await operator.post("/api/uploads", headers={**TUS, "Upload-Length": length})
        refused(wrong, 400, "bad_header")
    wrong = await operator.post(
        "/api/uploads", headers={**TUS, "Upload-Length": "5", "Upload-Metadata": "a !"}
    )
    refused(wrong, 400, "bad_header")
    refused(await operator.post("/api/uploads", headers={**TUS, "Upload-Length": "0"}), 422, "not_media")


async def until_sent(part: Path) -> None:
    """Wait until a request has this file."""
    while True:
        try:
            with receiving.opened(part):
                pass
        except UploadBusy:
            return
        await asyncio.sleep(0.01)


async def test_s46_the_wrong_place_and_two_at_once(app: App, operator: httpx2.AsyncClient):
    path = await begin(operator)
    assert (await go_on(operator, path, 0, WAV[:100])).status_code == 204
    for place in (0, 99, 101):
        refused(await go_on(operator, path, place, b"x"), 409, "wrong_offset")
    may_end = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield WAV[100:200]
        await may_end.wait()
        yield WAV[200:]

    first = asyncio.create_task(go_on(operator, path, 100, slowly()))
    upload = (await app.store.uploads.page())[0]
    await until_sent(app.intake.places.part(upload.id))
    refused(await go_on(operator, path, 100, WAV[100:]), 409, "upload_busy")
    refused(await operator.delete(path, headers=TUS), 409, "upload_busy")
    may_end.set()
    assert (await first).headers["takeup-video-id"] == upload.video_id


async def test_a_part_is_checked(operator: httpx2.AsyncClient):
    path = await begin(operator)
    for name in ("sha256", "sha1", "md5"):
        wrong = f"{name} {base64.b64encode(hashlib.new(name, b'x').digest()).decode()}"
        refused(await go_on(operator, path, 0, WAV[:100], Upload_Checksum=wrong), 460, "checksum")
        assert await place_of(operator, path) == 0
    for wrong in ("crc32 AAAA", "sha1 !", "sha1 AAAA"):
        refused(await go_on(operator, path, 0, WAV[:100], Upload_Checksum=wrong), 400, "bad_header")
    right = f"md5 {base64.b64encode(hashlib.md5(WAV[:100]).digest()).decode()}"  # noqa: S324 - as the client says
    assert (await go_on(operator, path, 0, WAV[:100], Upload_Checksum=right)).status_code == 204


async def test_what_turns_out_to_be_no_media_is_gone(app: App, operator: httpx2.AsyncClient):
    path = await begin(operator, 10)
    refused(await go_on(operator, path, 0, b"0123456789"), 422, "not_media")
    assert (await operator.head(path, headers=TUS)).status_code == 404
    assert files(app) == []


async def test_an_upload_is_ended(app: App, operator: httpx2.AsyncClient, client: Client):
    path = await begin(operator)
    await go_on(operator, path, 0, WAV[:100])
    other = client(await key_of(app, "operator"))
    refused(await other.delete(path, headers=TUS), 404, "not_found")
    refused(await go_on(other, path, 100, WAV[100:]), 404, "not_found")
    assert (await operator.delete(path, headers=TUS)).status_code == 204
    refused(await operator.delete(path, headers=TUS), 404, "not_found")
    assert files(app) == []


async def test_what_came_before_a_break_stays(app: App, operator: httpx2.AsyncClient, address: str):
    path = await begin(operator)
    key = operator.headers["authorization"]
    host, _, port = address.removeprefix("http://").partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"PATCH {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {key}\r\nTus-Resumable: 1.0.0\r\n"
    kind = f"Content-Type: {PART['Content-Type']}\r\nUpload-Offset: 0\r\nContent-Length: {len(WAV)}\r\n\r\n"
    writer.write((head + kind).encode() + WAV[:3000])
    await writer.drain()
    upload = (await app.store.uploads.page())[0]
    while not app.intake.places.part(upload.id).exists():
        await asyncio.sleep(0.01)
    writer.close()
    await writer.wait_closed()
    while app.intake.size(upload) == 0:
        await asyncio.sleep(0.01)
    assert await place_of(operator, path) == 3000
    assert (await go_on(operator, path, 3000, WAV[3000:])).headers["takeup-video-id"] == upload.video_id


async def test_a_part_beyond_the_end(operator: httpx2.AsyncClient):
    path = await begin(operator, 10)
    refused(await go_on(operator, path, 0, b"x" * 11), 413, "too_large")

    async def chunked() -> AsyncIterator[bytes]:
        yield b"x" * 11

    refused(await go_on(operator, path, 0, chunked()), 413, "too_large")
    wrong = await operator.patch(path, content=b"x", headers={**TUS, "Upload-Offset": "0", **RAW})
    refused(wrong, 415, "wrong_part")


class TestLimits:
    @pytest.fixture
    def more_settings(self) -> Mapping[str, object]:
        size = 3_000_000 / 2**30
        return {"upload_max_gb": size, "upload_quota_gb": 2.5 * size, "upload_quota_count": 3}

    async def raw(self, address: str, app: App, *lines: str) -> tuple[bytes, asyncio.StreamWriter]:
        """The first line of the answer to a head alone."""
        host, _, port = address.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        key = f"Authorization: Bearer {await key_of(app, 'operator')}"
        kind = "Content-Type: video/mp4"
        writer.write(
            "\r\n".join(["POST /api/videos HTTP/1.1", f"Host: {host}", key, kind, *lines, "", ""]).encode()
        )
        return await asyncio.wait_for(reader.readline(), 5), writer

    async def test_s39_a_file_that_is_too_large_is_refused_before_it_comes(self, app: App, address: str):
        told, writer = await self.raw(address, app, "Content-Length: 3000001", "Expect: 100-continue")
        assert told.startswith(b"HTTP/1.1 413 ")
        writer.close()
        told, writer = await self.raw(address, app, "Content-Length: 2900000", "Expect: 100-continue")
        assert told.startswith(b"HTTP/1.1 100 "), "a file has a bound of its own"
        writer.close()
        assert [name for name in files(app) if not name.endswith(".part")] == []

    async def test_who_may_not_send_is_told_before_the_file_comes(self, address: str):
        host, _, port = address.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /api/videos HTTP/1.1\r\nHost: {host}\r\nContent-Type: video/mp4\r\n"
        writer.write(f"{head}Content-Length: 2900000\r\n\r\n".encode())
        writer.write(b"x" * 1_500_000)
        told = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).lower()
        assert told.startswith(b"http/1.1 401 ")
        assert b"\r\nconnection: close\r\n" in told
        writer.write(b"x" * 1_400_000)
        assert b"unauthenticated" in await asyncio.wait_for(reader.read(), 5), "and the connection is closed"
        writer.close()

    async def test_s40_chunks_beyond_the_bound(self, app: App, operator: httpx2.AsyncClient):
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(70):
                yield b"x" * 50_000

        answer = await send(operator, pieces())
        refused(answer, 413, "too_large")
        assert answer.headers["connection"] == "close"
        assert files(app) == []
        assert await app.store.uploads.page() == []

    async def test_a_bound_of_its_own_for_files_alone(self, operator: httpx2.AsyncClient):
        body = b"x" * (edge.BODY_BYTES_MAX + 1)
        refused(await send(operator, body), 422, "not_media")
        kind = {"Content-Type": "application/json"}
        refused(await operator.post("/api/jobs", content=body, headers=kind), 413, "too_large")
        refused(await operator.post("/api/uploads", content=body, headers=TUS), 413, "too_large")

    async def test_s51_a_quota_for_each_key(self, app: App, operator: httpx2.AsyncClient, client: Client):
        paths = [await begin(operator, 3_000_000) for _ in range(2)]
        headers = {**TUS, "Upload-Length": "3000000"}
        refused(await operator.post("/api/uploads", headers=headers), 429, "quota")
        await begin(operator, 100)
        refused(await send(operator), 429, "quota")
        await begin(client(await key_of(app, "operator")), 3_000_000)
        await operator.delete(paths[0], headers=TUS)
        assert (await send(operator)).status_code == 201
        refused(
            await operator.post("/api/uploads", headers={**TUS, "Upload-Length": "3000001"}), 413, "too_large"
        )

    async def test_s41_room_for_everything_that_comes(
        self, app: App, operator: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ):
        reserve = app.intake.limits.reserve_bytes
        monkeypatch.setattr(intake.Intake, "_free_bytes", lambda _: reserve + 1_500_000)
        path = await begin(operator, 1_000_000)
        headers = {**TUS, "Upload-Length": "600000"}
        refused(await operator.post("/api/uploads", headers=headers), 507, "no_room")
        refused(await send(operator, b"x" * 600_000), 507, "no_room")
        assert files(app) == []
        assert len(await app.store.uploads.page()) == 1, "what was refused reserves nothing"
        assert (await go_on(operator, path, 0, b"x" * 200_000)).status_code == 204
        await begin(operator, 600_000)

    async def test_room_that_goes_while_a_file_comes(
        self, app: App, operator: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(receiving, "LOOK_EVERY_BYTES", 1)
        monkeypatch.setattr(
            receiving.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1, "total": 1 << 40})()
        )
        monkeypatch.setattr(intake.Intake, "_check_room", lambda _: asyncio.sleep(0))
        refused(await send(operator, b"x" * 2_500_000), 507, "no_room")
        assert files(app) == []


async def test_s30_a_file_must_move(
    app: App, operator: httpx2.AsyncClient, address: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(protocol, "BODY_LOOK_S", 0.2)
    monkeypatch.setattr(protocol, "LOOK_S", 0.05)
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    key = operator.headers["authorization"]
    head = f"POST /api/videos HTTP/1.1\r\nHost: {host}\r\nAuthorization: {key}\r\nContent-Type: video/mp4\r\n"
    writer.write(f"{head}Content-Length: 100000\r\n\r\nx".encode())
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    while await app.store.uploads.page() or files(app):  # nothing of it stays
        await asyncio.sleep(0.01)


async def test_a_video_that_is_sent_while_others_are(operator: httpx2.AsyncClient):
    made = await asyncio.gather(*(sent(operator, title="same") for _ in range(4)))
    assert len({one["slug"] for one in made}) == 4


class TestTime:
    """How long it is waited for the next part."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    async def test_a_part_says_until_when_the_next_one_is_waited_for(
        self, app: App, operator: httpx2.AsyncClient, clock: ManualClock
    ):
        path = await begin(operator)
        first = (await operator.head(path, headers=TUS)).headers["upload-expires"]
        clock.advance(0.9 * app.intake.limits.life_s)
        answer = await go_on(operator, path, 0, WAV[:1000])
        extended = (await operator.head(path, headers=TUS)).headers["upload-expires"]
        assert answer.headers["upload-expires"] == extended
        assert parsedate_to_datetime(extended) > parsedate_to_datetime(first)
