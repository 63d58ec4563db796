"""Disturbances for a storm: the database crashes, somebody holds a row lock, the disk for scratch is full."""

import asyncio
import contextlib
import os
import subprocess
from pathlib import Path
from random import Random
from typing import Self

import asyncpg

from tests.services import PostgresServer

DOWN_S = 0.3
LOCK_S = 1.5
FULL_S = 1.0
SCRATCH_BYTES = 2 * 1024 * 1024


class PostgresFaults:
    """What may happen to one database of one server."""

    def __init__(self, server: PostgresServer, url: str, seed: int) -> None:
        self._server = server
        self._url = url
        self._random = Random(seed)

    async def crash_database(self) -> None:
        """`pg_ctl stop -m immediate`, and back a moment later."""
        await asyncio.to_thread(self._server.stop, "immediate")
        await asyncio.sleep(DOWN_S * self._random.random())
        await asyncio.to_thread(self._server.start)

    async def hold_a_row(self) -> None:
        """Somebody locks the rows of running tasks and goes away for a while."""
        try:
            connection = await asyncpg.connect(self._url)
            async with connection.transaction():
                await connection.execute(
                    "SELECT id FROM tasks WHERE status IN ('RUNNING', 'READY') LIMIT 3 FOR UPDATE"
                )
                await asyncio.sleep(LOCK_S * self._random.random())
            await connection.close()
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            pass  # the database was taken down meanwhile


class SmallScratch:
    """A scratch folder on a small file system of its own, which can be filled to the brim."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "scratch"
        self._is_mounted = False

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            options = f"size={SCRATCH_BYTES}"
            mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self._folder)]
            subprocess.run(mount, check=True)
            self._is_mounted = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_mounted:
            subprocess.run(["umount", "-l", str(self._folder)], check=True)  # noqa: S607 - Debian's own

    async def fill_scratch(self) -> None:
        """No byte is left for a while; only root can mount what this fills."""
        if not self._is_mounted:
            return
        filler = self._folder / ".filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(b"\0" * 65536)
                file.flush()
        await asyncio.sleep(FULL_S)
        filler.unlink(missing_ok=True)
