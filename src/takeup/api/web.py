"""The pages of the server: plain files that ask the API, as anybody could."""

from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from takeup.api.access import Unauthenticated, known_caller

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

router = APIRouter(include_in_schema=False)


@router.get("/")
async def home(request: Request) -> Response:
    """What runs; strangers are asked to log in first."""
    try:
        await known_caller(request)
    except Unauthenticated:
        return RedirectResponse("/login", HTTPStatus.FOUND)
    return _file("home.html")


@router.get("/login")
async def login_page() -> Response:
    """Where people log in."""
    return _file("login.html")


@router.get("/setup")
async def setup_page() -> Response:
    """Where the first admin is made; what lets him in stands behind the `#`, which no browser sends."""
    return _file("setup.html")


@router.get("/docs")
async def docs_page() -> Response:
    """The API for people, put together in the browser from the document that all may read."""
    return _file("docs.html")


@router.get("/page/{name}")
async def part(name: Literal["page.css", "page.js", "docs.css", "docs.js", "icon.svg"]) -> Response:
    """What the pages are made of."""
    return _file(name)


def _file(name: str) -> Response:
    return Response(_text(name), media_type=TYPES[name.rpartition(".")[2]])


@cache
def _text(name: str) -> str:
    return files("takeup.api").joinpath("page", name).read_text("utf-8")
