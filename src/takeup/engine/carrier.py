"""How files come to a task and go from it: on the storage itself, or over HTTP for a worker elsewhere."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from takeup.artifacts.local import LocalArtifacts
from takeup.core.errors import InvalidInput, NotFound, TakeupError
from takeup.core.model import Brief, InputPage
from takeup.core.points import point
from takeup.core.spans import Span
from takeup.engine.holding import Holding
from takeup.engine.late import publish_won
from takeup.engine.reporter import Ending
from takeup.engine.source import Source
from takeup.telemetry.logs import logger

INPUT_WAIT_S = 10.0
INPUT_LOOK_S = 0.05

log = logger("carrier")


class Named(NamedTuple):
    """A file of a job: by its name in the spec, or by the key of an output of an earlier stage."""

    name: str
    is_output: bool


class Opened(NamedTuple):
    """A sparse copy."""

    path: Path
    size: int
    changed_ns: int
    inode: int
    id: str
    """Of this very copy: numbers of inodes are used again."""


class Carrier(Protocol):
    """Brings what a task needs and takes what it made."""

    async def bring(self, holding: Holding, page: InputPage) -> None:
        """Let the files of these inputs be on this machine's storage."""
        ...

    async def fetch(self, holding: Holding, brief: Brief, name: str) -> Path:
        """The local file that the spec of the job names so."""
        ...

    async def open_sparse(self, holding: Holding, brief: Brief, named: Named) -> Opened | None:
        """A copy of a file of which only what is asked for is fetched; None if it is here or must be."""
        ...

    async def fetch_span(
        self, holding: Holding, brief: Brief, named: Named, *, copy_id: str, span: Span
    ) -> list[Span]:
        """Let these bytes be in that very copy; what of it is here then, around them."""
        ...

    async def take(self, ending: Ending) -> None:
        """Bring sealed outputs to where their completion can be accepted; before that is reported."""
        ...

    def keep(self, ending: Ending) -> None:
        """The completion was accepted: let its outputs be where others find them."""
        ...


class LocalCarrier:
    """For who works on the storage: nothing is carried, only made visible."""

    def __init__(self, source: Source, artifacts: LocalArtifacts, clock: Callable[[], float]) -> None:
        self._source = source
        self._artifacts = artifacts
        self._clock = clock

    async def bring(self, holding: Holding, page: InputPage) -> None:
        """Wait until the files are visible, and publish them if nobody else does."""
        del holding
        deadline = self._clock() + INPUT_WAIT_S
        while missing := await asyncio.to_thread(self._unpublished, page):
            why = await publish_won(self._artifacts, self._source.fates, missing)
            if self._clock() > deadline:
                raise NotFound(why or "the files of an input are not in the storage of this worker")
            await asyncio.sleep(INPUT_LOOK_S)

    async def fetch(self, holding: Holding, brief: Brief, name: str) -> Path:
        """The path is what the spec says."""
        del holding
        place = brief.spec.get(name)
        if not isinstance(place, str) or not place:
            raise InvalidInput(f"the spec names no file as {name!r}")
        return Path(place)

    async def open_sparse(self, holding: Holding, brief: Brief, named: Named) -> Opened | None:
        """The file is here."""

    async def fetch_span(
        self, holding: Holding, brief: Brief, named: Named, *, copy_id: str, span: Span
    ) -> list[Span]:
        """Nobody was told of such a copy."""
        del holding, brief, copy_id, span
        raise InvalidInput(f"there is no sparse copy of {named.name} here")

    async def take(self, ending: Ending) -> None:
        """The outputs are where they belong."""

    def keep(self, ending: Ending) -> None:
        """Publish them."""
        point("worker.before publish")
        try:
            found = self._artifacts.publish(ending.holding.folder, ending.key or "")
        except TakeupError as error:
            log.exception("outputs not published", **ending.holding.about, error=str(error))
            return
        if not found:
            log.error("outputs not found", **ending.holding.about, key=ending.key)
        point("worker.after publish")

    def _unpublished(self, page: InputPage) -> set[tuple[int, int]]:
        """The attempts (task, epoch) that made what is not visible of these inputs."""
        return {
            (made.task_id, made.epoch)
            for made in page.made
            if made.files and not is_visible(self._artifacts, next(iter(made.files.values())))
        }


def is_visible(artifacts: LocalArtifacts, key: str) -> bool:
    """Whether a file is there by its key."""
    try:
        artifacts.open_path(key)
    except NotFound:
        return False
    return True
