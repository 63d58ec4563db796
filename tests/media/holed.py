"""A sparse copy of a file on the same disk, which notes what is asked for."""

import os
from pathlib import Path

from takeup.child.sparse import SparseCopy
from takeup.core.spans import Span, Spans


class Holed:
    """A copy that begins as one hole."""

    def __init__(self, file: Path, path: Path) -> None:
        self._file = file
        self.path = path
        self.held = Spans()
        self.asked: list[Span] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.truncate(path, file.stat().st_size)

    @property
    def copy(self) -> SparseCopy:
        facts = self._file.stat()
        return SparseCopy(self.path, facts.st_size, facts.st_mtime_ns, self.path.stat().st_ino, self.fetch)

    def fetch(self, start: int, end: int) -> list[Span]:
        """Copy these bytes and no others."""
        self.asked.append((start, end))
        with self._file.open("rb") as whole, self.path.open("r+b") as copy:
            whole.seek(start)
            copy.seek(start)
            copy.write(whole.read(end - start))
        self.held.add(start, end)
        return self.held.around(start, end)
