"""Sparse copies of a worker elsewhere: only what is asked for comes, once, from one version of the file."""

import asyncio
import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from takeup import Pipeline
from takeup.app import App
from takeup.core.errors import FileChanged
from takeup.core.model import Lease
from takeup.core.plan import NewJob
from takeup.core.remote import PART_BYTES_MAX, digest_of
from takeup.core.spans import Span
from takeup.engine.carrier import Opened
from takeup.engine.clock import boot_clock
from takeup.engine.holding import Holding
from takeup.engine.remote.client import Client
from takeup.engine.remote.patience import Patience
from takeup.engine.remote.sparse import BegunAnew, Place, SparseCopies
from takeup.testing.proxy import Chances, FaultProxy
from tests.api.afar import Afar, Hire, hire
from tests.api.conftest import served
from tests.api.test_edge import refused

__all__ = ["hire"]

BLOCK = 4096
SIZE = 1_000_000

films = Pipeline("films", files=("source",))


@films.stage()
def only(ctx):
    return {}


class Counting(Client):
    """A client that notes which bytes it was sent, and may be sent damaged ones."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, key)
        self.parts: list[tuple[int, int]] = []
        self.damaged = 0
        self.gate = asyncio.Event()
        """What is sent from the middle of a file waits for this."""
        self.gate.set()

    @contextlib.asynccontextmanager
    async def get(
        self, path: str, headers: Mapping[str, str]
    ) -> AsyncIterator[tuple[Mapping[str, str], int, AsyncIterator[bytes]]]:
        async with super().get(path, headers) as (told, status, blocks):
            yield told, status, self._noted(told, blocks)

    async def _noted(self, told: Mapping[str, str], blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        start, _, end = told["content-range"].removeprefix("bytes ").partition("/")[0].partition("-")
        self.parts.append((int(start), int(end) + 1))
        if int(start):
            await self.gate.wait()
        async for block in blocks:
            if self.damaged:
                self.damaged -= 1
                yield bytes([block[0] ^ 1]) + block[1:]
            else:
                yield block


@pytest.fixture
async def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/takeup.db"


@pytest.fixture
async def address(app: App) -> AsyncIterator[str]:
    async with served(app, films) as found:
        yield found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "film.mp4"
    file.write_bytes(secrets.token_bytes(SIZE))
    return file


@pytest.fixture
async def afar(app: App, hire: Hire, source: Path) -> Afar:
    ids = await app.submit([NewJob(films, {"source": str(source)})])
    await app.store.orchestrator.advance(ids)
    return await hire("a")


def held(lease: Lease) -> Holding:
    return Holding(lease, 0, asked_at=boot_clock(), started_at=boot_clock())


def place_of(lease: Lease, folder: Path) -> Place:
    return Place(
        f"/api/worker/tasks/{lease.task_id}/files/source", folder / "film.mp4", folder / "s" / "f.mp4"
    )


def copies_of(client: Client, block_bytes: int = BLOCK) -> SparseCopies:
    return SparseCopies(client, Patience(boot_clock), block_bytes)


async def test_parts_come_with_their_hash_and_of_one_version_only(afar: Afar, client, source: Path):
    (lease,) = await afar.claim()
    http: httpx2.AsyncClient = client(afar.key)
    token = {"Takeup-Token": f"{lease.token.epoch}.{lease.token.nonce}"}
    wanted = {**token, "Want-Content-Digest": "sha-256=1", "Range": "bytes=1000-4999"}
    path = f"/api/worker/tasks/{lease.task_id}/files/source"
    part = await http.get(path, headers=wanted)
    assert (part.status_code, part.content) == (206, source.read_bytes()[1000:5000])
    assert part.headers["content-digest"] == digest_of(part.content)
    assert part.headers["content-range"] == f"bytes 1000-4999/{SIZE}"
    again = {**wanted, "If-Match": part.headers["etag"]}
    assert (await http.get(path, headers=again)).content == part.content
    refused(await http.get(path, headers={**again, "Range": f"bytes={SIZE}-{SIZE + 5}"}), 416, "bad_range")
    end = await http.get(path, headers={**again, "Range": f"bytes={SIZE - 7}-{SIZE + 5}"})
    assert end.content == source.read_bytes()[-7:]
    source.write_bytes(secrets.token_bytes(2 * PART_BYTES_MAX))
    refused(await http.get(path, headers=again), 412, "file_changed")
    large = await http.get(path, headers={**wanted, "Range": "bytes=0-999999999"})
    assert len(large.content) == PART_BYTES_MAX
    plain = await http.get(path, headers={**token, "Range": "bytes=1-2"})
    assert (plain.status_code, "content-digest" in plain.headers) == (206, False)


@dataclass
class Begun:
    """A copy of which the first block is here."""

    holding: Holding
    client: Counting
    copies: SparseCopies
    place: Place
    opened: Opened

    async def fetch(self, start: int, end: int, copies: SparseCopies | None = None) -> list[Span]:
        """By these copies, or those that began it."""
        by = copies or self.copies
        return await by.fetch(self.holding, self.place, copy_id=self.opened.id, span=(start, end))

    async def open(self, copies: SparseCopies | None = None) -> Opened:
        found = await (copies or self.copies).open(self.holding, self.place)
        assert found
        return found

    def held(self, start: int, end: int) -> bytes:
        return self.place.sparse.read_bytes()[start:end]


@pytest.fixture
async def begun(afar: Afar, address: str, tmp_path: Path) -> AsyncIterator[Begun]:
    (lease,) = await afar.claim()
    client = Counting(address, afar.key)
    copies, place = copies_of(client), place_of(lease, tmp_path / "w")
    opened = await copies.open(held(lease), place)
    assert opened
    yield Begun(held(lease), client, copies, place, opened)
    await client.close()


@pytest.mark.parametrize("wants", [{}, {"Want-Content-Digest": "sha-256=1"}])
@pytest.mark.parametrize("part", ["bytes=0-9", "bytes=5-", "bytes=-5", f"bytes=0-{10**19}", ""])
async def test_if_match_counts_however_a_part_is_asked_for(
    afar: Afar, client, source: Path, part: str, wants: Mapping[str, str]
):
    (lease,) = await afar.claim()
    token = {"Takeup-Token": f"{lease.token.epoch}.{lease.token.nonce}"}
    asked = {**token, **wants} | ({"Range": part} if part else {})
    http: httpx2.AsyncClient = client(afar.key)
    path = f"/api/worker/tasks/{lease.task_id}/files/source"
    found = await http.get(path, headers=asked)
    tag = found.headers["etag"]
    for matching in (tag, "*", f'"x", {tag}', f'"a,b" ,{tag}'):
        again = await http.get(path, headers={**asked, "If-Match": matching})
        assert (again.status_code, again.content) == (found.status_code, found.content)
    for other in ('"x"', f"W/{tag}", tag.strip('"'), f'"x{tag[1:]}', ""):
        refused(await http.get(path, headers={**asked, "If-Match": other}), 412, "file_changed")


async def test_many_at_once_fetch_each_byte_once(begun: Begun, source: Path):
    place, parts = begun.place, begun.client.parts
    assert (begun.opened.size, begun.opened.changed_ns) == (SIZE, source.stat().st_mtime_ns)
    luck = random.Random(3)
    asked = [
        (start, start + luck.randint(1, 60_000)) for start in (luck.randrange(400_000) for _ in range(30))
    ]

    async def ask(span: Span) -> None:
        found = await begun.fetch(*span)
        assert any(start <= span[0] and span[1] <= end for start, end in found)

    await asyncio.gather(*map(ask, asked))
    data, copy = source.read_bytes(), place.sparse.read_bytes()
    assert len(copy) == SIZE
    assert all(copy[start:end] == data[start:end] for start, end in asked)
    bytes_sent = [byte for start, end in parts for byte in range(start, end)]
    assert len(bytes_sent) == len(set(bytes_sent)), "no byte came twice"
    assert len(bytes_sent) < SIZE / 2
    assert place.sparse.stat().st_blocks * 512 < SIZE * 0.6
    assert not place.whole.exists()
    await begun.copies.complete(begun.holding, place, is_hashed=False)
    assert place.whole.read_bytes() == data
    assert place.whole.stat().st_mtime_ns == source.stat().st_mtime_ns
    assert sum(end - start for start, end in parts) == SIZE


async def test_a_process_begun_again_knows_what_is_there(begun: Begun, source: Path):
    await begun.fetch(100_000, 300_000)
    record = begun.place.sparse.with_name(f".{begun.place.sparse.name}.held")
    record.write_bytes(record.read_bytes() + b"400000 50000")  # the power went while this was written
    begun.client.parts.clear()
    again = copies_of(begun.client)
    assert await begun.open(again) == begun.opened
    assert await begun.fetch(100_000, 300_000, again)
    assert begun.client.parts == []
    await begun.fetch(400_000, 500_000, again)
    assert await begun.fetch(400_000, 500_000, copies_of(begun.client))
    assert len(begun.client.parts) == 1
    assert begun.held(400_000, 500_000) == source.read_bytes()[400_000:500_000]
    record.write_bytes(b"nonsense\n")
    assert await begun.open(copies_of(begun.client)) != begun.opened, "what nobody can read counts as nothing"


async def test_a_source_that_changed_in_between_is_refused(begun: Begun, source: Path):
    source.write_bytes(secrets.token_bytes(SIZE))
    with pytest.raises(FileChanged):
        await begun.fetch(500_000, 600_000)
    with pytest.raises(BegunAnew):
        await begun.fetch(500_000, 600_000)
    anew = await begun.open()
    assert anew.changed_ns == source.stat().st_mtime_ns != begun.opened.changed_ns


async def test_what_comes_late_for_a_copy_that_was_removed_meets_no_other(begun: Begun, source: Path):
    begun.client.gate.clear()
    late = asyncio.create_task(begun.fetch(500_000, 600_000))
    while len(begun.client.parts) < 2:
        await asyncio.sleep(0.01)
    begun.place.sparse.unlink()
    source.write_bytes(secrets.token_bytes(SIZE))
    anew = await begun.open()
    assert anew.id != begun.opened.id
    begun.client.gate.set()
    with pytest.raises(BegunAnew):
        await late
    begun.opened = anew
    await begun.fetch(500_000, 600_000)
    assert begun.held(500_000, 600_000) == source.read_bytes()[500_000:600_000]


async def test_damage_on_the_way_is_noticed_and_fetched_again(begun: Begun, source: Path):
    begun.client.damaged = 2
    await begun.fetch(500_000, 600_000)
    assert begun.client.damaged == 0
    assert begun.held(500_000, 600_000) == source.read_bytes()[500_000:600_000]


async def test_over_a_bad_line_all_that_is_held_is_right(
    afar: Afar, address: str, source: Path, tmp_path: Path
):
    (lease,) = await afar.claim()
    host, port = address.removeprefix("http://").split(":")
    line = FaultProxy(host, int(port), Chances(cut=0.3, lose_answer=0.3), 5)
    client = Client(await line.start(), afar.key)
    copies, place = copies_of(client), place_of(lease, tmp_path / "w")
    opened = await copies.open(held(lease), place)
    assert opened
    asked = [(start, start + 30_000) for start in range(0, SIZE, 100_000)]
    await asyncio.gather(*(copies.fetch(held(lease), place, copy_id=opened.id, span=span) for span in asked))
    assert line.counts["cut"] + line.counts["lose_answer"] > 1
    data, copy = source.read_bytes(), place.sparse.read_bytes()
    assert all(copy[start:end] == data[start:end] for start, end in asked)
    await client.close()
    await line.close()


async def test_a_small_file_is_fetched_whole(afar: Afar, tmp_path: Path):
    (lease,) = await afar.claim()
    assert await copies_of(afar.client, SIZE // 4).open(held(lease), place_of(lease, tmp_path)) is None


KILLED = """
import asyncio, sys
from pathlib import Path
from takeup.core.ids import Token
from takeup.core.points import arm
from takeup.testing import crash
from tests.api import test_sparse as t
from types import SimpleNamespace

