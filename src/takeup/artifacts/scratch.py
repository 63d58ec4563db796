"""Scratch: a folder of its own for each attempt, worth nothing once the attempt is over."""

from pathlib import Path

from takeup.artifacts.layout import TaskFolder
from takeup.artifacts.removal import remove, sweep, task_folders


class Scratch:
    """The scratch folders of one machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def make(self, folder: TaskFolder) -> Path:
        """The scratch folder of this attempt, made if it is not there."""
        path = self.path(folder)
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.mkdir(exist_ok=True)
        return path

    def path(self, folder: TaskFolder) -> Path:
        """Where the scratch folder of this attempt is, or would be."""
        return self.root / folder.check().name

    def drop(self, folder: TaskFolder) -> None:
        """Remove it; nothing happens if it is gone."""
        remove(self.path(folder), self.root)

    def folders(self) -> list[TaskFolder]:
        """The attempts that have a scratch folder here."""
        return task_folders(self.root)

    def sweep_trash(self) -> int:
        """Finish removals that a crash cut short; how many there were."""
        return sweep(self.root)
