"""Jobs over HTTP: created once, looked at page by page, changed by those who may."""

import asyncio

import httpx2
import pytest

from takeup import Pipeline
from takeup.app import App
from takeup.core.model import Artifact, Completion
from takeup.core.plan import NewJob
from tests.store.scenes import add_worker, claim_request

LATER = "2030-01-31T18:00:00Z"


async def create(client: httpx2.AsyncClient, **body: object) -> str:
    answer = await client.post("/api/jobs", json={"pipeline": "flow", **body})
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["id"]
    return job_id


def refused(answer: httpx2.Response, status: int, code: str) -> dict[str, object]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    told: dict[str, object] = answer.json()
    assert (told["status"], told["code"]) == (status, code), told
    return told


async def test_a_job_is_created_and_shown(operator: httpx2.AsyncClient, viewer: httpx2.AsyncClient):
    job_id = await create(operator, spec={"n": 1}, priority=7, subject="film")
    answer = await viewer.get(f"/api/jobs/{job_id}")
    assert answer.headers["etag"] == '"1"'
    shown = answer.json()
    assert (shown["pipeline"], shown["spec"], shown["priority"]) == ("flow", {"n": 1}, 7)
    assert (shown["status"], shown["subject"]) == ("pending", "film")
    (task,) = (await viewer.get(f"/api/jobs/{job_id}/tasks")).json()["items"]
    assert (task["stage"], task["status"]) == ("only", "READY")
    whole = (await viewer.get(f"/api/jobs/{job_id}/tasks/{task['id']}")).json()
    assert (whole["stage"], whole["parameters"], whole["result"]) == ("only", {}, None)
    refused(await viewer.get(f"/api/jobs/other/tasks/{task['id']}"), 404, "not_found")
    assert "no worker" in (await viewer.get(f"/api/jobs/{job_id}/why")).json()[0]
    for part in ("logs", "steps", "artifacts"):
        assert (await viewer.get(f"/api/jobs/{job_id}/{part}")).json() == {"items": [], "next": None}


async def test_s29_the_same_key_makes_one_job(operator: httpx2.AsyncClient):
    key = {"Idempotency-Key": "once"}
    sent = [
        await operator.post("/api/jobs", json={"pipeline": "flow", "spec": {"n": 1}}, headers=key)
        for _ in range(2)
    ]
    assert sent[0].json() == sent[1].json()
    for more in (
        {"spec": {"n": 2}},
        {"subject": "film"},
        {"priority": 9},
        {"paused": True},
        {"not_before": LATER},
    ):
        other = await operator.post(
            "/api/jobs", json={"pipeline": "flow", "spec": {"n": 1}, **more}, headers=key
        )
        refused(other, 422, "idempotency_mismatch")
    await operator.patch(f"/api/jobs/{sent[0].json()['id']}", json={"priority": 8})
    again = await operator.post("/api/jobs", json={"pipeline": "flow", "spec": {"n": 1}}, headers=key)
    assert again.json() == sent[0].json(), "what was changed since is not what was asked for"
    long = await operator.post("/api/jobs", json={"pipeline": "flow"}, headers={"Idempotency-Key": "x" * 256})
    refused(long, 400, "bad_header")


async def test_jobs_come_in_pages_newest_first(operator: httpx2.AsyncClient):
    made = [await create(operator) for _ in range(5)]
    seen: list[str] = []
    before = ""
    while True:
        page = (await operator.get(f"/api/jobs?limit=2{before}")).json()
        seen += [job["id"] for job in page["items"]]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    assert seen == made[::-1]
    assert (await operator.get("/api/jobs?status=failed")).json()["items"] == []
    refused(await operator.get("/api/jobs?status=sleeping"), 422, "invalid_input")
    refused(await operator.get("/api/jobs?limit=1000000000"), 422, "invalid_input")


two = Pipeline("two")


@two.stage()
def left(ctx):
    return {}


@two.stage()
def right(ctx):
    return {}


