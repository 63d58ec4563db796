"""Workers over HTTP, whatever they are called."""

from urllib.parse import quote

import httpx2
import pytest

from takeup.app import App
from takeup.core.model import WorkerSpec
from tests.api.test_jobs import refused


@pytest.mark.parametrize("name", ["rack/7/left", "keys", "a b", "ü", "x/keys", "50%", "a?b#c"])
@pytest.mark.parametrize("safe", ["", "/"], ids=["escaped", "as it is"])
async def test_every_worker_can_be_addressed(app: App, admin: httpx2.AsyncClient, name: str, safe: str):
    await app.store.worker.register(WorkerSpec(name))
    path = f"/api/workers/{quote(name, safe=safe)}"
    assert (await admin.post(f"{path}/disable", json={})).json()["id"] == name
    made = (await admin.post(f"{path}/keys", json={"name": "first"})).json()
    assert (await admin.delete(f"{path}/keys/{made['id']}")).json() == {"id": made["id"], "changed": True}
    assert (await admin.post(f"{path}/enable", json={})).json()["disabled"] is False
    refused(await admin.post(f"{path}/more/enable", json={}), 404, "not_found")
