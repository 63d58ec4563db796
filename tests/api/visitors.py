"""People in front of a browser: what they type, and what their browser keeps and sends by itself."""

from http.cookies import Morsel, SimpleCookie

import httpx2

from takeup.api import passwords
from takeup.api.passwords import Cost, hash_of
from takeup.app import App
from takeup.core.access import Role
from takeup.core.people import Person

PASSWORD = "seven green kettles"  # noqa: S105 - a test's own
OTHER = "eleven blue saucers"
CHEAP = Cost(64, 1, 1)


async def person(app: App, name: str = "Ann", role: Role = "admin") -> Person:
    return await app.store.people.add(name, hash_of(PASSWORD), role)


def cheapen(monkeypatch) -> None:
    """What a password costs is tried once, not in every test."""
    monkeypatch.setattr(passwords, "COST", CHEAP)


class Browser:
    """Keeps the cookie and the token of a session, and says from which page it sends."""

    def __init__(self, client: httpx2.AsyncClient, origin: str = "") -> None:
        self.client = client
        self.cookie = self.token = ""
        self.morsel: Morsel[str] | None = None
        self.origin = origin or str(client.base_url).rstrip("/")

    async def log_in(self, name: str = "Ann", password: str = PASSWORD, **body: object) -> httpx2.Response:
        return await self.send("POST", "/api/login", json={"name": name, "password": password, **body})

    async def send(self, method: str, path: str, *, json: object = None, **headers: str) -> httpx2.Response:
        """As a page of the server would; a header that is empty is left out."""
        own = {"Cookie": self.cookie, "X-CSRF-Token": self.token}
        if method != "GET":
            own |= {"Origin": self.origin, "Sec-Fetch-Site": "same-origin"}
        own |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in own.items() if value}
        answer = await self.client.request(method, path, json=json, headers=sent)
        self._keep(answer)
        return answer

    def _keep(self, answer: httpx2.Response) -> None:
        """The cookie jar of Python keeps no `Secure` cookie for plain HTTP; browsers do, for this machine."""
        for header in answer.headers.get_list("set-cookie"):
            ((name, self.morsel),) = SimpleCookie(header).items()
            self.cookie = f"{name}={self.morsel.value}" if self.morsel["max-age"] != "0" else ""
        is_json = bool(answer.content) and answer.headers["content-type"] == "application/json"
        if is_json and isinstance(answer.json(), dict):
            self.token = answer.json().get("csrf_token") or self.token
