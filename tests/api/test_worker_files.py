"""Files of a worker elsewhere, under the token: in parts, late, foreign, packed."""

import asyncio
import hashlib
import io
import secrets
import tarfile
from collections.abc import AsyncIterator, Callable, Mapping

import httpx2
import pytest

from takeup.app import App
from takeup.artifacts.layout import LOCK
from takeup.core.errors import Conflict, InvalidInput
from takeup.core.model import (
    Artifact,
    Completion,
    Lease,
)
from takeup.core.plan import NewJob
from tests.api.afar import Hire, hire, submit
from tests.api.conftest import pair
from tests.api.test_edge import refused

__all__ = ["hire"]


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
        for bad in ("%2e%2e/x", "a//b", "manifest.json", "manifest.json.lock", "%00"):
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

    @pytest.mark.parametrize("names", [("a", "a/b"), ("a", "a/b/c"), ("a/b", "a"), ("a/b/c", "a/b")])
    async def test_no_output_has_the_name_of_a_folder_of_another(
        self, app: App, hire: Hire, client: Callable[..., httpx2.AsyncClient], names: tuple[str, str]
    ):
        await submit(app)
        afar = await hire("a")
        http = client(afar.key)
        (lease,) = await afar.claim()
        assert (await self.send(http, lease, names[0], b"one")).status_code == 200
        told = refused(await self.send(http, lease, names[1], b"two"), 422, "invalid_input")
        assert "folder" in told["detail"]
        both = tuple(Artifact(name, "", hashlib.sha256(b"x").hexdigest(), 1) for name in names)
        with pytest.raises(InvalidInput):
            await afar.source.complete(afar.id, [Completion(lease.held, {}, both)])
        assert (await self.send(http, lease, "c", b"three")).status_code == 200

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

    async def test_parts_of_an_input(self, app: App, hire: Hire, client: Callable[..., httpx2.AsyncClient]):
        (job_id,) = await app.submit([NewJob(pair)])
        await app.store.orchestrator.advance([job_id])
        afar = await hire("a")
        http, data = client(afar.key), b"made by the first stage"
        (one,) = await afar.claim()
        await self.send(http, one, "a.txt", data)
        sha256 = hashlib.sha256(data).hexdigest()
        told = Artifact("a.txt", "", sha256, len(data))
        await afar.source.complete(afar.id, [Completion(one.held, {}, (told,))])
        await app.store.orchestrator.advance([job_id])
        (two,) = await afar.claim()
        (artifact,) = await app.store.read.artifacts(job_id)
        token = {"Takeup-Token": f"{two.token.epoch}.{two.token.nonce}"}
        path = f"/api/worker/tasks/{two.task_id}/inputs/{artifact.key}"
        whole = await http.get(path, headers=token)
        assert (whole.status_code, whole.content, whole.headers["etag"]) == (200, data, f'"{sha256}"')
        part = await http.get(path, headers={**token, "Range": "bytes=5-", "If-Range": f'"{sha256}"'})
        assert (part.status_code, part.content) == (206, data[5:])
        other = await http.get(path, headers={**token, "Range": "bytes=5-", "If-Range": '"another"'})
        assert (other.status_code, other.content) == (200, data)
        beyond = await http.get(path, headers={**token, "Range": "bytes=999-"})
        refused(beyond, 416, "bad_range")
        assert beyond.headers["content-range"] == f"bytes */{len(data)}"
        for odd in ("bytes=x", "lines=1-2", "bytes=5-2"):
            assert (await http.get(path, headers={**token, "Range": odd})).content == data

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
        with pytest.raises(Conflict, match="being sent by another"):
            await afar.client.put(place, _of(b"ab"), headers)
        gate.set()
        assert (await first)["size_bytes"] == 2
        huge = {**headers, "Upload-Length": str(1 << 40)}
        with pytest.raises(Exception, match="no room"):
            await afar.client.put(place, _of(b"ab"), huge)


STREAM = {
    "master.m3u8": b"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nlow/index.m3u8\n",
    "low/index.m3u8": b"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n1.m4s\n#EXT-X-ENDLIST\n",
    "low/1.m4s": b"\x00\x00\x00\x08moof\x00\x00\x00\x08mdat",
}


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
        http: httpx2.AsyncClient,
        lease: Lease,
        data: bytes,
        *,
        epoch: int | None = None,
        sha256: str = "",
        pieces: AsyncIterator[bytes] | None = None,
    ) -> httpx2.Response:
        headers = {
            "Takeup-Token": f"{epoch or lease.token.epoch}.{lease.token.nonce}",
            "Upload-Length": str(len(data)),
            "Upload-Sha256": sha256 or hashlib.sha256(data).hexdigest(),
        }
        return await http.post(
            f"/api/worker/tasks/{lease.task_id}/outputs.tar.gz", content=pieces or data, headers=headers
        )

    async def test_s69_s71_one_at_a_time_and_the_holder_is_asked_again_at_its_end(
        self, app: App, hire: Hire, client: Callable[..., httpx2.AsyncClient]
    ):
        await submit(app)
        afar = await hire("a")
        http = client(afar.key)
        (lease,) = await afar.claim()
        good, may_end = self.packed(STREAM), asyncio.Event()
        staged = app.settings.storage / ".staging"

        async def slowly() -> AsyncIterator[bytes]:
            yield good[:-20]
            await may_end.wait()
            yield good[-20:]

        first = asyncio.create_task(self.send(http, lease, good, pieces=slowly()))
        async with asyncio.timeout(10):
            while not list(staged.rglob(LOCK)):
                await asyncio.sleep(0.01)
        refused(await self.send(http, lease, good), 409, "conflict")
        await afar.source.release(afar.id, [lease.held], reason="back", request_id="r")
        may_end.set()
        refused(await first, 409, "lease_lost")
        assert not any(file.is_file() for file in staged.rglob("*"))

    async def test_only_a_whole_stream_of_the_holder_is_taken(
        self, app: App, hire: Hire, client: Callable[..., httpx2.AsyncClient]
    ):
        await submit(app)
        afar = await hire("a")
        http = client(afar.key)
        (lease,) = await afar.claim()
        segment = b"\x00\x00\x00\x18ftypiso5" + bytes(12)
        stream = STREAM
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
