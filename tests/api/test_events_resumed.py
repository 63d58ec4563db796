"""Nothing is missed and nothing told twice: on two servers, in any order of commits, however one reads."""

import asyncio
import itertools
import random
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import httpx2
import pytest

from takeup.api.build import build_api
from takeup.api.listening import listen, serve
from takeup.app import App, open_app
from takeup.config import load
from tests.api.conftest import Client, flow, key_of
from tests.api.listening_in import listening
from tests.conftest import GetPostgres
from tests.services import database_from_template
from tests.store.scenes import add_worker, upgrade_schema


@pytest.fixture
async def other_address(app: App, tmp_path: Path) -> AsyncIterator[str]:
    """A second server on the same database, with everything its own."""
    settings = load({}, {"database_url": app.settings.database_url, "data_dir": tmp_path / "other"})
    async with open_app(settings) as own:
        stop, opened = asyncio.Event(), listen("127.0.0.1", 0)
        running = asyncio.create_task(serve(build_api(own, {"flow": flow}), opened, stop))
        yield f"http://127.0.0.1:{opened.getsockname()[1]}"
        stop.set()
        await running
        opened.close()


@pytest.fixture
async def both(app: App, client: Client, other_address: str) -> AsyncIterator[list[httpx2.AsyncClient]]:
    key = await key_of(app, "viewer")
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=other_address, headers=headers, trust_env=False) as other:
        yield [client(key), other]


async def logged_seqs(app: App, after: int) -> list[int]:
    return [event.seq for event in await app.store.read.events(after=after) if event.noun == "worker"]


async def test_a_listener_goes_from_server_to_server(app: App, both: list[httpx2.AsyncClient]):
    ids = [f"w{number}" for number in range(6)]
    for worker_id in ids:
        await add_worker(app.store, worker_id)
    start = max(await logged_seqs(app, 0))
    seed = secrets.randbits(32)
    luck = random.Random(seed)

    async def change(worker_id: str) -> None:
        for _ in range(8):
            await app.store.operator.disable([worker_id])
            await app.store.operator.enable([worker_id])
            await asyncio.sleep(luck.random() * 0.05)

    async with listening(both[0], "worker_status") as ears:
        place = (await ears.until(lambda one: one.kind == "id"))[-1].id
    changing = [asyncio.create_task(change(worker_id)) for worker_id in ids]
    heard: list[int] = []
    for server in itertools.cycle(both):
        async with listening(server, "worker_status", last_id=place) as ears:
            for _ in range(luck.randint(1, 40)):
                one = await ears.hear()
                assert one, seed
                assert one.kind != "reset", seed
                place = one.id or place
                heard += [one.data["seq"]] if one.data.get("seq") else []
                if len(heard) >= 6 * 16:
                    break
        if len(heard) >= 6 * 16:
            break
    await asyncio.gather(*changing)
    async with listening(both[0], "worker_status", last_id=place) as ears:
        one = await ears.hear()
        assert one, seed
        assert not one.data.get("seq"), f"seed {seed}: nothing is left to tell"
    assert sorted(heard) == await logged_seqs(app, start), f"seed {seed}"


class TestLateCommits:
    """A transaction draws its number before others can see its row."""

    @pytest.fixture(params=["postgres15"])
    async def url(self, request: pytest.FixtureRequest, get_postgres: GetPostgres) -> AsyncIterator[str]:
        async with database_from_template(get_postgres(request.param), upgrade_schema) as found:
            yield found

    async def test_what_commits_late_is_told_late_and_once(
        self, app: App, url: str, both: list[httpx2.AsyncClient]
    ):
        for worker_id in ("early", "late"):
            await add_worker(app.store, worker_id)
        connection = await asyncpg.connect(url)
        late = connection.transaction()
        async with listening(both[0], "worker_status") as ears:
            await ears.until(lambda one: one.kind == "id")
            await late.start()
            await connection.execute(
                "INSERT INTO audit (logged_at, noun, event, actor, from_status, to_status, worker_id) "
                "VALUES (clock_timestamp(), 'worker', 'drain', 'operator', 'active', 'draining', 'late')"
            )
            await app.store.operator.drain(["early"])
            first = (await ears.until(lambda one: one.data.get("event") == "drain"))[-1]
            assert first.data["id"] == "early"
            await app.store.operator.disable(["early"])
            second = (await ears.until(lambda one: one.data.get("event") == "disable"))[-1]
            await asyncio.sleep(0.3)  # more looks, none of which may call settled what is not
        await late.commit()
        await connection.close()
        for server, place, expected in (
            (both[1], second.id, ["late"]),
            (both[0], second.id, ["late"]),
            (both[1], first.id, ["late", "early"]),
        ):
            async with listening(server, "worker_status", last_id=place) as ears:
                told = await ears.until(lambda one: one.kind == "worker_status" and not one.data.get("seq"))
                assert [one.data["id"] for one in told if one.data.get("seq")] == expected

    async def test_an_open_listener_hears_it_too(self, app: App, url: str, both: list[httpx2.AsyncClient]):
        await add_worker(app.store, "w")
        connection = await asyncpg.connect(url)
        async with listening(both[0], "worker_status") as ears:
            await ears.until(lambda one: one.kind == "id")
            late = connection.transaction()
            await late.start()
            await connection.execute(
                "INSERT INTO audit (logged_at, noun, event, actor, to_status, worker_id) "
                "VALUES (clock_timestamp(), 'worker', 'revive', 'worker', 'active', 'w')"
            )
            await app.store.operator.drain(["w"])
            drained = (await ears.until(lambda one: one.data.get("event") == "drain"))[-1]
            await late.commit()
            revived = (await ears.until(lambda one: one.data.get("event") == "revive"))[-1]
            assert revived.data["seq"] < drained.data["seq"]
        await connection.close()
