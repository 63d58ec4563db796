"""Webhooks over HTTP: only for admins, secrets told once, addresses judged when they are saved."""

from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest

from takeup.app import App
from takeup.engine.sending import Sender
from tests.api.test_jobs import refused
from tests.hooks.receiver import receiving


@pytest.fixture
def url(tmp_path: Path) -> str:
    """One database is enough: how each stores them is tried elsewhere."""
    return f"sqlite:///{tmp_path}/takeup.db"


@pytest.fixture
def more_settings() -> Mapping[str, object]:
    return {"webhook_allowed_networks": "127.0.0.1", "webhook_http": "allowed", "alert_webhook_timeout": 2.0}


async def add(admin: httpx2.AsyncClient, url: str, **body: object) -> dict[str, str]:
    answer = await admin.post("/api/webhooks", json={"url": url, **body})
    assert answer.status_code == 201, answer.text
    made: dict[str, str] = answer.json()
    return made


async def test_a_webhook_is_added_shown_tested_rotated_and_removed(app: App, admin: httpx2.AsyncClient):
    async with receiving() as receiver:
        made = await add(admin, f"http://127.0.0.1:{receiver.port}/x", events=["job.failed"])
        assert made["secret"].startswith("whsec_")
        path = f"/api/webhooks/{made['id']}"
        shown = (await admin.get(path)).json()
        assert (shown["events"], shown["disabled"]) == (["job.failed"], False)
        assert shown["secret_end"] == made["secret"][-4:]
        assert (await admin.get("/api/webhooks")).json() == {"items": [shown], "next": None}
        queued = await admin.post(f"{path}/test")
        assert (queued.status_code, queued.json()["event"]) == (202, "test")
        (sender,) = (loop for loop in app.webhook_loops() if isinstance(loop, Sender))
        await sender.run_once()
        await sender.settle()
        (sent,) = (await admin.get(f"{path}/deliveries")).json()["items"]
        assert (sent["status"], sent["answer"], len(receiver.received)) == ("SENT", "thanks", 1)
    renewed = (await admin.post(f"{path}/rotate")).json()
    assert renewed["secret"] != made["secret"]
    assert made["secret"] not in (await admin.get(path)).text
    off = await admin.post(f"{path}/disable", json={"reason": "moving"})
    assert (off.json()["disabled"], off.json()["reason"]) == (True, "moving")
    refused(await admin.post(f"{path}/test"), 409, "conflict")
    assert (await admin.post(f"{path}/enable", json={})).json()["disabled"] is False
    assert (await admin.delete(path)).json() == {"id": made["id"], "changed": True}
    for answer in (await admin.get(path), await admin.delete(path), await admin.get(f"{path}/deliveries")):
        refused(answer, 404, "not_found")


async def test_s111_s115_what_may_not_be_called_is_not_saved(admin: httpx2.AsyncClient):
    for url in (
        "https://10.0.0.1/",
        "https://2130706434/",
        "https://[::ffff:169.254.169.254]/",
        "https://user:hunter2@example.org/",
        "ftp://example.org/",
        "http://127.0.0.1:6379/",
    ):
        answer = await admin.post("/api/webhooks", json={"url": url})
        told = refused(answer, 422, "forbidden")
        assert told["advice"]
        assert "hunter2" not in answer.text
    refused(await admin.post("/api/webhooks", json={"url": "https://nowhere.invalid/"}), 422, "unresolved")
    refused(
        await admin.post("/api/webhooks", json={"url": "http://127.0.0.1:8080/", "events": ["x"]}),
        422,
        "invalid_input",
    )
    assert (await admin.get("/api/webhooks")).json()["items"] == []


async def test_only_admins_see_them(operator: httpx2.AsyncClient, viewer: httpx2.AsyncClient):
    for client in (operator, viewer):
        refused(await client.get("/api/webhooks"), 403, "scope")
        refused(await client.post("/api/webhooks", json={"url": "https://example.org/"}), 403, "scope")
