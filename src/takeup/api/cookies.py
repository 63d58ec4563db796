"""The cookie that a session travels in: how it is called, given, read and taken back."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import Request, Response

from takeup.store.ops.sessions import LIFE_S

PLAIN_NAME = "takeup"
GUARDED_NAME = "__Host-takeup"
"""Browsers take a cookie of such a name only over TLS, from this host, and for all of it."""


class Cookies:
    """The cookies of one server; `insecure` ones travel over plain HTTP as well."""

    def __init__(self, *, insecure: bool) -> None:
        self._insecure = insecure

    def shown(self, request: Request) -> list[str]:
        """Every cookie of ours that was sent: one, unless somebody planted another."""
        name = self.name(request)
        pairs = [
            pair.strip().partition("=")
            for header in request.headers.getlist("cookie")
            for pair in header.split(";")
        ]
        return [value for key, _, value in pairs if key == name]

    def give(self, request: Request, response: Response, text: str) -> None:
        """Let the browser show this from now on."""
        self._set(request, response, text, round(LIFE_S))

    def take_back(self, request: Request, response: Response) -> None:
        """Let the browser forget it."""
        self._set(request, response, "", 0)

    def name(self, request: Request) -> str:
        """The guarded name, except to this machine itself, where there is no TLS to go with it."""
        is_plain = self._insecure or is_loopback(request.headers.get("host", ""))
        return PLAIN_NAME if is_plain else GUARDED_NAME

    def _set(self, request: Request, response: Response, text: str, life_s: int) -> None:
        response.set_cookie(
            self.name(request),
            text,
            max_age=life_s,
            path="/",
            secure=not self._insecure,
            httponly=True,
            samesite="lax",
        )


def is_loopback(host: str) -> bool:
    """Whether a Host header means this very machine, which browsers trust without TLS."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or name.endswith(".localhost") or ip_address(name).is_loopback
    except ValueError:
        return False