async def test_the_files_of_a_job_come_in_pages(app: App, operator: httpx2.AsyncClient):
    (job_id,) = await app.submit([NewJob(two, {})])
    names = ["a b.ts", "b/c.ts", "B.ts", "ä.ts", "{}&?#%2F.ts"]
    files = [Artifact(name, f"two/{job_id}/{n}", "0" * 64, n) for n, name in enumerate(names)]
    await add_worker(app.store)
    leases = await app.store.worker.claim(claim_request("w1", 2))
    done = [Completion(lease.held, {}, tuple(files)) for lease in leases]
    await app.store.worker.complete("w1", done)
    path, seen = f"/api/jobs/{job_id}/artifacts", []
    whole = (await operator.get(path)).json()
    assert (len(whole["items"]), whole["next"]) == (10, None)
    after: dict[str, str] = {}
    while True:
        page = (await operator.get(path, params={"limit": 3, **after})).json()
        seen += page["items"]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == whole["items"]
    told = {(one["task_id"], one["name"], one["size_bytes"]) for one in seen}
    assert told == {(lease.task_id, name, n) for lease in leases for n, name in enumerate(names)}
    assert (await operator.get(path, params={"after": page["items"][-1]["name"]})).status_code == 422


async def test_s29_one_key_at_once_is_one_job(operator: httpx2.AsyncClient):
    body, key = {"pipeline": "flow", "subject": "film"}, {"Idempotency-Key": "once"}
    sent = await asyncio.gather(*(operator.post("/api/jobs", json=body, headers=key) for _ in range(10)))
    assert len({answer.json()["id"] for answer in sent}) == 1
    assert {answer.status_code for answer in sent} == {201}


async def test_a_page_goes_on_after_a_job_that_went_to_the_archive(app: App, operator: httpx2.AsyncClient):
    first, last = [await create(operator) for _ in range(2)]
    assert (await operator.get("/api/jobs?limit=1")).json()["next"] == last
    await operator.post(f"/api/jobs/{last}/cancel", json={})
    assert await app.store.recovery.archive(0) == [last]
    page = (await operator.get(f"/api/jobs?limit=1&before={last}")).json()
    assert [job["id"] for job in page["items"]] == [first]
    refused(await operator.get(f"/api/jobs/{last}"), 404, "not_found")
    refused(await operator.get("/api/jobs?before=nothing"), 404, "not_found")


async def test_a_change_of_an_old_version_is_refused(operator: httpx2.AsyncClient):
    job_id = await create(operator)
    path = f"/api/jobs/{job_id}"
    changed = await operator.patch(path, json={"priority": 9}, headers={"If-Match": '"1"'})
    assert (changed.status_code, changed.json()["priority"], changed.json()["version"]) == (200, 9, 2)
    late = await operator.patch(path, json={"priority": 3}, headers={"If-Match": '"1"'})
    refused(late, 409, "version_mismatch")
    refused(await operator.patch(path, json={"priority": 3}, headers={"If-Match": "1"}), 400, "bad_header")
    assert (await operator.get(path)).json()["priority"] == 9


async def test_pause_resume_cancel_retry(app: App, operator: httpx2.AsyncClient):
    job_id = await create(operator, subject="film")
    path = f"/api/jobs/{job_id}"
    for change, control in (("pause", "PAUSED"), ("resume", "READY")):
        answer = await operator.post(f"{path}/{change}", json={})
        assert answer.json() == {"id": job_id, "changed": True}
        assert (await operator.get(path)).json()["control"] == control
    refused(await operator.post(f"{path}/retry"), 409, "illegal_move")
    assert (await operator.post(f"{path}/cancel", json={"reason": "why not"})).json()["changed"]
    assert not (await operator.post(f"{path}/cancel", json={})).json()["changed"]
    refused(await operator.post(f"{path}/pause", json={}), 409, "illegal_move")
    again = (await operator.post(f"{path}/retry")).json()["id"]
    assert (await app.store.read.job(again)).generation == 2
    skipped = await operator.post(f"/api/jobs/{again}/skip", json={"reason": "not needed"})
    assert skipped.json()["changed"]
    assert (await operator.get(f"/api/jobs/{again}")).json()["status"] == "completed"
    refused(await operator.post(f"/api/jobs/{again}/cancel", json={}), 409, "illegal_move")


@pytest.mark.parametrize("path", ["/api/jobs/nothing", "/api/jobs/nothing/tasks", "/api/jobs/nothing/why"])
async def test_what_is_not_there_is_not_found(viewer: httpx2.AsyncClient, path: str):
    refused(await viewer.get(path), 404, "not_found")


async def test_an_unknown_pipeline_is_named(operator: httpx2.AsyncClient):
    answer = await operator.post("/api/jobs", json={"pipeline": "flaw"})
    assert "there are: flow" in str(refused(answer, 404, "unknown_pipeline")["detail"])
