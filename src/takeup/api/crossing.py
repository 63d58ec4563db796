"""Whether a request comes from a page of this server, and not from one that another site showed somebody."""

import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from fastapi import Request

from takeup.api.problems import HttpError
from takeup.core.ids import digest
from takeup.core.keys import Key

HEADER = "X-CSRF-Token"
PORTS: Mapping[str, int] = {"http": 80, "https": 443}


class CrossSite(HttpError):
    """It may be the doing of another site."""

    http_status = 403
    help = (
        f"Send it from a page of this server, with the header `{HEADER}` that `GET /api/me` tells; "
        "programs use keys. A proxy must pass the `Host` header on."
    )


def csrf_token(session: Key) -> str:
    """What a page must know besides the cookie, which a browser sends by itself; another for each login."""
    return digest(f"takeup csrf {session.text}")


def check_crossing(request: Request, token: str) -> None:
    """Refuse a change unless it comes from here and whoever sent it could read what we answered."""
    if not check_origin(request):
        raise CrossSite("it is not said which page sent this")
    shown = request.headers.getlist(HEADER)
    if len(shown) != 1 or not hmac.compare_digest(shown[0].encode(), token.encode()):
        raise CrossSite(f"the header {HEADER} is missing or not that of the login")


def check_origin(request: Request) -> bool:
    """Refuse what another site sent; whether it is said at all who did, which only browsers do."""
    sites = request.headers.getlist("sec-fetch-site")
    origins = request.headers.getlist("origin")
    host = request.headers.get("host", "")
    if any(site != "same-origin" for site in sites) or not all(_is_here(one, host) for one in origins):
        raise CrossSite("another site sent this")
    return bool(sites or origins)


def _is_here(origin: str, host: str) -> bool:
    """Whether an origin is the host that was asked; only the origin knows of TLS that ends at a proxy."""
    try:
        sent, asked = urlsplit(origin), urlsplit(f"//{host}")
        ports = sent.port, asked.port
    except ValueError:
        return False
    usual = PORTS.get(sent.scheme)
    is_same_port = usual is not None and (ports[0] or usual) == (ports[1] or usual)
    return is_same_port and sent.hostname is not None and sent.hostname == asked.hostname
