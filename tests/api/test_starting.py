"""How a worker elsewhere begins, and how it ends when its key does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from takeup.app import App, make_folder
from takeup.config import load
from takeup.core.errors import InvalidInput, KeyRefused
from takeup.engine.enrolment import enrol
from takeup.engine.remote.starting import RemoteWorker, remote_worker
from takeup.pipelines.loading import load_all

FLOW = """from takeup import Pipeline

flow = Pipeline("flow")


@flow.stage()
def only(ctx):
    pass
"""
PATIENCE_S = 30.0

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@asynccontextmanager
async def begun(folder: Path, server_url: str, key: str, *capabilities: str) -> AsyncIterator[RemoteWorker]:
    (folder / "flow.py").write_text(FLOW)
    sources = [str(folder / "flow.py")]
    settings = load({}, {"data_dir": folder / "w", "server_url": server_url, "worker_api_key": key})
    make_folder(settings.data_dir)
    async with remote_worker(
        settings, load_all(sources), sources, slots=1, capabilities=capabilities
    ) as afar:
        yield afar


async def until_active(app: App, worker_id: str) -> frozenset[str]:
    """What it can do, once it works."""
    async with asyncio.timeout(PATIENCE_S):
        while (worker := await app.store.read.worker(worker_id)).status != "active":
            await asyncio.sleep(0.02)
    return worker.capabilities


@pytest.mark.parametrize(("told", "has"), [((), {"gpu"}), (("tape", "disk"), {"tape", "disk"})])
async def test_it_can_do_what_it_was_registered_with_or_is_told_now(
    app: App, address: str, tmp_path: Path, told: tuple[str, ...], has: set[str]
):
    worker_id, key = await enrol(app.store, "attic", capabilities=["gpu"])
    async with begun(tmp_path, address, key.text, *told) as afar:
        running = asyncio.create_task(afar.worker.run())
        assert await until_active(app, worker_id) == has
        afar.stop()
        await running


async def test_without_its_key_it_ends_and_says_so(app: App, address: str, tmp_path: Path):
    worker_id, key = await enrol(app.store, "attic")
    async with begun(tmp_path, address, key.text) as afar:
        running = asyncio.create_task(afar.worker.run())
        await until_active(app, worker_id)
        await app.store.keys.revoke(key.id)
        afar.source.stop_waiting()
        with pytest.raises(KeyRefused, match="the key was revoked"):
            await asyncio.wait_for(running, PATIENCE_S)


async def test_an_address_with_something_else_is_told(app: App, address: str, tmp_path: Path):
    _, key = await enrol(app.store, "attic")
    with pytest.raises(InvalidInput, match="/api is no Takeup server"):
        async with begun(tmp_path, f"{address}/api", key.text):
            pass


async def test_a_key_that_nobody_knows_is_told_with_where_to_get_one(app: App, address: str, tmp_path: Path):
    _, key = await enrol(app.store, "attic")
    wrong = key.text.replace("_wrk_", "_key_")
    with pytest.raises(KeyRefused) as refused:
        async with begun(tmp_path, address, wrong):
            pass
    assert "takeup workers register" in refused.value.help
