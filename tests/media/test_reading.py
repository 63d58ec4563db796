"""A child that reads a sparse copy sees the file: every way to read waits for the bytes."""

import asyncio
import errno
import platform
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from takeup.child import bubblewrap, calls, trial
from takeup.child.guard import BEST_EFFORT, Guard
from takeup.child.run import Watch, run_child
from takeup.child.sparse import SparseCopy, Unfetched
from takeup.child.trial import can_wait
from takeup.core.spans import Span
from tests.media.holed import Holed

SIZE = 3_000_000
PLACE, COUNT = 2_000_000, 30_000
WAYS = {
    "read": "f.seek({0}); got = f.read({1})",
    "pread": "got = os.pread(f.fileno(), {1}, {0})",
    "readv": "f.seek({0}); b = bytearray({1}); os.readv(f.fileno(), [b]); got = bytes(b)",
    "preadv": "b = bytearray({1}); os.preadv(f.fileno(), [b], {0}); got = bytes(b)",
    "mmap": "got = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[{0}:{0} + {1}]",
    "sendfile": "o = open('out', 'w+b'); os.sendfile(o.fileno(), f.fileno(), {0}, {1}); "
    "o.seek(0); got = o.read()",
    "copy_file_range": "o = open('out', 'w+b'); os.copy_file_range(f.fileno(), o.fileno(), {1}, {0}); "
    "o.seek(0); got = o.read()",
    "splice": "r, w = os.pipe(); n = os.splice(f.fileno(), w, {1}, {0}); got = os.read(r, n)",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(secrets.token_bytes(SIZE))
    return made


async def python(
    code: str, copy: SparseCopy, folder: Path, watch: Watch | None = None, sandbox: str = BEST_EFFORT
):
    reads = (copy.path, Path(sys.base_prefix), Path(sys.prefix))
    guard = Guard(reads=reads, writes=(folder,), sandbox=sandbox, sparse=copy)
    start = f"import mmap, os, sys; f = open({str(copy.path)!r}, 'rb', buffering=0)\n"
    return await run_child([sys.executable, "-I", "-c", start + code], guard=guard, cwd=folder, watch=watch)


def told(size: int, error: BaseException | None = None) -> Callable[[int, int], list[Span]]:
    def fetch(start: int, end: int) -> list[Span]:
        if error:
            raise error
        return [(0, size)]

    return fetch


@pytest.mark.parametrize("sandbox", ["best-effort", "off", "bubblewrap"])
async def test_this_machine_can(sandbox: str):
    assert await can_wait(sandbox) == (sandbox != "bubblewrap" or bubblewrap.works())


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_to_read_waits_for_the_bytes(file: Path, tmp_path: Path, way: str):
    holed = Holed(file, tmp_path / "copy" / "file")
    ended = await python(f"{WAYS[way].format(PLACE, COUNT)}\nprint(got.hex())", holed.copy, tmp_path)
    assert ended.exit_code == 0, ended.stderr
    assert bytes.fromhex(ended.stdout) == file.read_bytes()[PLACE : PLACE + COUNT]
    if way in ("read", "pread"):
        assert holed.held.total < SIZE // 10, "no more than was read, and a little ahead"


@pytest.mark.parametrize("name", ["io_submit", "io_uring_setup"])
async def test_who_waits_cannot_read_in_ways_that_nobody_sees(file: Path, tmp_path: Path, name: str):
    holed = Holed(file, tmp_path / "copy" / "file")
    number = calls.UNSEEN[platform.machine()][name]
    code = f"import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nc.syscall({number}, 0, 0, 0)"
    ended = await python(f"{code}\nprint(ctypes.get_errno())", holed.copy, tmp_path, sandbox="off")
    assert ended.stdout == f"{errno.EPERM}\n"


async def test_what_lies_between_is_left_out_and_little_is_fetched_ahead(file: Path, tmp_path: Path):
    holed = Holed(file, tmp_path / "copy" / "file")
    code = (
        "f.read(1000); f.seek(-1000, 2); f.read(5000)\nf.seek(1_000_000)\nfor _ in range(20): f.read(32768)"
    )
    ended = await python(code, holed.copy, tmp_path)
    assert ended.exit_code == 0, ended.stderr
    read_bytes = 2000 + 20 * 32768
    assert read_bytes <= holed.held.total <= read_bytes * 1.2
    assert holed.held.missing(SIZE - 1000, SIZE) == []
    assert holed.path.stat().st_blocks * 512 < SIZE // 2


async def test_bytes_that_cannot_be_fetched_end_it_whatever_the_child_makes_of_it(file: Path, tmp_path: Path):
    holed = Holed(file, tmp_path / "copy" / "file")
    facts = file.stat()
    copy = SparseCopy(
        holed.path, facts.st_size, 0, holed.path.stat().st_ino, told(0, ConnectionError("gone"))
    )
    with pytest.raises(Unfetched, match="gone"):
        await python("try: f.read(10)\nexcept OSError: print('never mind')", copy, tmp_path)


async def test_where_nobody_can_be_made_to_wait_nothing_is_read(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(calls, "seccomp", lambda: 9999)
    monkeypatch.setattr(trial, "_known", {})
    assert not await can_wait()
    with pytest.raises(Unfetched, match="made to wait"):
        await python("f.read(10)", Holed(file, tmp_path / "copy" / "file").copy, tmp_path)


async def test_a_full_disk_stays_a_full_disk(file: Path, tmp_path: Path):
    holed = Holed(file, tmp_path / "copy" / "file")
    full = told(0, OSError(errno.ENOSPC, "no space"))
    copy = SparseCopy(holed.path, SIZE, 0, holed.path.stat().st_ino, full)
    with pytest.raises(OSError, match="no space") as caught:
        await python("f.read(10)", copy, tmp_path)
    assert caught.value.errno == errno.ENOSPC


async def test_another_copy_of_the_same_name_is_refused(file: Path, tmp_path: Path):
    holed = Holed(file, tmp_path / "copy" / "file")
    copy = holed.copy
    holed.path.rename(tmp_path / "copy" / "old")
    Holed(file, tmp_path / "copy" / "file")
    with pytest.raises(Unfetched, match="begun anew"):
        await python("f.read(10)", copy, tmp_path)


async def test_who_waits_for_bytes_does_not_stall(file: Path, tmp_path: Path):
    now = [0.0]
    watch = Watch(stall_s=5.0, clock=lambda: now[0])
    holed = Holed(file, tmp_path / "copy" / "file")

    def slowly(start: int, end: int) -> list[Span]:
        now[0] += 100.0
        assert watch.verdict() == ""
        return holed.fetch(start, end)

    facts = file.stat()
    copy = SparseCopy(holed.path, facts.st_size, 0, holed.path.stat().st_ino, slowly)
    ended = await python("print(len(f.read(10)))", copy, tmp_path, watch)
    assert (ended.exit_code, ended.stdout, ended.stopped) == (0, "10\n", "")
    now[0] += 6.0
    assert watch.verdict() == "stalled"


async def test_a_child_that_waits_can_be_stopped(file: Path, tmp_path: Path):
    waits = asyncio.Event()
    loop = asyncio.get_running_loop()
    holed = Holed(file, tmp_path / "copy" / "file")
    let_go = asyncio.Event()

    def forever(start: int, end: int) -> list[Span]:
        loop.call_soon_threadsafe(waits.set)
        asyncio.run_coroutine_threadsafe(let_go.wait(), loop).result()
        return [(start, end)]

    copy = SparseCopy(holed.path, SIZE, 0, holed.path.stat().st_ino, forever)
    running = asyncio.create_task(python("f.read(10)", copy, tmp_path))
    await waits.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    let_go.set()
