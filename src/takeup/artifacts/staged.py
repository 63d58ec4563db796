"""Writes new files below an open folder: no link is followed, nothing replaced, all can be taken back."""

import os
from contextlib import suppress

from takeup.core.errors import BadArchive

FILE_MODE, FOLDER_MODE = 0o644, 0o755
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StagedFiles:
    """Files below a folder that is ours; one is written at a time."""

    def __init__(self, root: int) -> None:
        """`root` is a descriptor of the folder; it stays open and is not closed here."""
        self._root = root
        self._file: int | None = None
        self._files: list[tuple[str, ...]] = []
        self._folders: dict[tuple[str, ...], None] = {}

    def begin(self, parts: tuple[str, ...]) -> None:
        """A new file; the folders above it are made."""
        folder = self._open(parts[:-1])
        try:
            self._file = os.open(parts[-1], NEW_FILE, FILE_MODE, dir_fd=folder)
        except FileExistsError:
            raise BadArchive(f"{'/'.join(parts)!r} is there already") from None
        finally:
            os.close(folder)
        self._files.append(parts)
        os.fchmod(self._file, FILE_MODE)  # whatever the mask of this process is

    def write(self, data: memoryview) -> None:
        """More of it."""
        if self._file is None:
            raise ValueError("no file was begun")
        while data:
            data = data[os.write(self._file, data) :]

    def end(self) -> None:
        """It is whole."""
        if self._file is not None:
            opened, self._file = self._file, None
            os.close(opened)

    def remove(self) -> None:
        """Take back every file and folder that was made."""
        self.end()
        for parts in reversed(self._files):
            self._take_back(parts, is_folder=False)
        for parts in reversed(self._folders):
            self._take_back(parts, is_folder=True)
        self._files.clear()
        self._folders.clear()

    def _take_back(self, parts: tuple[str, ...], *, is_folder: bool) -> None:
        with suppress(OSError):  # somebody took it away already
            folder = self._walk(parts[:-1])
            try:
                if is_folder:
                    os.rmdir(parts[-1], dir_fd=folder)
                else:
                    os.unlink(parts[-1], dir_fd=folder)
            finally:
                os.close(folder)

    def _open(self, parts: tuple[str, ...]) -> int:
        """The folder of these names; what is missing is made."""
        for count in range(1, len(parts) + 1):
            above = parts[:count]
            if above in self._folders:
                continue
            parent = self._walk(above[:-1])
            try:
                os.mkdir(above[-1], FOLDER_MODE, dir_fd=parent)
            except FileExistsError:
                raise BadArchive(f"{'/'.join(above)!r} is there already") from None
            finally:
                os.close(parent)
            self._folders[above] = None
        return self._walk(parts)

    def _walk(self, parts: tuple[str, ...]) -> int:
        opened = os.open(".", FOLDER, dir_fd=self._root)
        for part in parts:
            above = opened
            try:
                opened = os.open(part, FOLDER, dir_fd=above)
            finally:
                os.close(above)
        return opened
