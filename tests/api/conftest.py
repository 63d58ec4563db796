"""A real server on a real socket, over a fresh database, and clients with keys of every kind."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from takeup import Pipeline
from takeup.api.build import build_api
from takeup.api.listening import listen, serve
from takeup.app import App, open_app
from takeup.config import load
from takeup.core.access import ROLES
from takeup.testing.clocks import ManualClock
from tests.conftest import GetPostgres
from tests.services import database_from_template
from tests.store.scenes import upgrade_schema

Client = Callable[..., httpx2.AsyncClient]

flow, pair = Pipeline("flow"), Pipeline("pair")
"""Jobs of the first can be asked for over HTTP; the second only runs."""


@flow.stage()
def only(ctx):
    return {}


@pair.stage()
def first(ctx):
    return {}


@pair.stage(needs=[first])
def second(ctx):
    return {}


@pytest.fixture(params=["sqlite", "postgres15"])
async def url(
    request: pytest.FixtureRequest, tmp_path: Path, get_postgres: GetPostgres
) -> AsyncIterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/takeup.db"
    else:
        async with database_from_template(get_postgres(request.param), upgrade_schema) as found:
            yield found


@pytest.fixture
def more_settings() -> Mapping[str, object]:
    """What a test wants to be otherwise."""
    return {}


@pytest.fixture
def clock() -> ManualClock | None:
    """The time of the database, if it is not to be its own."""
    return None


@pytest.fixture
async def app(
    url: str, tmp_path: Path, more_settings: Mapping[str, object], clock: ManualClock | None
) -> AsyncIterator[App]:
    settings = load({}, {"database_url": url, "data_dir": tmp_path / "data", **more_settings})
    async with open_app(settings, clock=clock) as opened:
        yield opened


@asynccontextmanager
async def served(app: App, pipeline: Pipeline = flow) -> AsyncIterator[str]:
    """Answers over this database; yields at which address."""
    stop = asyncio.Event()
    opened = listen("127.0.0.1", 0)
    offered = {pipeline.name: pipeline}
    api = build_api(app, offered, {**offered, "pair": pair})
    running = asyncio.create_task(serve(api, opened, stop))
    yield f"http://127.0.0.1:{opened.getsockname()[1]}"
    stop.set()
    await running
    opened.close()


@pytest.fixture
async def address(app: App) -> AsyncIterator[str]:
    async with served(app) as found:
        yield found


@pytest.fixture
async def client(app: App, address: str) -> AsyncIterator[Client]:
    """Clients: of a role, with a key, or with nothing."""
    opened: list[httpx2.AsyncClient] = []

    def make(key: str = "", **options: object) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        opened.append(httpx2.AsyncClient(base_url=address, headers=headers, trust_env=False, **options))
        return opened[-1]

    yield make
    for one in opened:
        await one.aclose()


async def key_of(app: App, role: str) -> str:
    return (await app.store.keys.add(role, ROLES[role])).text


@pytest.fixture
async def viewer(app: App, client: Client) -> httpx2.AsyncClient:
    return client(await key_of(app, "viewer"))


@pytest.fixture
async def operator(app: App, client: Client) -> httpx2.AsyncClient:
    return client(await key_of(app, "operator"))


@pytest.fixture
async def admin(app: App, client: Client) -> httpx2.AsyncClient:
    return client(await key_of(app, "admin"))
