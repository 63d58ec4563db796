"""Output files beside what made them: as a later stage fetches one, and as people list them."""

from dataclasses import dataclass
from typing import NamedTuple

from takeup.core.model import Artifact


class MadeFile(NamedTuple):
    """An output file, and the attempt that made it."""

    file: Artifact
    task_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class JobFile:
    """An output file in the list of its job."""

    task_id: int
    name: str
    key: str
    sha256: str
    size_bytes: int

    @property
    def place(self) -> str:
        """Where in the list it stands."""
        return f"{self.task_id}/{self.name}"
