"""What a worker elsewhere keeps of its jobs' files: within a limit, and while they may be of use."""

import asyncio
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from takeup.artifacts.layout import TaskFolder
from takeup.artifacts.local import STAGING, LocalArtifacts
from takeup.artifacts.scratch import Scratch
from takeup.engine.remote.carrier import SOURCES
from takeup.engine.source import Source
from takeup.telemetry.logs import logger

KEEP_S = 600.0
"""Files of a job that this worker has nothing of are kept so long: its next task may come any moment."""
BATCH = 500
BLOCK_BYTES = 512
"""What the kernel counts the room of a file in."""

log = logger("cache")


class Cache:
    """Sweeps the storage of a worker elsewhere: of what was accepted the server has a copy."""

    name = "cache"

    def __init__(
        self,
        source: Source,
        storage: Path,
        scratch: Path,
        *,
        jobs_held: Callable[[], Iterable[str]],
        bytes_max: int,
        period_s: float = 60.0,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Of the jobs in `jobs_held` nothing is removed."""
        self.period_s = period_s
        self._source = source
        self._root = storage
        self._artifacts = LocalArtifacts(storage)
        self._scratch = Scratch(scratch)
        self._jobs_held = jobs_held
        self._bytes_max = bytes_max
        self._wall = wall

    async def run_once(self) -> bool:
        """One sweep."""
        for folders, drop in (
            (await asyncio.to_thread(self._artifacts.staged), self._artifacts.drop),
            (await asyncio.to_thread(self._scratch.folders), self._scratch.drop),
        ):
            for start in range(0, len(folders), BATCH):
                for fate in await self._source.fates(folders[start : start + BATCH]):
                    if fate.fate != "held":
                        await asyncio.to_thread(drop, TaskFolder(*fate.folder))
        held = set(self._jobs_held())
        await asyncio.to_thread(self._sweep_jobs, held)
        await asyncio.to_thread(self._artifacts.sweep_trash)
        await asyncio.to_thread(self._scratch.sweep_trash)
        return False

    def _sweep_jobs(self, held: set[str]) -> None:
        """Remove what is old, and then the oldest until the rest is within the limit."""
        found = sorted(self._idle(held), key=lambda one: one[0])
        kept_bytes = sum(size for _, size, _ in found)
        for used_at, size, folder in found:
            if self._wall() - used_at > KEEP_S or kept_bytes > self._bytes_max:
                shutil.rmtree(folder, ignore_errors=True)
                kept_bytes -= size
                log.info("removed", job=folder.name, bytes=size)

    def _idle(self, held: set[str]) -> Iterable[tuple[float, int, Path]]:
        """The folders of jobs that nothing is held of: when used last, how large, where."""
        for parent in self._root.iterdir() if self._root.exists() else ():
            if parent.name == STAGING or (parent.name.startswith(".") and parent.name != SOURCES):
                continue
            for folder in parent.iterdir() if parent.is_dir() else ():
                if folder.name in held:
                    continue
                facts = [file.stat() for file in folder.rglob("*") if file.is_file()]
                used_at = max([folder.stat().st_mtime, *(max(f.st_atime, f.st_ctime) for f in facts)])
                # of a sparse copy only what it holds takes room; a whole file may be the same by another name
                yield used_at, sum(f.st_blocks * BLOCK_BYTES // f.st_nlink for f in facts), folder
