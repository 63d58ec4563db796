"""Files that the server is asked to fetch: whose they are, which addresses are refused, how many at once."""

import hashlib

import httpx2

from takeup.app import App
from tests.api.conftest import Client, key_of
from tests.api.fetching import WAV, more_settings, origin, url
from tests.api.test_jobs import refused
from tests.api.test_videos import files
from tests.videos.origin import Origin

__all__ = ["more_settings", "origin", "url"]


async def test_a_file_is_asked_for_fetched_and_shown(app: App, operator: httpx2.AsyncClient, origin: Origin):
    answer = await operator.post("/api/pulls", json={"url": origin.url, "slug": "mine"})
    made = answer.json()
    assert (answer.status_code, made["status"], made["error"]) == (201, "WAITING", None)
    puller = app.puller()
    while not (await app.store.pulls.among([made["id"]]))[made["id"]].is_over:
        await puller.run_once()
    told = (await operator.get(answer.headers["location"])).json()
    assert (told["status"], told["received_bytes"]) == ("DONE", len(WAV))
    video = (await operator.get(f"/api/videos/{told['video_id']}")).json()
    assert (video["title"], video["slug"], video["file_name"]) == ("My film", "mine", "My film.wav")
    assert video["sha256"] == hashlib.sha256(WAV).hexdigest()
    listed = (await operator.get("/api/pulls")).json()
    assert [one["id"] for one in listed["items"]] == [made["id"]]
    assert (await operator.get(f"/api/pulls?before={made['id']}")).json()["items"] == []
    assert (await operator.delete(answer.headers["location"])).json() == {"id": made["id"], "changed": False}


async def test_cancelled_while_it_waits_nothing_stays(app: App, operator: httpx2.AsyncClient, origin: Origin):
    origin.breaks = [10_000]
    path = (await operator.post("/api/pulls", json={"url": origin.url})).headers["location"]
    puller = app.puller()
    while (await operator.get(path)).json()["failures"] == 0:
        await puller.run_once()
    assert len(files(app)) == 1
    assert (await operator.delete(path)).json()["changed"] is True
    assert (files(app), await app.store.uploads.page()) == ([], [])


REFUSED = {
    "http://127.0.0.2/x.mp4": "not a public one",
    "http://10.1.2.3/x.mp4": "not a public one",
    "http://169.254.169.254/latest/meta-data": "not a public one",
    "http://[::1]/x.mp4": "not a public one",
    "http://0x7f000002/x.mp4": "is no host",
    "https://me:secret@example.com/x.mp4": "a user or a password",
    "file:///etc/passwd": "must begin with https://",
    "ftp://example.com/x.mp4": "must begin with https://",
    "http://127.0.0.1:6379/x.mp4": "port 6379",
}


async def test_s111_addresses_that_are_not_called(operator: httpx2.AsyncClient):
    for address, why in REFUSED.items():
        told = refused(await operator.post("/api/pulls", json={"url": address}), 422, "forbidden")
        assert why in str(told["detail"])
        assert "webhook" not in str(told["advice"])
    assert (await operator.get("/api/pulls")).json()["items"] == []


async def test_everybody_has_his_own_and_no_more_than_so_many(
    app: App, operator: httpx2.AsyncClient, viewer: httpx2.AsyncClient, client: Client, origin: Origin
):
    body = {"url": origin.url}
    refused(await viewer.post("/api/pulls", json=body), 403, "scope")
    first = (await operator.post("/api/pulls", json=body)).headers["location"]
    await operator.post("/api/pulls", json=body)
    told = refused(await operator.post("/api/pulls", json=body), 429, "quota")
    assert "DELETE /api/pulls" in str(told["advice"])
    other = client(await key_of(app, "operator"))
    refused(await other.get(first), 404, "not_found")
    refused(await other.delete(first), 404, "not_found")
    assert (await other.get("/api/pulls")).json()["items"] == []
    assert (await operator.delete(first)).json()["changed"] is True
    assert (await operator.get(first)).json()["status"] == "CANCELLED"
    assert (await operator.post("/api/pulls", json=body)).status_code == 201
    refused(await operator.post("/api/pulls", json={**body, "profile": "../x"}), 422, "invalid_input")
    refused(await operator.post("/api/pulls", json={**body, "slug": "CON"}), 422, "invalid_input")
    refused(await operator.post("/api/pulls", json={**body, "status": "DONE"}), 422, "invalid_input")
