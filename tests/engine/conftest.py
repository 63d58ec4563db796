"""Scenes on the two databases that the engine is made for; none may leave a process behind."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from takeup.store.store import Store
from tests.engine.scene import Scene, scene_on
from tests.services import database_from_template

MARK = "TAKEUP_TEST_MARK"


async def upgraded(url: str) -> None:
    store = await Store.open(url, upgrade=True)
    await store.close()


@pytest.fixture
def no_orphans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Everything that a test starts inherits a mark; at the end nobody may wear it."""
    mark = f"{tmp_path.name}-{os.getpid()}"
    monkeypatch.setenv(MARK, mark)
    yield
    assert wearing(mark) == []


@pytest.fixture(params=["sqlite", "postgres15"])
async def url(request, tmp_path: Path, get_postgres) -> AsyncIterator[str]:
    """An upgraded database that no loop works on."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/takeup.db"
        await upgraded(url)
        yield url
        return
    async with database_from_template(get_postgres(request.param), upgraded) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres15"])
async def scene(request, tmp_path: Path, get_postgres, no_orphans) -> AsyncIterator[Scene]:
    if request.param == "sqlite":
        async with scene_on(f"sqlite:///{tmp_path}/takeup.db", tmp_path) as scene:
            yield scene
        return
    server = get_postgres(request.param)
    async with database_from_template(server, upgraded) as url, scene_on(url, tmp_path) as scene:
        yield scene


@pytest.fixture
async def small_scene(tmp_path: Path, no_orphans) -> AsyncIterator[Scene]:
    """On SQLite alone, for what does not depend on the database."""
    async with scene_on(f"sqlite:///{tmp_path}/takeup.db", tmp_path) as scene:
        yield scene


def wearing(mark: str) -> list[str]:
    """The other processes with this mark in their environment."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                is_ours = wanted in (entry / "environ").read_bytes() and b"takeup-pg-" not in command
                if is_ours:  # a database server that a test happened to start lives as long as the session
                    found.append(f"{entry.name} {command!r}")
    return found
