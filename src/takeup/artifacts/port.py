"""What the engine needs of a place for outputs, so that a disk and an object store serve alike."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from takeup.artifacts.layout import TaskFolder
from takeup.artifacts.manifest import Manifest


class Artifacts(Protocol):
    """Outputs are staged under a token, sealed, and published once their completion was accepted."""

    def stage(self, folder: TaskFolder) -> Path:
        """The local folder that this attempt writes its outputs to, made if it is not there."""
        ...

    def seal(
        self,
        folder: TaskFolder,
        key: str,
        version: int,
        result: Mapping[str, Any],
        *,
        is_temporary: bool = False,
    ) -> Manifest:
        """Hash what was staged, make it last and list it; nothing may be written to it from here on."""
        ...

    def find(self, folder: TaskFolder, key: str) -> Manifest | None:
        """A sound output of this task that an earlier attempt left, published or only sealed."""
        ...

    def adopt(self, folder: TaskFolder, manifest: Manifest) -> Manifest:
        """Make an output that `find` gave this attempt's own; raises `NotFound` if it is gone meanwhile."""
        ...

    def publish(self, folder: TaskFolder, key: str) -> bool:
        """Give the outputs their public place, after an accepted completion; False if there are none."""
        ...

    def open_path(self, key: str) -> Path:
        """The local file of a published output by its key; raises `NotFound` if there is none."""
        ...

    def forget(self, job_id: str) -> int:
        """Remove the temporary outputs of a job that is over; how many tasks had some."""
        ...

    def staged(self) -> list[TaskFolder]:
        """The attempts that have staged something and neither published nor dropped it."""
        ...

    def drop(self, folder: TaskFolder) -> None:
        """Remove what this attempt staged; nothing happens if it is gone."""
        ...
