"""Every call of a worker, late, foreign or repeated: refused, or answered as before, and no row changes."""

import asyncio
import fcntl
import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from takeup.app import App
from takeup.artifacts.layout import LOCK
from takeup.core.ids import Token
from takeup.core.model import Completion, Failure, Lease, WorkerSpec
from tests.api.afar import Afar, Hire, hire, submit
from tests.api.conftest import Client
from tests.api.test_edge import refused
from tests.store.scenes import Dump, dump, tables_of

__all__ = ["hire"]
ARTIFACT = {"name": "a.bin", "sha256": "0" * 64, "size_bytes": 1}
BODY = b"late"


@dataclass(frozen=True)
class Shown:
    """Who shows which token for a task, and which calls are answered as before all the same."""

    what: str
    key: str
    task_id: int
    token: Token
    repeated: frozenset[str] = frozenset()

    @property
    def held(self) -> dict[str, object]:
        return {"task_id": self.task_id, "epoch": self.token.epoch, "nonce": self.token.nonce}

    @property
    def header(self) -> dict[str, str]:
        return {"Takeup-Token": f"{self.token.epoch}.{self.token.nonce}"}

    def address(self, rest: str) -> str:
        return f"/api/worker/tasks/{self.task_id}/{rest}"


Call = Callable[[httpx2.AsyncClient, Shown], Awaitable[httpx2.Response]]


def reporting(call: str, **more: object) -> Call:
    async def report(http: httpx2.AsyncClient, shown: Shown) -> httpx2.Response:
        body = {"request_id": secrets.token_hex(8), "reports": [{**shown.held, **more}]}
        return await http.post(f"/api/worker/{call}", json=body)

    return report


def fetching(rest: str) -> Call:
    async def fetch(http: httpx2.AsyncClient, shown: Shown) -> httpx2.Response:
        return await http.get(shown.address(rest), headers=shown.header)

    return fetch


def sending(method: str, rest: str) -> Call:
    async def send(http: httpx2.AsyncClient, shown: Shown) -> httpx2.Response:
        about = {"Upload-Length": str(len(BODY)), "Upload-Sha256": hashlib.sha256(BODY).hexdigest()}
        headers = {**shown.header, **about}
        return await http.request(method, shown.address(rest), content=BODY, headers=headers)

    return send


async def ask_inputs(http: httpx2.AsyncClient, shown: Shown) -> httpx2.Response:
    return await http.post("/api/worker/inputs", json={**shown.held, "needs": "only"})


CALLS: dict[str, Call] = {
    "progress": reporting("progress", percent=50.0, note="late"),
    "renew": reporting("progress"),
    "complete": reporting("complete", result={"late": True}),
    "complete with files": reporting("complete", result={}, artifacts=[ARTIFACT]),
    "fail": reporting("fail", error="late"),
    "fail for good": reporting("fail", error="late", retryable=False),
    "release": reporting("release"),
    "inputs": ask_inputs,
    "input": fetching("inputs/flow.v1/job/g1/only.v1/whole/a.bin"),
    "file of the spec": fetching("files/n"),
    "outputs": fetching("outputs"),
    "output": sending("PUT", "outputs/a.bin"),
    "archive": sending("POST", "outputs.tar.gz"),
}


async def shown_in_vain(app: App, hire: Hire) -> list[Shown]:
    """Every way in which a token may not hold its task."""
    await submit(app, 8)
    first, second = await hire("first"), await hire("second")
    (stale,) = await first.claim()
    (failing,) = await first.claim()
    await first.source.register(WorkerSpec(first.id, "first", "remote", 4, process="another"))
    await app.store.recovery.expire()
    taken = await second.claim(limit=2)
    assert {lease.task_id for lease in taken} == {stale.task_id, failing.task_id}
    mine, other, cancelled, finished = await first.claim(limit=4)
    await app.store.operator.cancel([cancelled.job_id])
    await first.source.complete(first.id, [Completion(finished.held, {})])
    (failed,) = await second.claim()
    await second.source.fail(second.id, [Failure(failed.held, "broken", retryable=False)])
    epoch, nonce = mine.token
    done = frozenset({"complete", "complete with files"})
    fails = frozenset({"fail", "fail for good", "release"})  # one hand-over too many is a failure as well
    return [
        Shown("an epoch that is over", first.key, stale.task_id, stale.token),
        Shown("an epoch that is to come", first.key, mine.task_id, Token(epoch + 1, nonce)),
        Shown("another nonce", first.key, mine.task_id, Token(epoch, secrets.token_hex(16))),
        Shown("another worker's token", second.key, mine.task_id, mine.token),
        Shown("another task's token", first.key, mine.task_id, other.token),
        Shown("a cancelled task", first.key, cancelled.task_id, cancelled.token),
        Shown("a finished task", first.key, finished.task_id, finished.token, done),
        Shown("a finished task of another", second.key, finished.task_id, finished.token),
        Shown("a failed task", second.key, failed.task_id, failed.token, fails),
        Shown("no task", first.key, 10**9, mine.token),
    ]


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


