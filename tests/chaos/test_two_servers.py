"""Two servers on one PostgreSQL: either may be killed at any moment, whoever asks goes on at the other."""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from takeup.core.access import ROLES
from takeup.core.plan import NewJob
from takeup.engine.enrolment import enrol
from takeup.engine.remote.client import Client
from takeup.pipelines.loading import load
from takeup.store.store import Store
from tests.api.listening_in import listening
from tests.api.test_uploads import begin, go_on
from tests.chaos.elsewhere import FILE, FLOW, LEASE_S, Simulated, check_used, judge, verify
from tests.chaos.verdict import events_of
from tests.conftest import GetPostgres
from tests.services import database_from_template
from tests.serving import Process, RemoteWorker, Server, running
from tests.store.scenes import upgrade_schema
from tests.videos.making import sound

KILLS = 3
JOBS, FILES, WORKERS = 40, 4, 5
WAIT_S = 60.0
LOOK_S = 0.05
REFUSED_S = 1.0


@pytest.fixture
async def url(get_postgres: GetPostgres) -> AsyncIterator[str]:
    async with database_from_template(get_postgres("postgres15"), upgrade_schema) as found:
        yield found


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    opened = await Store.open(url)
    yield opened
    await opened.close()


@pytest.fixture
async def servers(tmp_path: Path, url: str) -> AsyncIterator[list[Server]]:
    """As docs/guides/operate.md says: files are shared, what belongs to one process is not."""
    (tmp_path / FILE).write_text(FLOW)
    shared = {"TAKEUP_STORAGE_URL": f"file://{tmp_path}/artifacts", "TAKEUP_MEDIA_DIR": f"{tmp_path}/media"}
    both = [
        Server(tmp_path, url, "--pipelines", FILE, "--data", tmp_path / name, name=name, **shared)
        for name in ("one", "two")
    ]
    async with running(*both):
        yield both


@asynccontextmanager
async def asking(servers: Sequence[Server], key: str) -> AsyncIterator[list[httpx2.AsyncClient]]:
    """A client of each server."""
    headers = {"Authorization": f"Bearer {key}"}
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                httpx2.AsyncClient(base_url=one.address, headers=headers, trust_env=False, timeout=WAIT_S)
            )
            for one in servers
        ]


async def key_of(store: Store, role: str) -> str:
    return (await store.keys.add(role, ROLES[role])).text


class TestKilled:
    """Workers of both kinds and a listener know both servers, of which one is gone again and again."""

    @staticmethod
    async def follow(clients: Sequence[httpx2.AsyncClient], jobs: Sequence[str]) -> list[int]:
        """The numbers of all events of these jobs until the last is over; lost here, it goes on there."""
        heard: list[int] = []
        left, place = set(jobs), None
        for client in itertools.cycle(clients):
            try:
                async with listening(client, *(f"job:{job}" for job in jobs), last_id=place) as ears:
                    while left and (one := await ears.hear()) is not None:
                        assert one.kind != "reset", one
                        place = one.id or place
                        heard += [one.data["seq"]] if one.data.get("seq") else []
                        left -= {one.data["job"]} if one.data.get("event") == "complete" else set()
            except httpx2.HTTPError:
                await asyncio.sleep(LOOK_S)
            if not left:
                return heard
        raise AssertionError("there are clients")

    async def test_everything_goes_on(self, tmp_path: Path, url: str, store: Store, servers: list[Server]):
        flow, real, _ = load(str(tmp_path / FILE))
        await store.operator.submit([NewJob(flow, {"n": n}) for n in range(JOBS)])
        hired = [await enrol(store, f"w{n}") for n in range(WORKERS + 2)]
        both = ",".join(server.address for server in servers)
        own = ("--pipelines", FILE, "--stages", "real/*", "--slots", 1)
        elsewhere = [
            RemoteWorker(tmp_path, both, key.text, *own, name=f"real-{number}")
            for number, (_, key) in enumerate(hired[WORKERS:])
        ]
        luck = random.Random(3)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(*elsewhere))
            clients = await stack.enter_async_context(asking(servers, await key_of(store, "viewer")))
            fleet = []
            for worker_id, key in hired[:WORKERS]:
                client = Client(both, key.text)
                stack.push_async_callback(client.close)
                fleet.append(Simulated(client, worker_id, tmp_path, random.Random(len(fleet))))
            working = [asyncio.create_task(one.run()) for one in fleet]
            ids = await store.operator.submit([NewJob(real, {"n": n}) for n in range(FILES)])
            following = asyncio.create_task(self.follow(clients, ids))
            for server in itertools.islice(itertools.cycle(servers), KILLS):
                await asyncio.sleep(luck.uniform(0.1, 0.6))
                await server.come_back()
            async with asyncio.timeout(WAIT_S):
                heard = await following
                while await store.orchestrator.live_jobs(limit=1):
                    assert not any(task.done() for task in working), working
                    await asyncio.sleep(LOOK_S)
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
        happened = [e.seq for e in await events_of(store) if e.noun == "job" and e.job_id in ids]
        assert len(heard) == len(set(heard)), "told twice"
        assert set(heard) >= set(happened[FILES:]), (
            "not told"
        )  # the first of each came before anybody listened
        counts = await judge(store, tmp_path, url, fleet, [worker_id for worker_id, _ in hired[WORKERS:]])
        assert (counts["complete"], counts["expire"]) == (JOBS + 2 * FILES, 0)
        await check_used(store, tmp_path / "artifacts", dict(zip(ids, range(FILES), strict=True)))


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_a_lease_outlives_a_server_that_is_frozen(
    tmp_path: Path, url: str, store: Store, servers: list[Server]
):
    """Frozen, it takes calls and never answers: what is renewed in vain here is renewed there in time."""
    slow = load(str(tmp_path / FILE))[2]
    gate = tmp_path / "gate"
    worker_id, key = await enrol(store, "attic")
    both = ",".join(server.address for server in servers)
    own = ("--pipelines", FILE, "--stages", "slow/*", "--slots", 1)
    async with running(RemoteWorker(tmp_path, both, key.text, *own, name="attic")):
        (job_id,) = await store.operator.submit([NewJob(slow, {"gate": str(gate)})])
        async with asyncio.timeout(WAIT_S):
            while (await store.read.tasks(job_id))[0].status != "RUNNING":
                await asyncio.sleep(LOOK_S)
        with servers[0].frozen():
            await asyncio.sleep(1.5 * LEASE_S)
            gate.touch()
            async with asyncio.timeout(LEASE_S):
                while (await store.read.job(job_id)).finished_at is None:
                    await asyncio.sleep(LOOK_S)
    (attempt,) = await store.read.attempts(job_id)
    assert (attempt.owner, attempt.outcome) == (worker_id, "complete")
    await asyncio.to_thread(verify, tmp_path, url)


