"""Cookies, hashes and pages of people who log in; tests carry the row of the list."""

from pathlib import Path

import httpx2
import pytest

from takeup.api import passwords
from takeup.api.cookies import GUARDED_NAME
from takeup.api.login import within
from takeup.api.passwords import Cost, hash_of
from takeup.app import App
from tests.api.conftest import Client
from tests.api.test_jobs import refused
from tests.api.visitors import CHEAP, PASSWORD, Browser, cheapen, person


@pytest.fixture
def url(tmp_path: Path) -> str:
    """One database is enough to try the edge on."""
    return f"sqlite:///{tmp_path}/takeup.db"


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    cheapen(monkeypatch)


@pytest.fixture
def browser(client: Client) -> Browser:
    return Browser(client())


async def test_a_key_is_somebody_but_nobody_who_logs_in(viewer: httpx2.AsyncClient):
    told = (await viewer.get("/api/me")).json()
    assert told["user"].startswith("key:")
    assert (told["name"], told["role"], told["csrf_token"]) == ("viewer", None, None)
    assert told["scopes"] == ["read", "events"]
    refused(await viewer.post("/api/logout"), 403, "not_a_person")
    login = await viewer.post("/api/login", json={"name": "Ann", "password": PASSWORD})
    refused(login, 400, "two_credentials")


async def test_a_hash_of_another_cost_is_made_anew_at_login(
    app: App, browser: Browser, monkeypatch: pytest.MonkeyPatch
):
    await person(app)
    monkeypatch.setattr(passwords, "COST", CHEAP._replace(rounds=2))
    assert (await browser.log_in()).status_code == 200
    known = await app.store.people.by_name("Ann")
    assert known is not None
    assert "t=2,p=1$" in known.password_hash
    assert (await browser.log_in()).status_code == 200


def test_s97_a_hash_is_argon2id_at_the_recommended_cost(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(passwords, "COST", Cost(65_536, 3, 1))
    found = hash_of("Zu\u0308rich liegt am See")
    assert found.startswith("$argon2id$v=19$m=65536,t=3,p=1$")
    assert passwords.fits(found, "Z\u00fcrich liegt am See")
    assert not passwords.fits(found, "Zurich liegt am See")
    assert not passwords.fits(None, "Zurich liegt am See")
    assert not passwords.fits("not a hash", "x")


PLACES = {
    "/": "/",
    "/jobs?status=failed#x": "/jobs?status=failed#x",
    "//evil.example": "/",
    "/\\evil.example": "/",
    "\\\\evil.example": "/",
    "/\t/evil.example": "/",
    "https://evil.example": "/",
    "javascript:alert(1)": "/",
    "evil": "/",
    "": "/",
    "/a\nb": "/",
    "/a\n": "/",
}


@pytest.mark.parametrize("place", PLACES, ids=ascii)
def test_s104_only_places_on_this_server(place: str):
    assert within(place) == PLACES[place]


async def test_s96_s103_pages_for_strangers_and_for_people(app: App, browser: Browser):
    await person(app)
    page = await browser.send("GET", "/")
    assert (page.status_code, page.headers["location"]) == (302, "/login")
    refused(await browser.send("GET", "/api/jobs"), 401, "unauthenticated")
    await browser.log_in()
    for path, kind in (
        ("/", "text/html; charset=utf-8"),
        ("/login", "text/html; charset=utf-8"),
        ("/setup", "text/html; charset=utf-8"),
        ("/page/page.js", "text/javascript; charset=utf-8"),
        ("/page/page.css", "text/css; charset=utf-8"),
        ("/docs", "text/html; charset=utf-8"),
        ("/page/docs.js", "text/javascript; charset=utf-8"),
        ("/page/docs.css", "text/css; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ):
        answer = await browser.send("GET", path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
    refused(await browser.send("GET", "/page/..%2fgate.py"), 404, "not_found")
    refused(await browser.send("GET", "/page/home.html"), 422, "invalid_input")


async def test_s98_the_cookie_of_a_session(app: App, browser: Browser):
    await person(app)
    browser.origin = "https://takeup.example"
    answer = await browser.send(
        "POST", "/api/login", json={"name": "Ann", "password": PASSWORD}, Host="takeup.example"
    )
    assert answer.status_code == 200, answer.text
    name, _, _ = browser.cookie.partition("=")
    assert (name, browser.morsel is not None) == (GUARDED_NAME, True)
    kept = answer.headers["set-cookie"].lower()
    for part in ("; secure", "; httponly", "; samesite=lax", "; path=/", "; max-age=604800"):
        assert part in kept
    assert "domain" not in kept
    assert (await browser.send("GET", "/api/me", Host="takeup.example")).status_code == 200
    refused(await browser.send("GET", "/api/me"), 401, "unauthenticated")