class Ledger:
    """All rows of all tables, and all files, before and after."""

    def __init__(self, url: str, storage: Path) -> None:
        self._url, self._storage = url, storage
        self._tables: list[str] = []

    async def read(self) -> tuple[Dump, dict[str, bytes]]:
        self._tables = self._tables or await tables_of(self._url)
        return await dump(self._url, self._tables), files_below(self._storage)


@pytest.fixture
def ledger(url: str, app: App) -> Ledger:
    return Ledger(url, app.settings.storage)


async def test_what_holds_nothing_changes_nothing(app: App, hire: Hire, client: Client, ledger: Ledger):
    shown = await shown_in_vain(app, hire)
    clients = {key: client(key) for key in {one.key for one in shown}}
    for http in clients.values():  # that a key is in use is noted, once a minute
        assert (await http.post("/api/worker/heartbeat", json={})).status_code == 200
    before = await ledger.read()
    wrong: list[object] = []
    for one in shown:
        for name, call in CALLS.items():
            answer = await call(clients[one.key], one)
            expected = 200 if name in one.repeated else 409
            told = answer.json()
            is_told = name in one.repeated or told.get("code") == "lease_lost"
            if answer.status_code != expected or not is_told or await ledger.read() != before:
                wrong.append((one.what, name, answer.status_code, told))
        held = await clients[one.key].post("/api/worker/glance", json={"held": [one.held]})
        if (held.status_code, held.json()["held"]) != (200, []):
            wrong.append((one.what, "glance", held.json()))
        assert await ledger.read() == before, (one.what, "glance")
    assert wrong == []
    cancelled = next(one for one in shown if one.what == "a cancelled task")
    told = (await CALLS["renew"](clients[cancelled.key], cancelled)).json()
    assert [answer["order"] for answer in told["answers"]] == ["cancel"]
    (rows, files), _ = (
        await ledger.read(),
        await clients[cancelled.key].post("/api/worker/heartbeat", json={}),
    )
    (now, files_now) = await ledger.read()
    assert {table for table in rows if rows[table] != now[table]} == {"workers"}, (
        "that it lives is noted there"
    )
    assert files_now == files


async def test_a_call_that_is_repeated_is_done_once(app: App, hire: Hire, client: Client, ledger: Ledger):
    await submit(app, 4)
    afar = await hire("a")
    http = client(afar.key)
    asked = {"request_id": "once", "secret": secrets.token_hex(16), "limit": 4}
    first = await http.post("/api/worker/claim", json=asked)
    leases = first.json()["leases"]
    assert len(leases) == 4
    before = await ledger.read()
    assert (await http.post("/api/worker/claim", json=asked)).json() == first.json()
    assert await ledger.read() == before
    held = {name: leases[3][name] for name in ("task_id", "epoch", "nonce")}
    body = {"request_id": "told once", "reports": [{**held, "percent": 40.0, "note": "on its way"}]}
    for _ in range(2):  # it extends the lease each time, which is what it is for
        assert (await http.post("/api/worker/progress", json=body)).status_code == 200
    task = await app.store.read.task(leases[3]["task_id"])
    assert (task.progress_percent, task.progress_note, task.attempt) == (40, "on its way", 1)
    before = await ledger.read()
    bodies = {
        "complete": {"result": {"made": 1}},
        "fail": {"error": "it broke"},
        "release": {},
    }
    for (call, more), lease in zip(bodies.items(), leases, strict=False):
        held = {name: lease[name] for name in ("task_id", "epoch", "nonce")}
        body = {"request_id": f"{call} once", "reports": [{**held, **more}]}
        done = await http.post(f"/api/worker/{call}", json=body)
        after = await ledger.read()
        assert (done.status_code, after != before) == (200, True), call
        again = await http.post(f"/api/worker/{call}", json=body)
        assert (again.status_code, await ledger.read()) == (200, after), call
        for one, other in zip(done.json()["answers"], again.json()["answers"], strict=True):
            assert {**one, "reason": None} == {**other, "reason": None}, call
        before = after


