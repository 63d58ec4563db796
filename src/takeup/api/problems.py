"""Every error as a problem document (RFC 9457): what is wrong, and what to do; no path, no SQL, no secret."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Route

from takeup.core.errors import TakeupError
from takeup.telemetry.logs import logger
from takeup.telemetry.redact import presentable

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = "1"
DETAIL_CHARS_MAX = 1000
ERRORS_MAX = 20
FAULT = "the server could not do this; its log says why"
CHECKSUM_MISMATCH = 460
"""What the protocol for resumed uploads says where a part came damaged."""
RENAMED: dict[int, str] = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Too Large",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid Input",
    CHECKSUM_MISMATCH: "Checksum Mismatch",
}
"""These have other words from one Python to the next, or none."""

log = logger("api")


class FieldError(BaseModel):
    """One value that cannot be used."""

    where: str
    what: str


class Problem(BaseModel):
    """What the body of every refusal looks like."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str = ""
    advice: str | None = None
    errors: list[FieldError] | None = None


class HttpError(TakeupError):
    """A refusal of the edge itself, with the headers that belong to it."""

    headers: Mapping[str, str] = {}


def words(status: int) -> str:
    """What a status means, the same everywhere."""
    return RENAMED.get(status) or HTTPStatus(status).phrase


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How these statuses are documented."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"model": Problem, "description": words(status), "content": content} for status in statuses
    }


def answer(
    status: int,
    code: str,
    detail: str,
    *,
    advice: str | None = None,
    errors: Sequence[FieldError] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """A refusal."""
    known = Problem(
        title=words(status),
        status=status,
        code=code,
        detail=presentable(detail)[:DETAIL_CHARS_MAX],
        advice=advice,
        errors=list(errors) if errors else None,
    )
    body = known.model_dump(exclude_none=True)
    return JSONResponse(body, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def install(api: FastAPI) -> None:
    """Let every error of this application end as such a document."""
    api.add_exception_handler(TakeupError, _of_ours)
    api.add_exception_handler(RequestValidationError, _of_values)
    api.add_exception_handler(HTTPException, _of_http)


async def _of_ours(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TakeupError)  # noqa: S101 - as it was registered
    status = error.http_status
    headers = dict(error.headers) if isinstance(error, HttpError) else {}
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.setdefault("Retry-After", RETRY_AFTER_S)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("not answered", error=str(error), code=error.code)
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return answer(status, "fault", FAULT)
    return answer(status, error.code, str(error), advice=error.help, headers=headers)


async def _of_values(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as it was registered
    errors = [
        FieldError(where=".".join(map(str, one["loc"]))[:DETAIL_CHARS_MAX], what=str(one["msg"]))
        for one in error.errors()[:ERRORS_MAX]
    ]
    told = "; ".join(f"{one.where}: {one.what}" for one in errors)
    return answer(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_input", told, errors=errors)


async def _of_http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - as it was registered
    status = HTTPStatus(error.status_code)
    headers = dict(error.headers or {})
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = _allowed(request)
    code = words(status).lower().replace(" ", "_").replace("-", "_")
    return answer(status, code, str(error.detail), headers=headers)


def _allowed(request: Request) -> str:
    """Every method that some route of this place takes; the router itself tells only of the first of them."""
    fitting = (
        route.methods or ()
        for route in request.app.state.calls
        if isinstance(route, Route) and route.path_regex.match(request.scope["path"])
    )
    return ", ".join(sorted({method for methods in fitting for method in methods}))
