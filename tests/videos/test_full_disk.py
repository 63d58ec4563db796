"""Disks that are really full under a real server: files are refused before they come, nothing is lost."""

import asyncio
import hashlib
import json
import secrets
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from takeup.core.model import WorkerSpec
from takeup.core.remote import LENGTH_HEADER, TOKEN_HEADER
from takeup.engine.remote.client import Client
from takeup.engine.remote.source import HttpSource
from takeup.media.binaries import find
from takeup.store.ops.claim import ClaimRequest
from tests.api.test_uploads import PART, TUS
from tests.hosting import Server, running, until
from tests.serving import TAKEUP
from tests.small_disk import SmallDisk, small_disk
from tests.videos.making import sound

MB = 1 << 20
RESERVE_MB = 16
FLOW = """from takeup import Pipeline

demo = Pipeline("demo")


@demo.stage()
def only(ctx):
    return {}
"""
OFTEN = {"worker_poll_interval": 0.2, "worker_heartbeat_interval": 0.5, "sweep_interval": 0.5}
VIDEO = {"Content-Type": "video/mp4"}


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A short film with noise in it, so that its stream is larger than nothing."""
    file = tmp_path / "clip.mp4"
    picture = "testsrc2=size=640x360:rate=25:duration=4,noise=alls=60:allf=t"
    made = ["-f", "lavfi", "-i", picture, "-c:v", "libx264", "-preset", "ultrafast"]
    subprocess.run([find().ffmpeg, "-v", "error", *made, file], check=True, timeout=60)
    return file


@pytest.fixture
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", request.param) as one:
        yield one


def first_line(server: Server, head: str, key: str) -> str:
    """What is answered to a head whose body waits until it is asked for."""
    with socket.create_connection(("127.0.0.1", server.port), 10) as stream:
        lines = [head, "Host: 127.0.0.1", f"Authorization: Bearer {key}", "Expect: 100-continue", "", ""]
        stream.sendall("\r\n".join(lines).encode())
        return stream.makefile("rb").readline().decode().strip()


def begin(client: httpx2.Client, length: int) -> str:
    answer = client.post("/api/uploads", headers={**TUS, "Upload-Length": str(length)})
    assert answer.status_code == 201, answer.text
    return answer.headers["location"]


def place_of(client: httpx2.Client, path: str) -> int:
    return int(client.head(path, headers=TUS).headers["upload-offset"])


def go_on(client: httpx2.Client, path: str, place: int, data: object) -> httpx2.Response:
    return client.patch(path, content=data, headers={**PART, "Upload-Offset": str(place)})


def status_of(client: httpx2.Client, video_id: str) -> str:
    return client.get(f"/api/videos/{video_id}").json()["status"]


async def claim(server: Server, key: str) -> dict[str, str]:
    """Where a worker elsewhere sends the output of a task that it holds, as a head."""
    worker_id, _, secret = key.partition(" ")
    client = Client(server.address, secret)
    source = HttpSource(client, wait_s=0.0)
    await source.register(WorkerSpec(worker_id, "afar", "remote", 1))
    (lease,) = await source.claim(ClaimRequest(worker_id, secrets.token_hex(8), secrets.token_hex(16), 1))
    await client.close()
    token = f"{lease.token.epoch}.{lease.token.nonce}"
    return {"path": f"/api/worker/tasks/{lease.task_id}/outputs/x.bin", "token": token, "key": secret}


@pytest.mark.parametrize("disk", ["64m"], indirect=True)
def test_s41_without_room_files_are_refused_before_they_come(tmp_path: Path, disk: SmallDisk, clip: Path):
    (tmp_path / "demo.py").write_text(FLOW)
    server = Server(
        tmp_path,
        *("--workers", "1", "--stages", "transcode/*", "--pipelines", "demo.py"),
        disk=disk,
        data=disk.folder / "data",
        disk_reserve_mb=RESERVE_MB,
        **OFTEN,
    )
    wav = sound(200.0)
    half = len(wav) // 2
    with running(server), server.client(server.key()) as client:
        key = client.headers["authorization"].removeprefix("Bearer ")
        told = json.loads(server.run("workers", "register", "afar", "--json"))
        held = asyncio.run(hold(server, client, told))
        path = begin(client, len(wav))
        assert go_on(client, path, 0, wav[:half]).status_code == 204
        disk.fill(leave_bytes=RESERVE_MB * MB // 2)
        post = "POST /api/videos HTTP/1.1\r\nContent-Type: video/mp4\r\nContent-Length: 1000"
        part = f"Tus-Resumable: 1.0.0\r\nUpload-Offset: {half}\r\nContent-Length: {len(wav) - half}"
        patch = f"PATCH {path} HTTP/1.1\r\nContent-Type: {PART['Content-Type']}\r\n{part}"
        put = f"PUT {held['path']} HTTP/1.1\r\n{TOKEN_HEADER}: {held['token']}\r\n{LENGTH_HEADER}: 1000"
        for head in (post, patch):
            assert first_line(server, head, key).startswith("HTTP/1.1 507 "), head
        told_put = first_line(server, f"{put}\r\nContent-Length: 1000", held["key"])
        assert told_put.startswith("HTTP/1.1 507 ")
        begun = client.post("/api/uploads", headers={**TUS, "Upload-Length": "1000"})
        assert (begun.status_code, begun.json()["code"]) == (507, "no_room")
        assert "room" in begun.json()["advice"]
        assert client.get("/health").json() == {"status": "ok"}
        health = client.get("/api/health").json()
        assert (health["status"], health["has_room"]) == ("full", False)
        assert place_of(client, path) == half
        disk.empty()
        assert client.get("/api/health").json()["status"] == "ok"
        done = go_on(client, path, half, wav[half:])
        assert done.status_code == 204
        sent = client.get(f"/api/videos/{done.headers['takeup-video-id']}").json()
        assert sent["sha256"] == hashlib.sha256(wav).hexdigest()
        made = client.post("/api/videos", content=clip.read_bytes(), headers=VIDEO).json()
        until(lambda: status_of(client, made["id"]) == "ready", "it is published")
    assert server.rows("SELECT COUNT(*) FROM uploads WHERE state = 'open'") == [(0,)]


async def hold(server: Server, client: httpx2.Client, told: dict[str, str]) -> dict[str, str]:
    """Let a worker elsewhere hold a task of its own."""
    made = client.post("/api/jobs", json={"pipeline": "demo", "spec": {}})
    assert made.status_code == 201, made.text
    return await claim(server, f"{told['worker_id']} {told['api_key']}")


@pytest.mark.parametrize("disk", ["24m"], indirect=True)
def test_a_disk_that_fills_while_work_goes_on(tmp_path: Path, disk: SmallDisk, clip: Path):
    server = Server(
        tmp_path,
        *("--workers", "1"),
        disk=disk,
        data=disk.folder / "data",
        database=f"sqlite:///{tmp_path}/takeup.db",
        disk_reserve_mb=0,
        **OFTEN,
    )
    wav = sound(200.0)
    with running(server), server.client(server.key()) as client:
        path = begin(client, len(wav))
        assert go_on(client, path, 0, wav[:1000]).status_code == 204
        sent = client.post("/api/videos", content=clip.read_bytes(), headers=VIDEO)
        assert sent.status_code == 201, sent.text
        video, job = sent.json()["id"], sent.json()["job_id"]
        disk.fill(leave_bytes=MB // 4)
        told = go_on(client, path, 1000, iter([wav[1000:]]))
        assert (told.status_code, told.json()["code"]) == (507, "no_room")
        place = place_of(client, path)
        part = disk.seen(server.data / "uploads" / f"{path.rpartition('/')[2]}.part")
        assert part.read_bytes() == wav[:place], "what is there is what was sent"

        def released() -> list[tuple[str]]:
            return server.rows("SELECT reason FROM audit WHERE event = 'release' AND reason LIKE '%full%'")

        reasons = until(released, "a task was handed back")
        assert "the worker's disk is full" in reasons[0][0]
        assert status_of(client, video) in ("pending", "processing")
        disk.empty()
        disk.enlarge("128m")
        until(lambda: status_of(client, video) == "ready", "it is published")
        done = go_on(client, path, place, wav[place:])
        assert done.status_code == 204, done.text
        assert {row[0] for row in server.rows(f"SELECT attempt FROM tasks WHERE job_id = '{job}'")} == {1}
        assert "0 violations" in server.run("verify")


@pytest.mark.parametrize("disk", ["12m"], indirect=True)
def test_a_database_without_room(tmp_path: Path, disk: SmallDisk, clip: Path):
    server = Server(
        tmp_path,
        *("--workers", "1"),
        disk=disk,
        database=f"sqlite:///{disk.folder}/takeup.db",
        **OFTEN,
    )
    with running(server), server.client(server.key()) as client:
        before = client.post("/api/videos", content=clip.read_bytes(), headers=VIDEO).json()
        disk.fill()
        refused = until(lambda: no_room_for_rows(client), "nothing more can be written")
        assert refused.json()["code"] == "store_unavailable"
        assert "full" in refused.json()["detail"]
        assert refused.headers["retry-after"]
        late = client.post("/api/videos", content=clip.read_bytes(), headers=VIDEO)
        assert late.status_code == 503, late.text
        assert client.get("/api/videos").json()["items"][0]["id"] == before["id"], "reading goes on"
        disk.empty()
        until(lambda: status_of(client, before["id"]) == "ready", "it is published")
        assert client.post("/api/videos", content=clip.read_bytes(), headers=VIDEO).status_code == 201
        assert "0 violations" in server.run("verify")
    told = [line for line in server.lines() if "full" in str(line.get("error"))]
    assert told, "the log says why"
    assert not any("Traceback" in str(line) for line in told), told[0]


def no_room_for_rows(client: httpx2.Client) -> httpx2.Response | None:
    answer = client.post("/api/uploads", headers={**TUS, "Upload-Length": "1000"})
    return answer if answer.status_code == 503 else None


@pytest.mark.parametrize("disk", ["64m"], indirect=True)
def test_a_worker_elsewhere_keeps_what_the_server_has_no_room_for(
    tmp_path: Path, disk: SmallDisk, clip: Path
):
    server = Server(
        tmp_path, "--workers", "0", disk=disk, data=disk.folder / "data", disk_reserve_mb=RESERVE_MB, **OFTEN
    )
    with running(server), server.client(server.key()) as client:
        key = json.loads(server.run("workers", "register", "afar", "--json"))["api_key"]
        video = client.post("/api/videos", content=clip.read_bytes(), headers=VIDEO).json()["id"]
        encoded = "SELECT 1 FROM tasks WHERE stage = 'encode' AND status = 'READY'"
        until(lambda: server.rows(encoded), "there is something to encode")
        disk.fill(leave_bytes=RESERVE_MB * MB // 2)
        with worker_elsewhere(server, key) as log:
            until(lambda: "there is no room for" in log.read_text(), "the server refuses an output")
            assert status_of(client, video) == "processing"
            disk.empty()
            until(lambda: status_of(client, video) == "ready", "it is published")
        assert {row[0] for row in server.rows("SELECT attempt FROM tasks WHERE status = 'DONE'")} == {1}
        assert "0 violations" in server.run("verify")


@contextmanager
def worker_elsewhere(server: Server, key: str) -> Iterator[Path]:
    """With nothing but the server's address and a key; yields what it logs."""
    log = server.folder / "afar.log"
    with log.open("wb") as said:
        worker = subprocess.Popen(
            [*TAKEUP, "work", "--server", server.address, "--data", "afar", "--slots", "1"],
            cwd=server.folder,
            env=server.environment | {"TAKEUP_WORKER_API_KEY": key},
            stdout=said,
            stderr=said,
        )
    try:
        yield log
    finally:
        for _ in range(2):
            worker.terminate()
        worker.wait(60)


@pytest.mark.parametrize("disk", ["64m"], indirect=True)
def test_s41_health_tells_of_the_disk_of_the_media(tmp_path: Path, disk: SmallDisk):
    """Which may be another one than that of the data and of the artifacts."""
    server = Server(
        tmp_path, "--workers", "0", disk=disk, media_dir=disk.folder / "media", disk_reserve_mb=RESERVE_MB
    )
    with running(server), server.client(server.key()) as client:
        assert client.get("/api/health").json()["status"] == "ok"
        disk.fill(leave_bytes=RESERVE_MB * MB // 2)
        begun = client.post("/api/uploads", headers={**TUS, "Upload-Length": "1000"})
        assert (begun.status_code, begun.json()["code"]) == (507, "no_room")
        health = client.get("/api/health").json()
        assert (health["status"], health["has_room"]) == ("full", False)
        assert health["storage_free_bytes"] < RESERVE_MB * MB
