"""The sweep: outputs that were won but not yet published become visible, what nobody needs is removed."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from takeup.artifacts import manifest
from takeup.artifacts.layout import TaskFolder
from takeup.artifacts.local import LocalArtifacts
from takeup.artifacts.scratch import Scratch
from takeup.core.errors import TakeupError
from takeup.core.model import Fate
from takeup.engine.late import publish_late
from takeup.engine.source import Source
from takeup.telemetry.logs import logger

BATCH = 500
GONE_AGE_S = 86_400.0

log = logger("sweeper")


class Sweeper:
    """Looks at the folders of ended attempts; what becomes of each is what the database says of its task."""

    name = "sweeper"

    def __init__(
        self,
        source: Source,
        storage: Path,
        scratch: Path,
        *,
        period_s: float = 60.0,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Both folders are swept: the staging part of the storage, and this machine's scratch."""
        self.period_s = period_s
        self._wall = wall
        self._source = source
        self._artifacts = LocalArtifacts(storage)
        self._scratch = Scratch(scratch)

    async def run_once(self) -> bool:
        """One sweep over everything that is there."""
        staged = await asyncio.to_thread(self._artifacts.staged)
        for fate in await self._fates(staged):
            await asyncio.to_thread(self._carefully, self._settle_staged, fate)
        scratched = await asyncio.to_thread(self._scratch.folders)
        for fate in await self._fates(scratched):
            if fate.fate != "held":
                await asyncio.to_thread(self._carefully, self._drop_scratch, fate)
        await asyncio.to_thread(self._artifacts.sweep_trash)
        await asyncio.to_thread(self._scratch.sweep_trash)
        return False

    async def _fates(self, folders: Sequence[TaskFolder]) -> list[Fate]:
        fates: list[Fate] = []
        for start in range(0, len(folders), BATCH):
            fates += await self._source.fates(folders[start : start + BATCH])
        return fates

    def _carefully(self, settle: Callable[[Fate], None], fate: Fate) -> None:
        """One folder that cannot be handled must not keep the others from being swept."""
        try:
            settle(fate)
        except OSError as error:
            log.warning("not swept", task=fate.folder[0], error=str(error))

    def _drop_scratch(self, fate: Fate) -> None:
        folder = TaskFolder(*fate.folder)
        if fate.fate != "gone" or not self._is_young(self._scratch.path(folder)):
            self._scratch.drop(folder)

    def _is_young(self, path: Path) -> bool:
        """Whether a folder of a task that this database does not know may belong to another database."""
        try:
            return self._wall() - path.stat().st_mtime < GONE_AGE_S
        except FileNotFoundError:
            return False

    def _settle_staged(self, fate: Fate) -> None:
        """Publish what won; keep what is held or may still be adopted; drop the rest."""
        folder = TaskFolder(*fate.folder)
        if fate.fate == "held":
            return
        try:
            if publish_late(self._artifacts, fate):
                return
        except TakeupError as error:
            log.error("not published", task=folder.task_id, error=str(error))  # noqa: TRY400 - expected kind
            return
        if fate.fate == "gone" and self._is_young(self._artifacts.staged_path(folder)):
            return
        is_sealed = manifest.read(self._artifacts.staged_path(folder)) is not None
        if fate.fate == "open" and is_sealed:
            return
        self._artifacts.drop(folder)
        log.info("swept", task=folder.task_id, epoch=folder.epoch, fate=fate.fate)
