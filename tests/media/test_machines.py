"""A server and two workers on machines of their own, with nothing in common but a network: one stream."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from takeup.core.access import ROLES
from takeup.engine.enrolment import enrol
from takeup.media.tools import Tools
from takeup.store.store import Store
from tests.conftest import GetPostgres
from tests.machines import ADDRESS, Machine, Machines
from tests.media.packages import ffmpeg
from tests.media.test_transcode import contents, takeup
from tests.services import database_from_template
from tests.serving import RemoteWorker, Server, running
from tests.store.scenes import upgrade_schema

SERVER, WORKERS = "server", ("attic", "cellar")
PORT = 8080
HERE = f"http://{ADDRESS}:{PORT}"
SEEN_S, SEEN_S_MAX = 1.0, 5.0
"""Progress is seen so long after it was written down; later only while others take all processors."""
WAIT_S = 240.0
LOOK_S = 0.05


@dataclass(frozen=True)
class Seen:
    """One event of a video, and when it was there."""

    kind: str
    data: dict[str, Any]
    at: datetime


class Visitor:
    """Somebody on the server's machine, with a key and curl."""

    def __init__(self, machine: Machine, key: str) -> None:
        self._curl = [
            *machine.prefix,
            "curl",
            "-sS",
            "--fail-with-body",
            "-H",
            f"Authorization: Bearer {key}",
        ]

    def ask(self, path: str, *options: str) -> Any:
        command = [*self._curl, *options, HERE + path]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return json.loads(ran.stdout)

    @asynccontextmanager
    async def follow(self, video: str) -> AsyncIterator[AsyncIterator[Seen]]:
        channels = [f"channel=transcode_{what}:{video}" for what in ("progress", "complete")]
        command = [*self._curl, "-N", f"{HERE}/api/events?{'&'.join(channels)}"]
        curl = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert curl.stdout is not None
        try:
            yield _events(curl.stdout)
        finally:
            curl.kill()
            await curl.wait()


async def _events(lines: asyncio.StreamReader) -> AsyncIterator[Seen]:
    kind = ""
    async for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        kind = value if name == "event" else kind
        if name == "data":
            yield Seen(kind, json.loads(value), datetime.now(UTC))


@pytest.fixture
def machines(tmp_path: Path, get_postgres: GetPostgres) -> Iterator[Machines]:
    """Of the workers' machines none sees the source, the database or what the server keeps."""
    (tmp_path / "here").mkdir()
    hidden = [tmp_path / "here", get_postgres("postgres15").socket_dir]
    made = Machines(tmp_path, [SERVER, *WORKERS], hidden)
    yield made
    made.close()


@pytest.fixture
async def store(get_postgres: GetPostgres) -> AsyncIterator[tuple[Store, str]]:
    async with database_from_template(get_postgres("postgres15"), upgrade_schema) as url:
        opened = await Store.open(url)
        yield opened, url
        await opened.close()


@pytest.mark.parametrize(
    ("size", "rate", "seconds"),
    [
        ("320x180", 12, 155),
        pytest.param("1280x720", 25, 150, marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
async def test_two_machines_make_what_one_process_makes(
    tmp_path: Path,
    tools: Tools,
    machines: Machines,
    store: tuple[Store, str],
    size: str,
    rate: int,
    seconds: int,
):
    (database, url), (first, *others) = store, machines.all
    source = tmp_path / "here" / "film.mp4"
    picture = f"testsrc2=size={size}:rate={rate}:duration={seconds}"
    sound = f"sine=duration={seconds}"
    ffmpeg(tools, "-f", "lavfi", "-i", picture, "-f", "lavfi", "-i", sound, "-preset", "ultrafast", source)
    key = await database.keys.add("visitor", ROLES["operator"])
    visitor = Visitor(first, key.text)
    server = Server(first.folder, url, "--host", ADDRESS, port=PORT).on(first)
    hired = [await enrol(database, name) for name in WORKERS]
    elsewhere = [
        RemoteWorker(machine.folder, HERE, key.text, "--slots", 1, name=machine.folder.name).on(machine)
        for machine, (_, key) in zip(others, hired, strict=True)
    ]
    async with running(server, *elsewhere):
        await all_work(database, [worker_id for worker_id, _ in hired])
        sent = ["-H", "Content-Type: video/mp4", "--data-binary", f"@{source}"]
        made = await asyncio.to_thread(visitor.ask, "/api/videos?title=film", *sent)
        seen = await asyncio.wait_for(seen_of(visitor, made["id"]), WAIT_S)
    assert seen[-1].data["status"] == "ready", seen[-1]
    encoders = {one.owner for one in await database.read.attempts(made["job_id"]) if one.stage == "encode"}
    assert encoders == {worker_id for worker_id, _ in hired}
    assert all(one.outcome == "complete" for one in await database.read.attempts(made["job_id"]))
    check_progress(seen)
    folder = first.folder / "takeup-data"
    sent_at = (folder / "uploads" / f"{made['id']}.source").stat().st_mtime_ns
    os.utime(source, ns=(sent_at, sent_at))  # a note in the package says which file it was made of
    here = await asyncio.to_thread(takeup, tmp_path / "here", "transcode", source, "-o", "out")
    assert here.returncode == 0, here.stderr
    assert contents(folder / "videos" / made["id"]) == contents(tmp_path / "here" / "out")


async def all_work(database: Store, workers: Sequence[str]) -> None:
    """Each has begun, so that the first that comes does not take everything."""
    async with asyncio.timeout(WAIT_S):
        while any([(await database.read.worker(one)).status != "active" for one in workers]):
            await asyncio.sleep(LOOK_S)


async def seen_of(visitor: Visitor, video: str) -> list[Seen]:
    """All that is told of a video, to its end."""
    seen = []
    async with visitor.follow(video) as events:
        async for one in events:
            seen.append(one)
            if one.kind == "transcode_complete":
                return seen
    raise AssertionError(f"the events ended: {seen}")


def check_progress(seen: list[Seen]) -> None:
    """Of each quality something was told on its way, and nothing late."""
    told = [one for one in seen if one.kind == "transcode_progress" and one.data["status"] == "processing"]
    names = {quality["quality"] for one in told for quality in one.data["qualities"]}
    assert names
    for name in names:
        percents = [q["percent"] for one in told for q in one.data["qualities"] if q["quality"] == name]
        assert any(0 < percent < 100 for percent in percents), (name, percents)
        assert percents == sorted(percents), (name, percents)
    delays = [
        one.at - datetime.fromisoformat(one.data["written_at"]) for one in told if one.data["written_at"]
    ]
    late = sorted(delay.total_seconds() for delay in delays[1:])  # the first says how it stood before
    print(
        f"{len(late)} events, seen after {late[len(late) // 2]:.2f} s in the middle, {late[-1]:.2f} s at most"
    )
    assert late[len(late) * 3 // 4] < SEEN_S, late
    assert late[-1] < SEEN_S_MAX, late
