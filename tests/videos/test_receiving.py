"""One file at a time, written to its end before anybody closes it."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from takeup.core.errors import NotFound
from takeup.engine.videos.errors import UploadBusy
from takeup.engine.videos.receiving import BLOCK_BYTES, Part, opened, receive


async def body(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_a_request_that_is_cut_off_closes_nothing_under_its_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    begun, may_end, seen = threading.Event(), threading.Event(), []
    write = Part.write

    def slowly(part: Part, data: bytes, offset: int) -> None:
        begun.set()
        may_end.wait(10)
        seen.append(os.fstat(part._fd).st_ino)
        write(part, data, offset)

    async def upload() -> None:
        with opened(tmp_path / "x", may_make=True) as part:
            await receive(part, body(b"x" * BLOCK_BYTES, b"y"), offset=0, size_max=1 << 30, reserve_bytes=0)

    monkeypatch.setattr(Part, "write", slowly)
    running = asyncio.create_task(upload())
    await asyncio.to_thread(begun.wait, 10)
    running.cancel()
    await asyncio.sleep(0)
    with pytest.raises(UploadBusy), opened(tmp_path / "x"):
        pass
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert set(seen) == {(tmp_path / "x").stat().st_ino}
    assert (tmp_path / "x").read_bytes() == b"x" * BLOCK_BYTES


async def test_what_comes_is_written_where_it_belongs(tmp_path: Path):
    (tmp_path / "x").write_bytes(b"abc")
    data = bytes(range(256)) * 10_000
    with opened(tmp_path / "x") as part:
        cut = [data[at : at + 7001] for at in range(0, len(data), 7001)]
        size = await receive(part, body(*cut), offset=3, size_max=1 << 30, reserve_bytes=0)
        assert (size, part.size) == (len(data) + 3, len(data) + 3)
    assert (tmp_path / "x").read_bytes() == b"abc" + data


def test_only_what_is_there_is_opened_and_by_one_alone(tmp_path: Path):
    with pytest.raises(NotFound), opened(tmp_path / "x"):
        pass
    with opened(tmp_path / "new" / "x", may_make=True) as part:
        assert part.path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(UploadBusy), opened(part.path):
            pass
        part.rename(tmp_path / "new" / "y")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["y"]
