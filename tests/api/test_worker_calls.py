"""The calls of a worker elsewhere, by its own client and by hand: repeated, late and foreign ones too."""

import asyncio
import secrets
from collections.abc import Callable, Mapping

import httpx2
import pytest

from takeup.app import App
from takeup.core.errors import InvalidInput, LeaseLost, WorkerRefused
from takeup.core.ids import Token, nonce_hash
from takeup.core.model import (
    Completion,
    Failure,
    Held,
    LogLine,
    Progress,
    Step,
    StepEnd,
)
from takeup.core.remote import PROTOCOL
from takeup.engine.enrolment import enrol
from takeup.engine.remote.source import HttpSource
from takeup.store.ops.claim import ClaimRequest
from tests.api.afar import Hire, hire, submit
from tests.api.test_edge import refused

__all__ = ["hire"]
SECRET = "a secret of the administrator"  # noqa: S105 - of this test alone
START = {"protocol": PROTOCOL, "version": "0", "slots": 1, "stages": ["*"]}


@pytest.fixture
def more_settings() -> Mapping[str, object]:
    return {"worker_admin_secret": SECRET}


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
    assert "flow has version 7" in str(refused(other, 409, "other_version")["detail"])


async def test_its_metadata_is_the_users_alone(client, app: App, viewer):
    _, key = await enrol(app.store, "attic", metadata={"rack": 3, "processes": "many"})
    http = client(key.text)
    for process in ("one", "two"):
        body = {**START, "process": process, "metadata": {"host": "attic"}}
        assert (await http.post("/api/worker/start", json=body)).status_code == 200
    (row,) = (await viewer.get("/api/workers")).json()["items"]
    assert row["metadata"] == {"rack": 3, "processes": "many", "host": "attic", "version": START["version"]}
    assert "processes" not in row


async def test_its_metadata_stay_within_their_bound_start_after_start(client, app: App):
    worker_id, key = await enrol(app.store, "attic", metadata={"one": "x" * 6000})
    body = {**START, "metadata": {"two": "y" * 6000}}
    told = refused(await client(key.text).post("/api/worker/start", json=body), 422, "invalid_input")
    assert "metadata have 12" in str(told["detail"])
    assert "two" not in (await app.store.read.worker(worker_id)).metadata


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


async def test_s15_a_late_or_foreign_token_is_refused_and_changes_nothing(
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


async def test_s16_s17_a_token_is_good_for_one_lease(
    app: App, hire: Hire, client: Callable[..., httpx2.AsyncClient]
):
    await submit(app, 2)
    afar = await hire("a")
    old, other = await afar.claim(limit=2)
    await afar.source.release(afar.id, [old.held], reason="back", request_id="r")
    (new,) = await afar.claim()
    assert (new.task_id, new.token.epoch) == (old.task_id, old.token.epoch + 1)
    http = client(afar.key)
    before = await app.store.read.events()
    for held in (old.held, Held(other.task_id, new.token), Held(new.task_id, other.token)):
        token = {"task_id": held.task_id, "epoch": held.token.epoch, "nonce": held.token.nonce}
        for call, more in (
            ("progress", {"percent": 1.0}),
            ("complete", {}),
            ("fail", {"error": "x"}),
            ("release", {}),
        ):
            if (call, held) == ("release", old.held):
                continue  # that one is answered again as it was
            body = {"request_id": f"{call}{held}", "reports": [{**token, **more}]}
            refused(await http.post(f"/api/worker/{call}", json=body), 409, "lease_lost")
        refused(await http.post("/api/worker/inputs", json={**token, "needs": "only"}), 409, "lease_lost")
        headers = {"Takeup-Token": f"{held.token.epoch}.{held.token.nonce}", "Upload-Length": "1"}
        path = f"/api/worker/tasks/{held.task_id}/outputs"
        refused(await http.put(f"{path}/a.bin", content=b"x", headers=headers), 409, "lease_lost")
        refused(await http.get(path, headers=headers), 409, "lease_lost")
    assert await app.store.read.events() == before


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


async def test_it_is_told_what_became_of_attempts(app: App, hire: Hire):
    await submit(app)
    afar = await hire("afar")
    (lease,) = await afar.claim()
    folder = lease.task_id, lease.token.epoch, nonce_hash(lease.token.nonce)
    told = {one.folder: one.fate for one in await afar.source.fates([folder, (10**6, 1, "0" * 32)])}
    assert (told[folder], len(told)) == ("held", 2)
    wrong = afar.client.call("POST", "/api/worker/fates", {"folders": [["1", 1, "0"]]})
    with pytest.raises(InvalidInput, match="folders"):
        await wrong


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


async def test_s18_a_disabled_worker_is_refused(app: App, hire: Hire):
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
