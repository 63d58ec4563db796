"""A disk of a size of one's own: a file system that is really full when it is full, and that only we see."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$0" && echo ready && cat'
FILLER = "filler"
BLOCK = bytes(1 << 16)


class SmallDisk:
    """Mounted on a folder in a name space of its own, which ends with us; no rights are needed for that."""

    def __init__(self, folder: Path, size: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._holder = subprocess.Popen(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", MOUNT, folder, size],  # noqa: S607
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout
        assert self._holder.stdout.readline() == b"ready\n", "this kernel lets nobody mount a disk of his own"

    @property
    def prefix(self) -> list[str]:
        """What stands before a command that shall see it."""
        enter = ["nsenter", "--target", str(self._holder.pid), "--user", "--mount", "--preserve-credentials"]
        return [*enter, "--", "sh", "-c", 'cd "$0" && exec "$@"', str(self.folder.parent)]

    def seen(self, path: Path) -> Path:
        """A path that they see, from outside."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.seen(self.folder))
        return found.f_bavail * found.f_bsize

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all the room but this much."""
        with self.seen(self.folder / FILLER).open("wb", buffering=0) as file:
            while (wanted := self.free_bytes - leave_bytes) > 0:
                file.write(BLOCK[:wanted])

    def empty(self) -> None:
        """Give back what was taken by that."""
        self.seen(self.folder / FILLER).unlink()

    def enlarge(self, size: str) -> None:
        """Let there be more room."""
        command = [*self.prefix, "mount", "-o", f"remount,size={size}", str(self.folder)]
        subprocess.run(command, check=True)

    def close(self) -> None:
        self._holder.communicate()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[SmallDisk]:
    """There while it is needed."""
    disk = SmallDisk(folder, size)
    try:
        yield disk
    finally:
        disk.close()
