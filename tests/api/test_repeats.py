"""Files under an `Idempotency-Key`: sent again they are answered the same, and lie there once."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping

import httpx2
import pytest

from takeup.app import App
from takeup.core.repeats import Asked
from takeup.core.videos import About
from takeup.engine.videos.errors import UploadBusy
from takeup.engine.videos.receiving import opened
from tests.api.conftest import Client, key_of
from tests.api.test_jobs import refused
from tests.api.test_uploads import PART, TUS, said
from tests.api.test_videos import WAV, files, send
from tests.videos.making import sound
from tests.videos.origin import Origin, origin_of

ONCE = {"Idempotency-Key": "once"}
OTHER = bytes([*WAV[:-1], WAV[-1] ^ 1])
"""As long as the other file, and no other name for it."""


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with origin_of(sound(1.0)) as one:
        yield one


@pytest.fixture
def more_settings() -> Mapping[str, object]:
    return {"pull_http": "allowed", "pull_allowed_networks": "127.0.0.1/32", "upload_quota_count": 1}


async def again(client: httpx2.AsyncClient, body: object = WAV, **query: object) -> httpx2.Response:
    return await send(client, body, **{"headers": ONCE, "title": "same", **query})  # type: ignore[arg-type]


async def begin(client: httpx2.AsyncClient, length: int = len(WAV), **metadata: str) -> httpx2.Response:
    headers = {**TUS, **ONCE, "Upload-Length": str(length), **said(**{"title": "same", **metadata})}
    return await client.post("/api/uploads", headers=headers)


async def pull(client: httpx2.AsyncClient, **body: object) -> httpx2.Response:
    return await client.post("/api/pulls", json=body, headers=ONCE)


async def test_s29_a_file_that_is_sent_again_is_stored_once(
    app: App, operator: httpx2.AsyncClient, client: Client
):
    first = await again(operator)
    kept = files(app)
    async with asyncio.timeout(60):
        for body in (WAV, _in_pieces()):
            repeat = await again(operator, body)
            assert (repeat.status_code, repeat.json()) == (201, first.json())
            assert repeat.headers["location"] == first.headers["location"]
    assert files(app) == kept
    refused(await again(operator, title="another"), 422, "idempotency_mismatch")
    refused(await again(operator, WAV[:-2]), 422, "idempotency_mismatch")
    refused(await again(operator, OTHER), 422, "idempotency_mismatch")
    wrong = {**ONCE, "X-Checksum-Sha256": hashlib.sha256(OTHER).hexdigest()}
    refused(await again(operator, headers=wrong), 422, "idempotency_mismatch")
    for key in ("", "x" * 256):
        refused(await again(operator, headers={"Idempotency-Key": key}), 400, "bad_header")
    assert files(app) == kept
    other = await again(client(await key_of(app, "operator")))
    assert other.json()["id"] != first.json()["id"], "a key is its caller's own"
    await operator.delete(first.headers["location"])
    assert (await again(operator)).json()["id"] == first.json()["id"], "as that of a job that is over"


async def _in_pieces() -> AsyncIterator[bytes]:
    yield WAV[:1000]
    yield WAV[1000:]


async def test_s29_one_file_at_once_is_one_video(app: App, operator: httpx2.AsyncClient):
    told = await asyncio.gather(*(again(operator) for _ in range(5)))
    assert {answer.status_code for answer in told} <= {201, 409}, "409: the first is still on its way"
    assert (await again(operator)).status_code == 201
    assert len((await operator.get("/api/videos")).json()["items"]) == len(files(app)) == 1


async def test_a_key_whose_file_was_not_taken_may_be_used_again(app: App, operator: httpx2.AsyncClient):
    refused(await again(operator, b"just words\n" * 500), 422, "not_media")
    assert (await again(operator)).status_code == 201
    assert len(files(app)) == 1


@pytest.mark.parametrize("came", [1000, len(WAV)])
async def test_what_a_dead_server_left_of_a_file_is_in_nobodys_way(app: App, came: int):
    asked, about = Asked.of("video", "key:me", "once", []), About("same")
    left = await app.intake.begin("key:me", len(WAV), about, asked=asked)
    with opened(app.intake.places.part(left.id), may_make=True) as part:
        part.write(WAV[:came], 0)
        with pytest.raises(UploadBusy):
            await app.repeats.take(asked, "key:me", len(WAV), about, _in_pieces())
    made = await app.repeats.take(asked, "key:me", len(WAV), about, _in_pieces())
    assert (made.id, made.sha256) == (left.video_id, hashlib.sha256(WAV).hexdigest())
    assert files(app) == [f"uploads/{made.id}.source"]


async def test_s29_an_upload_that_is_begun_again_is_the_same(app: App, operator: httpx2.AsyncClient):
    first = await begin(operator)
    path = first.headers["location"]
    assert (first.status_code, first.headers["upload-offset"]) == (201, "0")
    await operator.patch(path, content=WAV[:1000], headers={**PART, "Upload-Offset": "0"})
    repeat = await begin(operator)
    assert (repeat.status_code, repeat.headers["upload-offset"]) == (201, "1000"), repeat.text
    assert repeat.headers["location"] == path
    refused(await begin(operator, title="another"), 422, "idempotency_mismatch")
    refused(await begin(operator, len(WAV) + 1), 422, "idempotency_mismatch")
    done = await operator.patch(path, content=WAV[1000:], headers={**PART, "Upload-Offset": "1000"})
    assert done.status_code == 204
    for _ in range(2):
        repeat = await begin(operator)
        assert (repeat.headers["location"], repeat.headers["upload-offset"]) == (path, str(len(WAV)))
        assert repeat.headers["takeup-video-id"] == done.headers["takeup-video-id"]
        await app.store.uploads.drop(path.rpartition("/")[2], state="done")
    refused(await begin(operator, title="another"), 422, "idempotency_mismatch")
    assert len(files(app)) == 1


async def test_s29_uploads_begun_at_once_are_one(operator: httpx2.AsyncClient):
    told = await asyncio.gather(*(begin(operator) for _ in range(8)))
    assert {answer.status_code for answer in told} == {201}
    assert len({answer.headers["location"] for answer in told}) == 1


async def test_an_upload_that_was_given_up_is_begun_anew(app: App, operator: httpx2.AsyncClient):
    path = (await begin(operator)).headers["location"]
    await operator.patch(path, content=WAV[:1000], headers={**PART, "Upload-Offset": "0"})
    assert (await operator.delete(path, headers=TUS)).status_code == 204
    anew = await begin(operator)
    assert (anew.status_code, anew.headers["upload-offset"]) == (201, "0")


async def test_s29_what_is_to_be_pulled_is_pulled_once(
    app: App, operator: httpx2.AsyncClient, client: Client, origin: Origin
):
    told = await asyncio.gather(*(pull(operator, url=origin.url) for _ in range(5)))
    assert {answer.status_code for answer in told} == {201}
    (pull_id,) = {answer.json()["id"] for answer in told}
    refused(await pull(operator, url=origin.url, title="another"), 422, "idempotency_mismatch")
    long = await operator.post("/api/pulls", json={"url": origin.url}, headers={"Idempotency-Key": "x" * 256})
    refused(long, 400, "bad_header")
    puller = app.puller()
    while not (await app.store.pulls.among([pull_id]))[pull_id].is_over:
        await puller.run_once()
    assert await app.store.pulls.forget(0) == 0, "what has a key is not forgotten"
    done = (await pull(operator, url=origin.url)).json()
    assert (done["id"], done["status"]) == (pull_id, "DONE")
    other = await pull(client(await key_of(app, "operator")), url=origin.url)
    assert other.json()["id"] != pull_id
