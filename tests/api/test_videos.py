"""Videos over HTTP: taken if they are media, shown, made again, retitled, deleted; served as published."""

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest

from takeup.app import App
from tests.api.conftest import Client, key_of
from tests.api.test_jobs import refused
from tests.videos.making import PIECE, publish, sound

WAV = sound()
RAW = {"Content-Type": "application/octet-stream"}


def files(app: App) -> list[str]:
    """What lies below the data directory."""
    root = app.settings.data_dir
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def send(client: httpx2.AsyncClient, body: object = WAV, **query: str) -> httpx2.Response:
    kind = {**RAW, **query.pop("headers", {})}  # type: ignore[dict-item]
    return await client.post("/api/videos", params=query, content=body, headers=kind)


async def sent(client: httpx2.AsyncClient, **query: str) -> dict[str, str]:
    answer = await send(client, **query)
    assert answer.status_code == 201, answer.text
    made: dict[str, str] = answer.json()
    assert answer.headers["location"] == f"/api/videos/{made['id']}"
    return made


async def served(app: App, client: httpx2.AsyncClient, folder: Path, **query: str) -> dict[str, str]:
    """A video whose stream is there, as its job would leave it."""
    made = await sent(client, **query)
    publish(app.intake.places.stream(made["id"]), folder / made["id"], made["job_id"])
    await app.shelf.note(made["id"])
    return made


async def test_a_video_is_taken_and_shown(app: App, operator: httpx2.AsyncClient, viewer: httpx2.AsyncClient):
    made = await sent(operator, title="Über den Wolken", file_name="../clip.wav")
    assert made["slug"] == "uber-den-wolken"
    answer = await viewer.get(f"/api/videos/{made['id']}")
    shown = answer.json()
    assert (answer.headers["etag"], shown["status"], shown["title"]) == ('"1"', "pending", "Über den Wolken")
    assert (shown["file_name"], shown["size_bytes"]) == ("clip.wav", len(WAV))
    assert (shown["sha256"], shown["master"], shown["qualities"]) == (
        hashlib.sha256(WAV).hexdigest(),
        None,
        [],
    )
    job = (await viewer.get(f"/api/jobs/{made['job_id']}")).json()
    assert (job["pipeline"], job["subject"]) == ("transcode", f"video:{made['id']}")
    source = Path(job["spec"]["source"])
    assert (source.name, source.read_bytes()) == (f"{made['id']}.source", WAV)
    assert Path(job["spec"]["publish_to"]) == app.settings.data_dir.resolve() / "videos" / made["id"]
    assert job["spec"]["title"] == "Über den Wolken"
    assert files(app) == [f"uploads/{made['id']}.source"]
    assert [one["id"] for one in (await viewer.get("/api/videos")).json()["items"]] == [made["id"]]
    assert (await viewer.get("/api/videos?status=ready")).json()["items"] == []
    refused(await viewer.get("/api/videos?status=lost"), 422, "invalid_input")
    refused(await viewer.get("/api/videos/vid_1"), 422, "invalid_input")
    refused(await viewer.get(f"/api/videos/vid_{'0' * 24}"), 404, "not_found")