async def test_keys_files_and_streams_are_those_of_both(
    tmp_path: Path, url: str, store: Store, servers: list[Server]
):
    one = servers[0]
    operator = await key_of(store, "operator")
    _, key = await enrol(store, "attic")
    both = ",".join(server.address for server in servers)
    async with (
        running(RemoteWorker(tmp_path, both, key.text, "--slots", 1, name="attic")),
        asking(servers, await key_of(store, "admin")) as admins,
        asking(servers, operator) as (here, there),
    ):
        data = sound(1.0)
        path = await begin(here, len(data), filename="clip.wav", title="Begun here", slug="begun-here")
        assert (await go_on(here, path, 0, data[:5000])).status_code == 204
        await asyncio.to_thread(one.kill)
        sent = await go_on(there, path, 5000, data[5000:])
        assert sent.status_code == 204, sent.text
        await asyncio.to_thread(one.start)
        video = f"/api/videos/{sent.headers['takeup-video-id']}"
        async with asyncio.timeout(WAIT_S):
            while (await here.get(video)).json()["served_version"] is None:
                await asyncio.sleep(LOOK_S)
        lists = [await client.get("/videos/begun-here/master.m3u8") for client in (here, there)]
        assert [answer.status_code for answer in lists] == [200, 200]
        assert lists[0].content == lists[1].content
        await revoked_here_is_refused_there(admins[0], there, "operator")
    third = Process(tmp_path, "third", "serve", "--port", 0, "--database", url, "--data", tmp_path / "two")
    async with running(third):
        async with asyncio.timeout(WAIT_S):
            while not third.has_ended:
                await asyncio.sleep(LOOK_S)
    assert "is in use by process" in third.said
    for word in ("--data DIR", "storage_url", "media_dir", "operate.md"):
        assert word in third.said, third.said


async def revoked_here_is_refused_there(
    admin: httpx2.AsyncClient, there: httpx2.AsyncClient, name: str
) -> None:
    """Within a second, although the other server has just let it in."""
    (key,) = [key for key in (await admin.get("/api/keys")).json()["items"] if key["name"] == name]
    assert (await there.get("/api/jobs")).status_code == 200
    assert (await admin.delete(f"/api/keys/{key['id']}")).json()["changed"]
    ended_at = time.monotonic()
    while (await there.get("/api/jobs")).status_code == 200:
        assert time.monotonic() - ended_at < REFUSED_S
        await asyncio.sleep(LOOK_S / 5)
    assert (await there.get("/api/jobs")).status_code == 401
