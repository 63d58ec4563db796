"""People log in over HTTP on every database: what they may do, and when their sessions end."""

import asyncio
import time

import httpx2
import pytest

from takeup.app import App
from takeup.core.access import ROLES
from tests.api.conftest import Client
from tests.api.test_jobs import create, refused
from tests.api.visitors import OTHER, PASSWORD, Browser, cheapen, person


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    cheapen(monkeypatch)


@pytest.fixture
def browser(client: Client) -> Browser:
    return Browser(client())


async def test_a_person_logs_in_and_out(app: App, browser: Browser):
    ann = await person(app)
    told = (await browser.log_in("ANN", next="/watch/x?t=3")).json()
    assert told.pop("next") == "/watch/x?t=3"
    assert told == (await browser.send("GET", "/api/me")).json()
    assert (told["user"], told["name"], told["role"]) == (f"person:{ann.id}", "Ann", "admin")
    assert set(told["scopes"]) == ROLES["admin"]
    made = await browser.send("POST", "/api/jobs", json={"pipeline": "flow"})
    assert made.status_code == 201
    assert (await app.store.read.job(made.json()["id"])).user_id == f"person:{ann.id}"
    cookie = browser.cookie
    assert (await browser.send("POST", "/api/logout")).status_code == 204
    assert browser.cookie == ""
    refused(await browser.send("GET", "/api/me", Cookie=cookie), 401, "session_over")


async def test_s10_a_role_is_what_one_may_do(app: App, browser: Browser, client: Client):
    await person(app)
    bob = await person(app, "Bob", "viewer")
    await browser.log_in("Bob")
    assert (await browser.send("GET", "/api/jobs")).status_code == 200
    refused(await browser.send("POST", "/api/jobs", json={"pipeline": "flow"}), 403, "scope")
    refused(await browser.send("GET", "/api/people"), 403, "scope")
    ann = Browser(client())
    await ann.log_in()
    path = f"/api/people/{bob.id}"
    assert (await ann.send("PATCH", path, json={"role": "operator"})).json()["role"] == "operator"
    await asyncio.sleep(0.6)
    assert (await browser.send("POST", "/api/jobs", json={"pipeline": "flow"})).status_code == 201


async def test_admins_add_list_change_and_remove_people(
    app: App, admin: httpx2.AsyncClient, browser: Browser
):
    await person(app)
    body = {"name": "Bob", "password": OTHER, "role": "viewer"}
    made = await admin.post("/api/people", json=body)
    assert made.status_code == 201
    path = f"/api/people/{made.json()['id']}"
    for wrong, status, code in (
        ({"name": "BOB"}, 409, "name_taken"),
        ({"name": "Eve", "role": "root"}, 422, "invalid_input"),
        ({"name": "e\tve"}, 422, "invalid_input"),
        ({"name": "Eve", "password": "e"}, 422, "weak_password"),
    ):
        refused(await admin.post("/api/people", json={**body, **wrong}), status, code)
    page = (await admin.get("/api/people?limit=1")).json()
    assert (page["items"][0]["name"], page["next"]) == ("Ann", "Ann")
    (bob,) = (await admin.get("/api/people?after=Ann")).json()["items"]
    assert bob == (await admin.get(path)).json()
    assert set(bob) == {"id", "name", "role", "disabled", "created_at", "changed_at"}, "s14: no hash"
    assert (await browser.log_in("Bob", OTHER)).status_code == 200
    refused(await admin.patch(path, json={"password": "bob"}), 422, "weak_password")
    for change in ({"password": PASSWORD}, {"disabled": True}, {"disabled": False}):
        assert (await admin.patch(path, json=change)).status_code == 200
    assert await ended_within(browser, 1.0)
    assert (await admin.delete(path)).json() == {"id": bob["id"], "changed": True}
    for gone in (await admin.get(path), await admin.delete(path), await admin.patch(path, json={})):
        refused(gone, 404, "not_found")
    refused(await browser.log_in("Bob"), 401, "login_refused")
    ann = (await admin.get("/api/people")).json()["items"][0]["id"]
    refused(await admin.delete(f"/api/people/{ann}"), 409, "last_admin")


async def ended_within(browser: Browser, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while (await browser.send("GET", "/api/me")).status_code != 401:
        if time.monotonic() > end:
            return False
        await asyncio.sleep(0.02)
    return True


async def test_s99_a_changed_password_ends_every_other_session(app: App, browser: Browser, client: Client):
    await person(app)
    other = Browser(client())
    for one in (browser, other):
        await one.log_in()
    before = browser.cookie
    wrong = {"old": OTHER, "new": OTHER}
    refused(await browser.send("POST", "/api/me/password", json=wrong), 401, "login_refused")
    weak = {"old": PASSWORD, "new": "ann"}
    refused(await browser.send("POST", "/api/me/password", json=weak), 422, "weak_password")
    changed = await browser.send("POST", "/api/me/password", json={"old": PASSWORD, "new": OTHER})
    assert changed.status_code == 200
    assert browser.cookie != before
    assert (await browser.send("GET", "/api/me")).json() == changed.json()
    refused(await browser.send("GET", "/api/me", Cookie=before), 401, "unauthenticated")
    assert await ended_within(other, 1.0)
    refused(await other.log_in(), 401, "login_refused")
    assert (await other.log_in(password=OTHER)).status_code == 200


async def test_s99_a_login_gives_a_new_session_and_ends_the_one_before(app: App, browser: Browser):
    await person(app)
    await browser.log_in()
    first = browser.cookie
    await browser.log_in()
    assert browser.cookie != first
    refused(await browser.send("GET", "/api/me", Cookie=first), 401, "session_over")
    planted = "takeup=" + "x" * 40
    refused(await browser.send("GET", "/api/me", Cookie=planted), 401, "unauthenticated")
    assert (await browser.send("GET", "/api/me")).status_code == 200


async def test_the_first_admin_comes_by_a_link_once(app: App, browser: Browser, client: Client):
    link = await app.store.people.offer_setup()
    assert link is not None
    body = {"token": link.text, "name": "Ann", "password": PASSWORD}
    wrong = link._replace(secret=link.secret[::-1]).text
    key = (await app.store.keys.add("k", ROLES["admin"])).text
    for token in (wrong, key, "x"):
        refused(await browser.send("POST", "/api/setup", json={**body, "token": token}), 403, "setup_refused")
    weak = await browser.send("POST", "/api/setup", json={**body, "password": "ann"})
    refused(weak, 422, "weak_password")
    assert (await browser.send("POST", "/api/setup", json=body)).json()["role"] == "admin"
    assert (await browser.send("GET", "/api/people")).json()["items"][0]["name"] == "Ann"
    again = await Browser(client()).send("POST", "/api/setup", json={**body, "name": "Eve"})
    refused(again, 403, "setup_refused")


async def test_how_far_a_job_is(operator: httpx2.AsyncClient, viewer: httpx2.AsyncClient):
    job_id = await create(operator)
    assert (await viewer.get(f"/api/jobs/{job_id}/progress")).json() == {
        "percent": 0.0,
        "stages": [{"stage": "only", "percent": 0.0, "counts": {"READY": 1}}],
    }
    refused(await viewer.get("/api/jobs/nothing/progress"), 404, "not_found")