class TestOneDatabase:
    """What does not depend on the database."""

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/takeup.db"

    async def test_pages_of_videos(self, operator: httpx2.AsyncClient):
        made = [(await sent(operator, title="same"))["id"] for _ in range(3)]
        first = (await operator.get("/api/videos?limit=2")).json()
        second = (await operator.get(f"/api/videos?limit=2&before={first['next']}")).json()
        assert [one["id"] for one in first["items"] + second["items"]] == made[::-1]
        assert [one["slug"] for one in second["items"]] == ["same"]

    async def test_who_may_only_look_sends_nothing(
        self, app: App, viewer: httpx2.AsyncClient, client: Client
    ):
        refused(await send(viewer), 403, "scope")
        refused(await send(client()), 401, "unauthenticated")
        assert files(app) == []

    async def test_s42_s43_forms_are_not_taken(self, app: App, operator: httpx2.AsyncClient):
        forms = ("multipart/form-data; boundary=x", "application/x-www-form-urlencoded")
        for kind in (*forms, "application/json", "text/html", ""):
            answer = await send(operator, b"--x\r\n" * 1000, headers={"Content-Type": kind})  # type: ignore[arg-type]
            refused(answer, 415, "wrong_kind")
        assert files(app) == []

    async def test_files_are_taken_as_files(self, operator: httpx2.AsyncClient):
        for kind in ("video/mp4", "audio/x-wav; x=y", "application/octet-stream"):
            answer = await send(operator, headers={"Content-Type": kind})  # type: ignore[arg-type]
            assert answer.status_code == 201

    async def test_s48_what_is_no_media_is_not_kept(self, app: App, operator: httpx2.AsyncClient):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("x.mp4", WAV)
        bodies = {
            "nothing": b"",
            "text": b"just words\n" * 500,
            "zip": packed.getvalue(),
            "html": b"<!doctype html><html><body><script>alert(1)</script></body></html>",
            "program": Path("/bin/true").read_bytes(),
            "playlist": b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1/x.ts\n",
        }
        for name, body in bodies.items():
            told = refused(await send(operator, body, title=name, file_name="x.mp4"), 422, "not_media")
            assert str(app.settings.data_dir) not in str(told)
            assert files(app) == [], name
        assert (await operator.get("/api/videos")).json()["items"] == []
        assert await app.store.uploads.page() == []

    async def test_s47_another_checksum(self, app: App, operator: httpx2.AsyncClient):
        right, wrong = hashlib.sha256(WAV), hashlib.sha256(b"x")
        for told in (
            {"X-Checksum-Sha256": wrong.hexdigest()},
            {"Content-Digest": f"sha-256=:{base64.b64encode(wrong.digest()).decode()}:"},
        ):
            refused(await send(operator, headers=told), 422, "checksum")  # type: ignore[arg-type]
            assert files(app) == []
        for told in (
            {"X-Checksum-Sha256": right.hexdigest().upper()},
            {"Content-Digest": f"md5=:eA==:, sha-256=:{base64.b64encode(right.digest()).decode()}:"},
        ):
            assert (await send(operator, headers=told)).status_code == 201  # type: ignore[arg-type]
        for told in (
            {"X-Checksum-Sha256": "x"},
            {"Content-Digest": "sha-256=x"},
            {"Content-Digest": "sha-256=:=:"},
            {
                "X-Checksum-Sha256": wrong.hexdigest(),
                "Content-Digest": f"sha-256=:{base64.b64encode(right.digest()).decode()}:",
            },
        ):
            refused(await send(operator, headers=told), 400, "bad_header")  # type: ignore[arg-type]

    async def test_s45_slugs_over_http(self, operator: httpx2.AsyncClient, client: Client):
        assert (await sent(operator, slug="chosen"))["slug"] == "chosen"
        refused(await send(operator, slug="chosen"), 409, "slug_taken")
        refused(await send(operator, slug="CON"), 422, "invalid_input")
        refused(await send(operator, profile="../x"), 422, "invalid_input")
        refused(await send(operator, callback="x"), 422, "invalid_input")
        for slug in ("..", "CON", "x", "%2e%2e"):
            assert (await client().get(f"/videos/{slug}/master.m3u8")).status_code in (404, 422)

    async def test_s49_the_file_itself_is_only_saved(
        self, operator: httpx2.AsyncClient, viewer: httpx2.AsyncClient
    ):
        made = await sent(operator, file_name='a "b"\n<script>.wav')
        answer = await viewer.get(f"/api/videos/{made['id']}/source")
        assert (answer.status_code, answer.content) == (200, WAV)
        headers = answer.headers
        assert headers["content-disposition"] == "attachment; filename*=UTF-8''a%20%22b%22%20%3Cscript%3E.wav"
        assert (headers["content-type"], headers["x-content-type-options"]) == (
            RAW["Content-Type"],
            "nosniff",
        )
        assert headers["content-security-policy"].startswith("sandbox")
        part = await viewer.get(f"/api/videos/{made['id']}/source", headers={"Range": "bytes=4-7"})
        assert (part.status_code, part.content) == (206, WAV[4:8])
        beyond = await viewer.get(f"/api/videos/{made['id']}/source", headers={"Range": "bytes=999999-"})
        refused(beyond, 416, "bad_range")
        assert beyond.headers["content-range"] == f"bytes */{len(WAV)}"

    async def test_a_title_is_changed(self, operator: httpx2.AsyncClient):
        made = await sent(operator, title="Old")
        path = f"/api/videos/{made['id']}"
        changed = await operator.patch(path, json={"title": " New\x07 one"}, headers={"If-Match": '"1"'})
        assert (changed.json()["title"], changed.json()["slug"], changed.headers["etag"]) == (
            "New one",
            "old",
            '"2"',
        )
        late = await operator.patch(path, json={"title": "x"}, headers={"If-Match": '"1"'})
        refused(late, 409, "version_mismatch")
        refused(await operator.patch(path, json={"title": "\x07"}), 422, "invalid_input")
        refused(await operator.patch(path, json={"title": "x", "status": "ready"}), 422, "invalid_input")

    async def test_made_again(self, app: App, operator: httpx2.AsyncClient, tmp_path: Path):
        made = await served(app, operator, tmp_path)
        path = f"/api/videos/{made['id']}/retranscode"
        refused(await operator.post(path, json={}), 409, "subject_busy")
        await app.store.operator.cancel([made["job_id"]])
        for body in ({"retranscode_all": False}, {"qualities": ["240p"]}, {"qualities": ["../x"]}):
            refused(await operator.post(path, json=body), 422, "invalid_input")
        wrong = {"retranscode_all": False, "qualities": ["1080p"]}
        assert "there are: 240p" in str(refused(await operator.post(path, json=wrong), 422, "invalid_input"))
        some = {"retranscode_all": False, "qualities": ["240p"], "delete_transcription": True}
        answer = await operator.post(path, json=some)
        told = answer.json()
        assert (answer.status_code, told["transcription_deleted"]) == (201, False)
        job = await app.store.read.job(told["job_id"])
        assert (job.generation, job.spec["rungs"]) == (2, ["240p"])
        shown = (await operator.get(f"/api/videos/{made['id']}")).json()
        assert (shown["status"], shown["job_id"]) == ("ready", job.id)
        await app.store.operator.cancel([job.id])
        app.intake.places.source(made["id"]).unlink()
        refused(await operator.post(path, json={}), 404, "source_gone")

    async def test_a_stream_is_served_by_its_slug(
        self, app: App, operator: httpx2.AsyncClient, client: Client, tmp_path: Path
    ):
        made = await served(app, operator, tmp_path, title="My film")
        shown = (await operator.get(f"/api/videos/{made['id']}")).json()
        assert (shown["master"], shown["duration_s"]) == ("/videos/my-film/master.m3u8", 2.5)
        (rung,) = shown["qualities"]
        assert rung == {
            "name": "240p", "codec": "avc1.640015", "width": 426, "height": 240, "size_bytes": 750,
            "mean_rate": 1600, "peak_rate": 4000,
        }  # fmt: skip
        anybody = client()
        master = await anybody.get(shown["master"])
        assert master.headers["content-type"] == "application/vnd.apple.mpegurl"
        assert "v1/240p/index.m3u8" in master.text
        assert (master.headers["cache-control"], master.headers["x-content-type-options"]) == (
            "public, max-age=2", "nosniff",
        )  # fmt: skip
        assert "access-control-allow-origin" not in master.headers
        piece = await anybody.get("/videos/my-film/v1/240p/00001.m4s", headers={"Range": "bytes=10-19"})
        assert (piece.status_code, piece.content) == (206, PIECE[10:20])
        assert "immutable" in piece.headers["cache-control"]
        known = {"If-None-Match": piece.headers["etag"]}
        assert (await anybody.get("/videos/my-film/v1/240p/00001.m4s", headers=known)).status_code == 304
        head = await anybody.head("/videos/my-film/manifest.mpd", headers={"Accept-Encoding": "identity"})
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "33")
        watch = await anybody.get(shown["page"])
        assert (watch.status_code, watch.headers["location"]) == (307, "/videos/my-film/")
        page = await anybody.get("/videos/my-film/")
        assert '<base href="v1/">' in page.text
        assert "default-src" not in page.headers["content-security-policy"], "the page says that itself"

    async def test_nothing_else_is_served(
        self, app: App, operator: httpx2.AsyncClient, client: Client, tmp_path: Path
    ):
        await served(app, operator, tmp_path, title="My film")
        ours = ("v1/plan.json", "v1/version.json", ".lock", "v2/master.m3u8", "v1/x.mp4")
        for path in (*ours, "..%2f..%2fuploads", "%252e%252e/x.mp4"):
            refused(await client().get(f"/videos/my-film/{path}"), 404, "not_found")

    async def test_deleted_it_is_served_no_more(
        self, app: App, operator: httpx2.AsyncClient, client: Client, tmp_path: Path
    ):
        made = await served(app, operator, tmp_path, title="My film")
        path = f"/api/videos/{made['id']}"
        assert (await operator.delete(path)).json() == {"id": made["id"], "changed": True}
        assert (await operator.delete(path)).json()["changed"] is False
        refused(await operator.get(path), 404, "not_found")
        refused(await client().get("/videos/my-film/master.m3u8"), 404, "not_found")
        refused(await client().get("/watch/my-film"), 404, "not_found")
        assert (await app.store.read.job(made["job_id"])).status == "cancelled"
        await app.video_keeper().run_once()
        assert files(app) == []

    async def test_the_version_before_is_served_again(
        self, app: App, operator: httpx2.AsyncClient, client: Client, tmp_path: Path
    ):
        made = await served(app, operator, tmp_path, title="My film")
        path = f"/api/videos/{made['id']}/rollback"
        told = refused(await operator.post(path, json={}), 404, "no_version")
        assert told["detail"] == f"{made['id']} has no earlier version; there are: v1"
        publish(app.intake.places.stream(made["id"]), tmp_path / "next", "another job")
        await app.shelf.note(made["id"])
        assert "v2/" in (await client().get("/videos/my-film/master.m3u8")).text
        assert (await operator.post(path, json={})).json() == {"id": made["id"], "served_version": 1}
        assert "v1/" in (await client().get("/videos/my-film/master.m3u8")).text
        assert (await operator.get(f"/api/videos/{made['id']}")).json()["served_version"] == 1
        assert (await operator.post(path, json={"to": 2})).json()["served_version"] == 2


class TestNotForEverybody:
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/takeup.db"

    @pytest.fixture
    def more_settings(self) -> Mapping[str, object]:
        return {"stream_access": "key", "stream_origins": "https://a.example, https://b.example"}

    async def test_streams_for_keys_and_named_origins(
        self, app: App, operator: httpx2.AsyncClient, client: Client, tmp_path: Path
    ):
        await served(app, operator, tmp_path, title="My film")
        path = "/videos/my-film/master.m3u8"
        refused(await client().get(path), 401, "unauthenticated")
        refused(await client().get("/watch/my-film"), 401, "unauthenticated")
        viewer = client(await key_of(app, "viewer"))
        named = await viewer.get(path, headers={"Origin": "https://b.example"})
        assert named.headers["access-control-allow-origin"] == "https://b.example"
        assert "Origin" in named.headers["vary"]
        other = await viewer.get(path, headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
        asked = await client().request("OPTIONS", path, headers={"Origin": "https://a.example"})
        assert (asked.status_code, asked.headers["access-control-allow-methods"]) == (204, "GET, HEAD")
        asked = await client().request("OPTIONS", path, headers={"Origin": "https://evil.example"})
        assert "access-control-allow-methods" not in asked.headers