async def main(url, key, task_id, epoch, nonce, folder):
    lease = SimpleNamespace(task_id=int(task_id), token=Token(int(epoch), nonce), lease_s=60.0)
    copies, place = t.copies_of(t.Client(url, key)), t.place_of(lease, Path(folder))
    opened = await copies.open(t.held(lease), place)
    for start in range(100_000, 900_000, 100_000):
        await copies.fetch(t.held(lease), place, copy_id=opened.id, span=(start, start + 50_000))

crash.arm_from_environment({crash.VARIABLE: "sparse.after write#5"})
asyncio.run(main(*sys.argv[1:]))
"""


async def test_killed_while_it_fetches_it_goes_on_and_trusts_no_byte_that_is_not_there(
    afar: Afar, address: str, source: Path, tmp_path: Path
):
    (lease,) = await afar.claim()
    folder = tmp_path / "w"
    token = (str(lease.task_id), str(lease.token.epoch), lease.token.nonce)
    command = [sys.executable, "-c", KILLED, address, afar.key, *token, str(folder)]
    root = Path(__file__).parents[2]
    ran = await asyncio.to_thread(
        subprocess.run,
        command,
        env={**os.environ, "PYTHONPATH": str(root)},
        cwd=root,
        timeout=60,
        check=False,
    )
    assert ran.returncode == -signal.SIGKILL
    client = Counting(address, afar.key)
    copies, place = copies_of(client), place_of(lease, folder)
    opened = await copies.open(held(lease), place)
    assert opened
    assert client.parts == [], "the copy goes on"
    for start in range(100_000, 900_000, 100_000):
        await copies.fetch(held(lease), place, copy_id=opened.id, span=(start, start + 50_000))
        assert (
            place.sparse.read_bytes()[start : start + 50_000] == source.read_bytes()[start : start + 50_000]
        )
    fetched = [round(start / 100_000) for start, _ in client.parts]
    assert fetched == [4, 5, 6, 7, 8], "three were recorded; the one that was being written comes again"
    await client.close()
