"""Files that take long to hash hold up no other file."""

import asyncio
import hashlib
import os
from pathlib import Path

from takeup.artifacts.files import hash_file
from takeup.artifacts.hashing import beside

MANY = 64
WAIT_S = 10.0


def read_slowly(path: Path) -> bytes:
    with path.open("rb", buffering=0) as file:
        return file.read(1)


async def test_what_is_hashed_holds_up_nobody(tmp_path: Path):
    slow, quick = tmp_path / "slow", tmp_path / "quick"
    os.mkfifo(slow)
    quick.write_bytes(b"here")
    end = os.open(slow, os.O_RDWR)
    reading = [asyncio.create_task(beside(read_slowly, slow)) for _ in range(MANY)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(WAIT_S):
            assert await asyncio.to_thread(quick.read_bytes) == b"here"
    finally:
        os.write(end, bytes(MANY))
        assert await asyncio.gather(*reading) == [b"\0"] * MANY
        os.close(end)
    assert await beside(hash_file, quick) == (hashlib.sha256(b"here").hexdigest(), 4)
