"""What the document of the API says beyond what each route says: which call leads to which, and how."""

from typing import Any

from fastapi import FastAPI

from takeup.api.problems import MEDIA_TYPE

MADE = {
    "POST /api/jobs": ("job_id", "/id"),
    "POST /api/jobs/{job_id}/retry": ("job_id", "/id"),
    "POST /api/videos": ("video_id", "/id"),
    "POST /api/videos/{video_id}/retranscode": ("job_id", "/job_id"),
    "POST /api/keys": ("key_id", "/id"),
    "POST /api/people": ("person_id", "/id"),
    "POST /api/webhooks": ("webhook_id", "/id"),
    "GET /api/workers": ("worker_id", "/items/0/id"),
}
"""Calls that answer with the id of something, and where it stands: calls about it can follow."""
CLAIM = "POST /api/worker/claim"
ABOUT_LEASES = ("progress", "complete", "fail", "release", "glance")
"""What a worker may say of a lease that it was given."""

PARAMETERS: dict[str, dict[str, Any]] = {
    "Tus-Resumable": {"required": True, "schema": {"type": "string", "const": "1.0.0"}},
    "upload-length": {"required": True, "schema": {"type": "string", "pattern": r"^[0-9]{1,15}$"}},
    "upload-offset": {"required": True, "schema": {"type": "string", "pattern": r"^[0-9]{1,15}$"}},
}
"""What the protocol of uploads asks for; the calls refuse what is missing in words of their own."""

Document = dict[str, Any]


def install(api: FastAPI) -> None:
    """Let the application hand out its document with all of this."""
    plain = api.openapi

    def whole() -> Document:
        if api.openapi_schema is None:
            _finish(plain())
        return plain()

    api.openapi = whole  # type: ignore[method-assign]


def _finish(document: Document) -> None:
    calls = {
        f"{method.upper()} {path}": call
        for path, methods in document["paths"].items()
        for method, call in methods.items()
    }
    for call in calls.values():
        for answer in call["responses"].values():
            content = answer.get("content", {})
            if MEDIA_TYPE in content:  # the framework adds its own kind, as which no refusal comes
                content.pop("application/json", None)
        for parameter in call.get("parameters", []):
            parameter.update(PARAMETERS.get(parameter["name"], {}))
    for name, (parameter, place) in MADE.items():
        _good(calls[name])["links"] = _links_to(calls, name, parameter, f"$response.body#{place}")
    _good(calls[CLAIM])["links"] = dict(_reports(calls))


def _good(call: Document) -> Document:
    """The answer of a call that did what was asked."""
    found: Document = next(answer for status, answer in call["responses"].items() if status < "300")
    return found


def _links_to(calls: dict[str, Document], name: str, parameter: str, value: str) -> Document:
    return {
        call["operationId"]: {"operationId": call["operationId"], "parameters": {parameter: value}}
        for other, call in calls.items()
        if f"{{{parameter}}}" in other and other.count("{") == 1 and other != name
    }


def _reports(calls: dict[str, Document]) -> list[tuple[str, Document]]:
    """A lease is renewed or ended by the token that came with it."""
    lease = "$response.body#/leases/0"
    held = {name: f"{lease}/{name}" for name in ("task_id", "epoch", "nonce")}
    bodies = {
        "glance": {"held": [held]},
        "fail": {"request_id": "$request.body#/request_id", "reports": [{**held, "error": "it broke"}]},
    }
    usual = {"request_id": "$request.body#/request_id", "reports": [held]}
    found = []
    for name in ABOUT_LEASES:
        target = calls[f"POST /api/worker/{name}"]["operationId"]
        found.append((target, {"operationId": target, "requestBody": bodies.get(name, usual)}))
    return found
