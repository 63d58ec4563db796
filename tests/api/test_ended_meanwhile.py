"""What is ended, cancelled or deleted while it becomes a video, over HTTP: a video that is told is kept."""

import asyncio
from collections import Counter

import httpx2

from takeup.app import App
from takeup.core.videos import video_id_of
from tests.api.fetching import WAV, more_settings, origin, url
from tests.api.test_jobs import refused
from tests.api.test_uploads import TUS, begin, go_on
from tests.api.test_videos import files, send
from tests.videos.origin import Origin

__all__ = ["more_settings", "origin", "url"]

ROUNDS = 12
WITHIN_S = 30


async def shown(operator: httpx2.AsyncClient) -> list[str]:
    """The files that there must be."""
    items = (await operator.get("/api/videos")).json()["items"]
    return sorted(f"uploads/{one['id']}.source" for one in items)


async def test_a_file_that_is_ended_again_and_again_while_it_comes(app: App, operator: httpx2.AsyncClient):
    ends: Counter[int] = Counter()
    for number in range(ROUNDS):
        path = await begin(operator, len(WAV))
        sending = asyncio.create_task(go_on(operator, path, 0, WAV))
        upload_id = path.rpartition("/")[2]
        places = (app.intake.places.part(upload_id), app.intake.places.source(video_id_of(upload_id)))
        while number % 3 and not sending.done():  # from the start, or from one of its names on
            if await asyncio.to_thread(places[number % 3 - 1].exists):
                break
        while not sending.done():
            assert (await operator.delete(path, headers=TUS)).status_code in (204, 404, 409)
        answer = await sending
        ends[answer.status_code] += 1
        assert answer.status_code in (204, 404, 409), answer.text
        assert ("takeup-video-id" in answer.headers) is (answer.status_code == 204)
        assert files(app) == await shown(operator)
    assert len(await shown(operator)) == ends[204] > 0


async def test_a_pull_that_is_cancelled_when_its_file_has_come(
    app: App, operator: httpx2.AsyncClient, origin: Origin
):
    puller = app.puller()
    for _ in range(ROUNDS):
        made = (await operator.post("/api/pulls", json={"url": origin.url})).json()
        source = app.intake.places.source(made["video_id"])
        await puller.run_once()
        while not await asyncio.to_thread(source.exists):
            await asyncio.sleep(0)
        was_cancelled = (await operator.delete(f"/api/pulls/{made['id']}")).json()["changed"]
        async with asyncio.timeout(WITHIN_S):
            while not (pull := (await app.store.pulls.among([made["id"]]))[made["id"]]).is_over:
                await puller.run_once()
            while files(app) != await shown(operator):  # who fetches it removes it
                await asyncio.sleep(0.01)
        assert pull.status == ("CANCELLED" if was_cancelled else "DONE")
        found = await operator.get(f"/api/videos/{made['video_id']}")
        assert found.status_code == (404 if was_cancelled else 200)


async def test_the_job_of_a_deleted_video_is_not_made_again(operator: httpx2.AsyncClient):
    video = (await send(operator, WAV)).json()
    assert (await operator.delete(f"/api/videos/{video['id']}")).status_code == 200
    refused(await operator.post(f"/api/jobs/{video['job_id']}/retry"), 409, "video_gone")
