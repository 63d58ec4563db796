"""Clients of tus that are not ours: files come whole over broken connections, and only media stays."""

import asyncio
import hashlib
import io
import random
import wave
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiotus
import pytest
from tusclient.client import TusClient
from tusclient.exceptions import TusCommunicationError, TusUploadFailed

from takeup.testing.proxy import FaultProxy
from tests.api.test_jobs import refused
from tests.hosting import Server, running

BROKEN_AT = (0.156, 0.25, 0.06)
"""Amid the body of three requests, as parts of the file."""
PIECE = 0.3
NO_STREAMS = ("--workers", "0", "--stages", "transcode/publish")
RETRIES = 20

Send = Callable[[str, str, Path], Awaitable[None]]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that makes no streams."""
    with running(Server(tmp_path, *NO_STREAMS)) as one:
        yield one


def noise(path: Path, megabytes: int) -> str:
    """A large sound file that says nothing twice; its SHA-256."""
    luck = random.Random(megabytes)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(48_000)
        for _ in range(megabytes):
            file.writeframesraw(luck.randbytes(1_000_000))
    with path.open("rb") as made:
        return hashlib.file_digest(made, "sha256").hexdigest()


async def by_tuspy(address: str, key: str, path: Path) -> None:
    """All of it in one request, and again from where it broke off."""
    client = TusClient(f"{address}/api/uploads", headers={"Authorization": f"Bearer {key}"})
    told = {"filename": path.name, "title": "Sent"}
    with path.open("rb") as file:
        uploader = client.uploader(file_stream=file, metadata=told, retries=RETRIES, retry_delay=0.05)
        await asyncio.to_thread(uploader.upload)


async def by_aiotus(address: str, key: str, path: Path) -> None:
    """In pieces, each asked for again where it broke off."""
    patience = aiotus.RetryConfiguration(retry_attempts=RETRIES, max_retry_period_seconds=0.05)
    with path.open("rb") as file:
        place = await aiotus.upload(
            f"{address}/api/uploads",
            file,
            {"filename": path.name.encode(), "title": b"Sent"},
            config=patience,
            headers={"Authorization": f"Bearer {key}"},
            chunksize=int(PIECE * path.stat().st_size),
        )
    assert place is not None


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")  # what that client does
@pytest.mark.parametrize("megabytes", [25, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("send", [by_tuspy, by_aiotus])
async def test_a_file_comes_whole_over_three_broken_connections(
    tmp_path: Path, send: Send, megabytes: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("no_proxy", "*")
    path = tmp_path / "film.wav"
    sha256 = await asyncio.to_thread(noise, path, megabytes)
    server = Server(tmp_path, *NO_STREAMS)
    proxy = FaultProxy(
        "127.0.0.1", server.port, breaks=[int(1_000_000 * megabytes * part) for part in BROKEN_AT]
    )
    address = await proxy.start()
    if send is by_aiotus:  # it knows no places that are paths
        server.environment["TAKEUP_PUBLIC_URL"] = address
    try:
        await asyncio.to_thread(server.start)
        key = await asyncio.to_thread(server.key)
        await send(address, key, path)
        assert proxy.counts["break"] == len(BROKEN_AT)
        await asyncio.to_thread(check_arrived, server, key, path, sha256)
    finally:
        await proxy.close()
        await asyncio.to_thread(server.stop)


async def test_what_was_acknowledged_outlives_a_kill(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("no_proxy", "*")
    path = tmp_path / "film.wav"
    sha256 = await asyncio.to_thread(noise, path, 5)
    key = server.key()
    client = TusClient(f"{server.address}/api/uploads", headers={"Authorization": f"Bearer {key}"})
    with path.open("rb") as file:
        uploader = client.uploader(
            file_stream=file, metadata={"filename": path.name, "title": "Sent"}, chunk_size=1_000_000
        )
        uploader.upload(stop_at=3_000_000)
        server.kill()
        server.start()
        assert uploader.get_offset() == uploader.offset == 3_000_000
        uploader.upload()
    check_arrived(server, key, path, sha256)


def check_arrived(server: Server, key: str, path: Path, sha256: str) -> None:
    """One video, one job, one file, and that is the one that was sent."""
    with server.client(key) as client:
        (video,) = client.get("/api/videos").json()["items"]
        told = client.get(f"/api/videos/{video['id']}").json()
        (job,) = client.get("/api/jobs").json()["items"]
    assert (told["sha256"], told["title"], told["file_name"]) == (sha256, "Sent", "film.wav")
    assert (told["job_id"], told["size_bytes"]) == (job["id"], path.stat().st_size)
    assert server.files == [f"{video['id']}.source"]
    with (server.data / "uploads" / server.files[0]).open("rb") as arrived:
        assert hashlib.file_digest(arrived, "sha256").hexdigest() == sha256
    assert server.rows("SELECT state FROM uploads") == [("done",)]


def bomb() -> bytes:
    """A ZIP that unpacks to a thousand times its size."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.mp4", "w") as member:
        for _ in range(128):
            member.write(bytes(1 << 20))
    return packed.getvalue()


NO_MEDIA = {
    "nothing": lambda: b"",
    "text": lambda: b"just words\n" * 5000,
    "a bomb": bomb,
    "a page": lambda: b"<!doctype html><html><body><script>alert(1)</script></body></html>",
}


async def test_s48_what_is_no_media_leaves_nothing_behind(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("no_proxy", "*")
    key = server.key()
    with server.client(key) as client:
        for name, make in NO_MEDIA.items():
            body = make()
            kind = {"Content-Type": "video/mp4"}
            answer = client.post("/api/videos?file_name=film.mp4", content=body, headers=kind)
            assert "advice" in refused(answer, 422, "not_media"), name
            tus = TusClient(f"{server.address}/api/uploads", headers={"Authorization": f"Bearer {key}"})
            uploader = tus.uploader(file_stream=io.BytesIO(body), metadata={"filename": "film.mp4"})
            with pytest.raises((TusCommunicationError, TusUploadFailed)) as caught:
                uploader.upload()
            assert caught.value.status_code == 422, name
            assert b'"code":"not_media"' in caught.value.response_content, name
            assert server.files == [], name
            assert client.get("/api/videos").json()["items"] == []
            assert client.get("/api/jobs").json()["items"] == []
    assert server.rows("SELECT COUNT(*) FROM uploads") == [(0,)]