class TestHeads:
    """Who sends a file with a token that holds nothing hears so before he sends the file."""

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        """What the tokens are worth was tried on every database above."""
        return f"sqlite:///{tmp_path}/takeup.db"

    @pytest.mark.parametrize("start", ["PUT {0}/outputs/a.bin", "POST {0}/outputs.tar.gz"])
    async def test_s17_s69_refused_before_the_body_is_read(
        self, app: App, hire: Hire, address: str, start: str
    ):
        await submit(app)
        afar = await hire("a")
        (lease,) = await afar.claim()
        await afar.source.release(afar.id, [lease.held])
        (now,) = await afar.claim()
        assert now.task_id == lease.task_id
        assert now.token.epoch > lease.token.epoch
        for expects in (True, False):
            told = await self.head(address, afar.key, start, lease, expects=expects)
            assert told.startswith(b"HTTP/1.1 409 "), told
        told = await self.head(address, afar.key, start, now, expects=True)
        assert told.startswith(b"HTTP/1.1 100 "), told

    @staticmethod
    async def head(address: str, key: str, start: str, lease: Lease, *, expects: bool) -> bytes:
        """The first line of what is answered to the head alone."""
        host, port = address.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        epoch, nonce = lease.token
        lines = [
            start.format(f"/api/worker/tasks/{lease.task_id}") + " HTTP/1.1",
            f"Host: {host}",
            f"Authorization: Bearer {key}",
            f"Takeup-Token: {epoch}.{nonce}",
            "Upload-Length: 100000000",
            f"Upload-Sha256: {'0' * 64}",
            "Content-Length: 100000000",
            *(["Expect: 100-continue"] if expects else []),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        try:
            async with asyncio.timeout(5):
                return await reader.readline()
        finally:
            writer.close()


@dataclass(frozen=True)
class Whole:
    """A task whose one output was sent, and the call that completes it."""

    lease: Lease
    data: bytes
    place: str
    headers: dict[str, str]
    body: dict[str, object]

    @classmethod
    async def sent(cls, afar: Afar, http: httpx2.AsyncClient) -> "Whole":
        (lease,) = await afar.claim()
        data, (epoch, nonce) = secrets.token_bytes(2_000_000), lease.token
        headers = {"Takeup-Token": f"{epoch}.{nonce}", "Upload-Length": str(len(data))}
        place = f"/api/worker/tasks/{lease.task_id}/outputs"
        assert (await http.put(f"{place}/a.bin", content=data, headers=headers)).status_code == 200
        file = {"name": "a.bin", "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
        report = {"task_id": lease.task_id, "epoch": epoch, "nonce": nonce, "artifacts": [file]}
        return cls(lease, data, place, headers, {"request_id": "c", "reports": [report]})


async def test_what_is_sealed_stays_as_it_is(app: App, hire: Hire, client: Client):
    """The same file, sent again by a network while its task is being completed, does not touch it."""
    (job_id,) = await submit(app)
    afar = await hire("a")
    http = client(afar.key)
    made = await Whole.sent(afar, http)
    gate = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield made.data[:1000]
        await gate.wait()
        yield made.data[1000:]

    again = asyncio.create_task(http.put(f"{made.place}/a.bin", content=slowly(), headers=made.headers))
    async with asyncio.timeout(10):
        while (await http.get(made.place, headers=made.headers)).json()["files"]["a.bin"] == len(made.data):
            await asyncio.sleep(0.01)
    completing = asyncio.create_task(http.post("/api/worker/complete", json=made.body))
    done, _ = await asyncio.wait((completing,), timeout=0.3)
    assert not done, "it waits for what is being written"
    gate.set()
    assert (await again).status_code == 200
    assert (await completing).status_code == 200
    (artifact,) = await app.store.read.artifacts(job_id)
    assert (app.settings.storage / artifact.key).read_bytes() == made.data


async def test_what_another_server_still_writes_is_not_sealed(app: App, hire: Hire, client: Client):
    (job_id,) = await submit(app)
    afar = await hire("a")
    http = client(afar.key)
    made = await Whole.sent(afar, http)
    (lock,) = (app.settings.storage / ".staging").rglob(LOCK)
    with lock.open() as held:  # as the other one has it that has not heard yet that the sender is gone
        fcntl.flock(held, fcntl.LOCK_SH)
        refused(await http.post("/api/worker/complete", json=made.body), 409, "conflict")
    assert (await http.post("/api/worker/complete", json=made.body)).status_code == 200
    assert len(await app.store.read.artifacts(job_id)) == 1
