"""What other sites, guessers and the curious try on people's sessions; tests carry the row of the list."""

import asyncio
import sqlite3
import statistics
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from takeup.api import passwords
from takeup.api.build import routes
from takeup.api.desk import TRIES_MAX, TRIES_S, Desk, LoginRefused, TooManyLogins
from takeup.api.login import STRANGER_BYTES_MAX
from takeup.api.passwords import WAITING_MAX, Passwords, TooBusy
from takeup.app import App
from takeup.core.ids import digest
from takeup.core.model import WorkerSpec
from tests.api.conftest import Client, key_of
from tests.api.test_jobs import create, refused
from tests.api.visitors import OTHER, PASSWORD, Browser, cheapen, person

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """One database is enough to try the edge on."""
    return f"sqlite:///{tmp_path}/takeup.db"


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    cheapen(monkeypatch)


@pytest.fixture
async def ann(app: App, client: Client) -> Browser:
    await person(app)
    browser = Browser(client())
    assert (await browser.log_in()).status_code == 200
    return browser


CROSSED: tuple[Mapping[str, str], ...] = (
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "", "Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://[::1", "Sec-Fetch-Site": ""},
    {"Origin": "ftp://127.0.0.1"},
)


async def test_s100_another_site_changes_nothing(ann: Browser):
    for headers in CROSSED:
        refused(await ann.send("POST", "/api/jobs", json={"pipeline": "flow"}, **headers), 403, "cross_site")
        refused(await ann.send("POST", "/api/logout", **headers), 403, "cross_site")
        login = await ann.send("POST", "/api/login", json={"name": "Ann", "password": PASSWORD}, **headers)
        refused(login, 403, "cross_site")
    assert (await ann.send("GET", "/api/jobs")).json()["items"] == []


async def test_s100_a_page_of_ours_knows_the_token(ann: Browser, app: App, client: Client):
    body = {"pipeline": "flow"}
    nobody = {"Origin": "", "Sec-Fetch-Site": ""}
    refused(await ann.send("POST", "/api/jobs", json=body, **nobody), 403, "cross_site")
    await person(app, "Bob", "operator")
    bob = Browser(client())
    await bob.log_in("Bob")
    for token in ("", "x", bob.token, ann.token[:-1]):
        refused(await ann.send("POST", "/api/jobs", json=body, X_CSRF_Token=token), 403, "cross_site")
    assert (await ann.send("POST", "/api/jobs", json=body, Sec_Fetch_Site="")).status_code == 201
    assert (await ann.send("POST", "/api/jobs", json=body, Origin="")).status_code == 201
    secret = ann.cookie.partition("=")[2]
    assert ann.token == digest(f"takeup csrf {secret}")


async def test_s100_a_form_of_another_site_is_no_json(ann: Browser):
    sent = {"Cookie": ann.cookie, "Origin": "https://evil.example", "Content-Type": "text/plain"}
    answer = await ann.client.post("/api/jobs", content=b'{"pipeline": "flow"}', headers=sent)
    refused(answer, 403, "cross_site")
    sent = {"Content-Type": "text/plain"}
    answer = await ann.client.post("/api/login", content=b'{"name": "a", "password": "b"}', headers=sent)
    refused(answer, 415, "unsupported_media_type")


async def test_s100_keys_need_no_token(app: App, client: Client):
    headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    answer = await client(await key_of(app, "operator")).post(
        "/api/jobs", json={"pipeline": "flow"}, headers=headers
    )
    assert answer.status_code == 201, "no browser sends a key by itself"


async def test_s12_one_credential(app: App, ann: Browser):
    key = await key_of(app, "admin")
    both = await ann.send("GET", "/api/jobs", Authorization=f"Bearer {key}")
    refused(both, 400, "two_credentials")
    refused(await ann.send("GET", "/api/jobs", Cookie=f"{ann.cookie}; {ann.cookie}"), 400, "two_credentials")
    session = ann.cookie.partition("=")[2]
    refused(
        await ann.send("GET", "/api/jobs", Cookie="", Authorization=f"Bearer {session}"),
        401,
        "unauthenticated",
    )
    refused(await ann.send("GET", "/api/jobs", Cookie=f"takeup={key}"), 401, "unauthenticated")
    other = await ann.send("GET", "/api/jobs", Cookie=f"theme=dark; {ann.cookie}")
    assert other.status_code == 200


async def test_s13_wrong_cookies_are_counted(ann: Browser):
    told = [(await ann.send("GET", "/api/me", Cookie=f"takeup={n}")).status_code for n in range(21)]
    assert told == [401] * 20 + [429]
    assert (await ann.send("GET", "/api/me")).status_code == 200


async def test_s97_one_address_guesses_slowly(app: App, client: Client):
    await person(app)
    browser = Browser(client())
    told = [(await browser.log_in(name, OTHER)).json() for name in ("Ann", "nobody", "no\tbody")]
    assert told[0] == told[1] == told[2]
    for number in range(TRIES_MAX - 3):
        refused(await browser.log_in(f"name {number}", OTHER), 401, "login_refused")
    late = await browser.log_in()
    refused(late, 429, "too_many_logins")
    assert int(late.headers["retry-after"]) > 0
    setup = await browser.send("POST", "/api/setup", json={"token": "x", "name": "a", "password": "b"})
    refused(setup, 429, "too_many_logins")


