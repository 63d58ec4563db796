"""A worker that registers itself is the same one when it starts again."""

import os
import stat
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from takeup.app import App
from takeup.config import load
from takeup.core.errors import InvalidInput, WorkerRefused
from takeup.engine.remote.starting import NoKey, RemoteWorker, remote_worker
from tests.api.conftest import Client
from tests.api.test_edge import status_within

SECRET = "a secret for registering"  # noqa: S105 - of this test alone


@pytest.fixture
def more_settings() -> Mapping[str, object]:
    return {"worker_admin_secret": SECRET}


def starting(address: str, folder: Path, secret: str = SECRET) -> AbstractAsyncContextManager[RemoteWorker]:
    folder.mkdir(exist_ok=True)
    told = {"data_dir": folder, "server_url": address, "worker_admin_secret": secret}
    return remote_worker(load(os.environ, told), {}, [])


async def ids(app: App) -> set[str]:
    return {worker.id for worker in await app.store.read.workers()}


async def test_it_starts_again_as_the_same(app: App, address: str, tmp_path: Path):
    for _ in range(2):
        async with starting(address, tmp_path / "a"):
            pass
    first = await ids(app)
    assert len(first) == 1
    async with starting(address, tmp_path / "a", secret=""):
        assert await ids(app) == first, "it needs the secret no more"
    async with starting(address, tmp_path / "b"):
        assert len(await ids(app)) == 2, "another folder is another worker"


async def test_nobody_else_can_read_its_key_and_no_other_server_is_shown_it(
    app: App, address: str, tmp_path: Path
):
    async with starting(address, tmp_path / "a"):
        pass
    (kept,) = tmp_path.joinpath("a").glob("worker-*.key")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert kept.read_text().startswith("takeup_wrk_")
    with pytest.raises(NoKey):
        async with starting(f"http://localhost:{urlsplit(address).port}", tmp_path / "a", secret=""):
            pass


async def test_without_its_key_it_says_how_to_become_a_new_one(
    app: App, client: Client, address: str, tmp_path: Path
):
    async with starting(address, tmp_path / "a"):
        pass
    (key,) = [key for key in await app.store.keys.list() if key.kind == "wrk"]
    await app.store.keys.revoke(key.id)
    (kept,) = tmp_path.joinpath("a").glob("worker-*.key")
    assert await status_within(client(kept.read_text()), 401, 10.0) == 401
    app_knows = await ids(app)
    with pytest.raises(WorkerRefused) as refused:
        async with starting(address, tmp_path / "a"):
            pass
    assert f"else remove {kept}" in refused.value.help
    assert await ids(app) == app_knows, "what was revoked does not come back by itself"
    kept.unlink()
    async with starting(address, tmp_path / "a"):
        assert len(await ids(app)) == 2


async def test_a_kept_key_that_is_none_is_named(app: App, address: str, tmp_path: Path):
    async with starting(address, tmp_path / "a"):
        pass
    (kept,) = tmp_path.joinpath("a").glob("worker-*.key")
    kept.write_text("takeup_wrk_\n\ntorn")
    with pytest.raises(InvalidInput, match=kept.name):
        async with starting(address, tmp_path / "a"):
            pass
