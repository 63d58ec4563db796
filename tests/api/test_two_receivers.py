"""Two servers on one storage take the files of one worker: what one sealed the other does not touch."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import httpx2
import pytest

from takeup.app import App
from takeup.artifacts.local import LocalArtifacts
from takeup.core.errors import Conflict, LeaseLost
from takeup.core.model import Artifact, Completion, Lease
from takeup.core.plan import NewJob
from takeup.engine import receiving
from takeup.engine.receiving import Receiving
from takeup.testing import crash
from tests.api.afar import Afar, Hire, hire
from tests.api.conftest import flow, pair
from tests.api.test_edge import refused
from tests.api.test_worker_files import STREAM
from tests.artifacts.tars import member, packed

__all__ = ["hire"]

DATA = b"x" * 1000
NAME = "low/x.ts"
Work = Callable[[], Awaitable[None]]


class Meanwhile:
    """The store of one server, with what others do at a moment in between."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.before_complete: Work | None = None
        self.after_held: Work | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def complete(self, *arguments: Any, **options: Any) -> Any:
        await self._do("before_complete")
        return await self._store.complete(*arguments, **options)

    async def held_task(self, *arguments: Any) -> Any:
        found = await self._store.held_task(*arguments)
        await self._do("after_held")
        return found

    async def _do(self, moment: str) -> None:
        work = getattr(self, moment)
        setattr(self, moment, None)
        if work is not None:
            await work()


class Site(NamedTuple):
    """A server: what it takes files with, and its store."""

    receiving: Receiving
    store: Meanwhile


def site(app: App) -> Site:
    store: Any = Meanwhile(app.store.worker)
    artifacts = LocalArtifacts(app.settings.storage.resolve())
    return Site(Receiving(store, artifacts, {"flow": flow, "pair": pair}, reserve_bytes=0), store)


async def of(data: bytes) -> AsyncIterator[bytes]:
    yield data


class Scene:
    """A task that one worker holds, and two servers that it may talk to."""

    def __init__(self, app: App, afar: Afar, lease: Lease) -> None:
        self.app, self.worker_id, self.lease = app, afar.id, lease
        self.one, self.other = site(app), site(app)

    async def send(self, to: Site, data: bytes = DATA, length: int = len(DATA)) -> None:
        await to.receiving.receive(self.worker_id, self.lease.held, NAME, of(data), offset=0, length=length)

    async def send_packed(self, to: Site) -> None:
        data = packed(*(member(name.encode(), content) for name, content in STREAM.items()))
        sha256 = hashlib.sha256(data).hexdigest()
        await to.receiving.unpack(
            self.worker_id, self.lease.held, of(data), sha256=sha256, size_bytes=len(data)
        )

    async def complete(self, by: Site) -> None:
        told = Artifact(NAME, "", hashlib.sha256(DATA).hexdigest(), len(DATA))
        report = Completion(self.lease.held, {}, (told,))
        (answer,) = await by.receiving.complete(self.worker_id, [report], request_id=None)
        assert answer.accepted

    async def die_between(self, by: Site) -> None:
        """The server is gone between what the database says and what the storage shows."""
        dying = crash.armed(crash.Armed({"receiving.before publish": 1}, crash.collapse))
        with dying, pytest.raises(crash.Crashed):
            await self.complete(by)

    async def published(self) -> dict[str, bytes]:
        (made,) = await self.app.store.read.artifacts(self.lease.job_id)
        folder = (self.app.settings.storage / made.key).parent.parent
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and path.name != "manifest.json"
        }


@pytest.fixture
async def scene(app: App, hire: Hire) -> Scene:
    (job_id,) = await app.submit([NewJob(pair)])
    await app.store.orchestrator.advance([job_id])
    afar = await hire("a")
    return Scene(app, afar, await afar.one())


@pytest.fixture(params=["file", "archive"])
def intrude(request: pytest.FixtureRequest, scene: Scene) -> Callable[[Site], Awaitable[None]]:
    """Write to the attempt's files: a shorter file of the same name, or an archive in place of all."""
    if request.param == "archive":
        return scene.send_packed
    return lambda to: scene.send(to, DATA[:10])


async def test_what_is_sealed_stays_until_it_is_committed(scene: Scene, intrude):
    await scene.send(scene.one)
    answers = []

    async def meanwhile() -> None:
        with pytest.raises(Conflict) as error:
            await intrude(scene.other)
        answers.append(type(error.value))

    scene.one.store.before_complete = meanwhile
    await scene.complete(scene.one)
    assert answers == [Conflict]
    assert await scene.published() == {NAME: DATA}


@pytest.mark.parametrize("end", [Scene.complete, Scene.die_between])
async def test_who_was_let_in_before_the_end_changes_nothing_after_it(scene: Scene, intrude, end):
    """Though the winner may have died before its outputs were visible."""
    await scene.send(scene.one)
    scene.other.store.after_held = lambda: end(scene, scene.one)
    with pytest.raises(LeaseLost):
        await intrude(scene.other)
    await scene.app.sweeper().run_once()
    assert await scene.published() == {NAME: DATA}


async def test_nothing_is_sealed_that_another_server_is_writing(
    scene: Scene, intrude, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(receiving, "LOOKS_MAX", 2)
    await scene.send(scene.one)
    answers = []

    async def slowly() -> AsyncIterator[bytes]:
        yield DATA[:10]
        with pytest.raises(Conflict, match="being sent"):
            await scene.complete(scene.one)
        answers.append(True)
        yield DATA[10:]

    await scene.other.receiving.receive(
        scene.worker_id, scene.lease.held, NAME, slowly(), offset=0, length=len(DATA)
    )
    assert answers
    await scene.complete(scene.one)
    assert await scene.published() == {NAME: DATA}


Ask = Callable[[], Awaitable[httpx2.Response]]


@pytest.fixture
async def ask(scene: Scene, app: App, hire: Hire, client: Callable[..., httpx2.AsyncClient]) -> Ask:
    """A server died before it published; the next task asks another one for the file."""
    await scene.send(scene.one)
    await scene.die_between(scene.one)
    await app.store.orchestrator.advance([scene.lease.job_id])
    afar = await hire("b")
    lease = await afar.one()
    (made,) = await app.store.read.artifacts(lease.job_id)
    http, place = client(afar.key), f"/api/worker/tasks/{lease.task_id}/inputs/{made.key}"
    token = {"Takeup-Token": f"{lease.token.epoch}.{lease.token.nonce}"}
    return lambda: http.get(place, headers=token)


async def test_what_one_server_left_unpublished_the_other_sends(ask: Ask):
    answer = await ask()
    assert (answer.status_code, answer.content) == (200, DATA), answer.text


async def test_what_cannot_be_published_now_is_asked_for_again(
    ask: Ask, app: App, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(receiving, "LOOKS_MAX", 2)
    (manifest,) = app.settings.storage.glob(".staging/*/manifest.json")
    away = manifest.rename(app.settings.storage / "away")
    refused(await ask(), 503, "unpublished")
    away.rename(manifest)
    assert (await ask()).content == DATA