async def test_s97_one_name_is_guessed_slowly_from_anywhere(app: App):
    await person(app)
    moment = 0.0
    desk = Desk(app.store.people, lambda: moment)
    for number in range(TRIES_MAX):
        with pytest.raises(LoginRefused):
            await desk.log_in("ann", OTHER, f"192.0.2.{number}")
    with pytest.raises(TooManyLogins):
        await desk.log_in("Ann", PASSWORD, "192.0.2.99")
    moment = TRIES_S + 1
    assert (await desk.log_in("Ann", PASSWORD, "192.0.2.99")).person.name == "Ann"


async def test_s97_an_unknown_name_costs_as_much(app: App, monkeypatch: pytest.MonkeyPatch):
    await person(app)
    known = await app.store.people.by_name("Ann")
    assert known is not None
    assert (
        passwords._nobody(passwords.COST).rpartition("$")[0].rpartition("$")[0]
        == (known.password_hash.rpartition("$")[0].rpartition("$")[0])
    )
    monkeypatch.setattr(passwords, "COST", passwords.COST._replace(memory_kib=4096))
    hashed = passwords.hash_of(PASSWORD)
    took: dict[str | None, list[float]] = {hashed: [], None: []}
    clock = asyncio.get_running_loop().time
    for _ in range(9):
        for password_hash, times in took.items():
            began = clock()
            assert not passwords.fits(password_hash, OTHER)
            times.append(clock() - began)
    one, other = (statistics.median(times) for times in took.values())
    assert 0.5 < one / other < 2


async def test_only_so_many_passwords_wait_at_once():
    desk = Passwords()
    hashed = passwords.hash_of(PASSWORD)
    told = await asyncio.gather(
        *(desk.fits(hashed, PASSWORD) for _ in range(WAITING_MAX + 3)), return_exceptions=True
    )
    assert told.count(True) == WAITING_MAX
    assert sum(isinstance(one, TooBusy) for one in told) == 3
    assert await desk.fits(hashed, PASSWORD)


async def test_strangers_send_little(client: Client):
    for size, status in ((STRANGER_BYTES_MAX - 100, 422), (STRANGER_BYTES_MAX + 100, 413)):
        body = b'{"name": "' + b"x" * size + b'"}'
        answer = await client().post("/api/login", content=body, headers=JSON)
        assert answer.status_code == status
    refused(await client().post("/api/login?x=1", json={}), 422, "invalid_input")


def everything(path: Path) -> dict[str, list[Any]]:
    """All that is stored, but when somebody was seen last."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: [
                {name: row[name] for name in row.keys() if name not in ("seen_at", "last_used_at")}  # noqa: SIM118
                for row in connection.execute(f"SELECT * FROM {table}")
            ]
            for table in tables
        }


async def test_s101_no_look_changes_anything(
    app: App, ann: Browser, operator: httpx2.AsyncClient, tmp_path: Path
):
    job_id = await create(operator)
    await app.store.worker.register(WorkerSpec("w"))
    (task,) = await app.store.read.tasks(job_id)
    (me,) = await app.store.people.list()
    there = {"job_id": job_id, "task_id": str(task.id), "worker_id": "w", "person_id": me.id}
    before = everything(tmp_path / "takeup.db")
    told: dict[str, int] = {}
    for path, calls in routes().openapi()["paths"].items():
        if "get" not in calls:
            continue
        address = path
        for part in calls["get"].get("parameters", ()):
            if part["in"] == "path":
                address = address.replace(f"{{{part['name']}}}", there.get(part["name"], "x"))
        headers = {"Cookie": ann.cookie}
        async with ann.client.stream("GET", address, headers=headers) as answer:  # one may never end
            told[path] = answer.status_code
    assert everything(tmp_path / "takeup.db") == before
    assert not [path for path, status in told.items() if status >= 500]
    assert sum(status == 200 for status in told.values()) >= 15, told


async def test_s132_no_secret_is_kept_or_told(
    app: App, client: Client, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    link = await app.store.people.offer_setup()
    assert link is not None
    browser = Browser(client())
    canary = "canary in a coal mine"
    bodies = (
        {"token": link.text, "name": "Ann", "password": canary, "more": 1},
        {"token": link.text, "name": "canary", "password": "canary"},
        {"token": link.text, "name": "Ann", "password": canary},
    )
    said = [(await browser.send("POST", "/api/setup", json=body)).text for body in bodies]
    session, token = browser.cookie.partition("=")[2], browser.token
    said[-1] = said[-1].replace(token, "")
    for name, password in (("Ann", f"{canary} not"), (canary, "x"), ("Ann", canary)):
        said.append((await Browser(client()).log_in(name, password)).json().get("detail", ""))
    changed = await browser.send("POST", "/api/me/password", json={"old": canary, "new": f"{canary}!"})
    assert changed.status_code == 200
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    told = "".join([*said, *capfd.readouterr()])
    for secret in (canary, link.secret, session, token):
        assert secret.encode() not in kept
        assert secret not in told
    assert digest(session).encode() in kept, "what would be found is looked for in the right place"


class TestInsecureCookies:
    @pytest.fixture
    def more_settings(self) -> Mapping[str, object]:
        return {"insecure_cookies": True}

    async def test_a_cookie_that_travels_in_the_open(self, ann: Browser):
        assert ann.cookie.startswith("takeup=")
        assert ann.morsel is not None
        assert not ann.morsel["secure"]
        assert ann.morsel["httponly"]
        answer = await ann.send("GET", "/api/me", Host="192.168.1.7:8080")
        assert answer.status_code == 200, "a machine of the network, by its address"
