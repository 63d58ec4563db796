"""The versions of one published thing: each a folder that never changes, and one link that says which counts.

    stream/v1/…  stream/v2/…          the versions, whole from the moment they have their name
    stream/current -> v2              the one pointer; a rename swaps it
    stream/index.html -> current/entry/index.html

Whoever opens an entry is led into one version by its addresses, and stays there whatever is published
meanwhile.
"""

import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from takeup.artifacts.files import read_bounded, sync_folder, write_durably
from takeup.artifacts.layout import OWN_FILES
from takeup.core.errors import Conflict, NotFound
from takeup.core.points import point

CURRENT = "current"
ENTRY = "entry"
FACTS = "version.json"
SERVED = ".served"
FORMER = ".former"
"""Which version was served before the current one."""
LOCK = ".lock"
NEW, OLD, SWAP = ".new", ".old.", ".swap"
NAME = re.compile(r"v([1-9][0-9]{0,8})\Z")
FACTS_BYTES_MAX = 64 * 1024
LOCK_S_MAX = 600.0
LOCK_LOOK_S = 0.05

Entries = Callable[[str], Mapping[str, bytes]]
"""The files by which people come in, for the name of the version's folder: their addresses begin with it."""


class NoVersion(NotFound):
    """There is no such version to serve."""

    help = "Publish it first, or name one of the versions that are there."


class Versions:
    """The versions below one folder, on one file system."""

    def __init__(self, folder: Path) -> None:
        """The folder need not be there yet."""
        self.folder = folder

    def numbers(self) -> list[int]:
        """The versions that are there, oldest first."""
        try:
            found = [NAME.match(path.name) for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(int(match[1]) for match in found if match)

    def current(self) -> int | None:
        """The version that is served."""
        match = NAME.match(_target(self.folder / CURRENT))
        return int(match[1]) if match else None

    def path(self, number: int) -> Path:
        """The folder of a version."""
        return self.folder / f"v{number}"

    def find(self, origin: str) -> int | None:
        """The version that was made of this, if it was published before."""
        return next((n for n in reversed(self.numbers()) if self.origin(n) == origin), None)

    def origin(self, number: int) -> str | None:
        """What a version was made of."""
        data = read_bounded(self.path(number) / FACTS, FACTS_BYTES_MAX)
        try:
            return str(json.loads(data)["origin"]) if data else None
        except (ValueError, KeyError, TypeError):
            return None

    def publish(self, made: Path, origin: str, entries: Entries, *, keep: int) -> int:
        """Give what was made its number and serve it; the same origin is published once, however often asked.

        A version that was served before and rolled back is not served again by a late repetition. Of older
        versions `keep` stay to roll back to, and the one that was served until now.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._locked():
            number = self.find(origin)
            if number is None:
                number = max([*self.numbers(), 0]) + 1
                self._place(made, number, origin, entries)
            if not (self.path(number) / SERVED).exists():
                self._serve(number)
            self._tidy(keep)
        return number

    def roll_back(self, to: int | None = None) -> int:
        """Serve an earlier version again: this one, or that which was served before the current."""
        with self._locked():
            there = self.numbers()
            wanted = to if to is not None else self._before()
            if wanted is None or wanted not in there:
                known = ", ".join(f"v{n}" for n in there) or "none"
                what = "earlier version" if to is None else f"version v{to}"
                raise NoVersion(f"{self.folder.name} has no {what}; there are: {known}")
            self._serve(wanted)
            return wanted

    def _place(self, made: Path, number: int, origin: str, entries: Entries) -> None:
        """Copy beside its place, then give it its name: nobody sees half a version."""
        new = self.folder / NEW
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(made, new, ignore=shutil.ignore_patterns(*OWN_FILES), copy_function=_link_or_copy)
        (new / ENTRY).mkdir()
        for name, data in entries(f"v{number}").items():
            (new / ENTRY / name).write_bytes(data)
        write_durably(new / FACTS, new / f"{FACTS}.new", json.dumps({"origin": origin}).encode())
        _sync_tree(new)
        point("versions.before place")
        new.rename(self.path(number))
        sync_folder(self.folder)
        point("versions.after place")

    def _serve(self, number: int) -> None:
        """Swap the pointer; the links of the entries lead through it, so that they change with it."""
        self._remember(number)
        self._link(CURRENT, f"v{number}")
        point("versions.after swap")
        names = {path.name for path in (self.path(number) / ENTRY).iterdir()}
        for name in sorted(names):
            self._link(name, f"{CURRENT}/{ENTRY}/{name}")
        for path in self.folder.iterdir():
            if path.name not in names and _target(path).startswith(f"{CURRENT}/"):
                path.unlink()
        (self.path(number) / SERVED).touch()
        sync_folder(self.folder)

    def _remember(self, number: int) -> None:
        """What is served until now is what people watch, and what they want back if the new one is bad."""
        served = self.current()
        if served not in (None, number):
            file = self.folder / FORMER
            write_durably(file, file.with_name(f"{FORMER}.new"), str(served).encode())

    def _before(self) -> int | None:
        """The version served before the current, if it is older and there; else the one made before."""
        there = [n for n in self.numbers() if n < (self.current() or 0)]
        told = (read_bounded(self.folder / FORMER, FACTS_BYTES_MAX) or b"").decode("ascii", "replace")
        former = int(told) if told.isdecimal() else None
        return former if former in there else max(there, default=None)

    def _link(self, name: str, target: str) -> None:
        link, swap = self.folder / name, self.folder / SWAP
        if _target(link) == target:
            return
        swap.unlink(missing_ok=True)
        swap.symlink_to(target)
        swap.rename(link)

    def _tidy(self, keep: int) -> None:
        """Remove what is older than so many earlier versions, and what a crash left."""
        current = self.current() or 0
        before = self._before()
        older = [n for n in self.numbers() if n < current]
        for number in (n for n in older[: max(len(older) - keep, 0)] if n != before):
            self.path(number).rename(self.folder / f"{OLD}{number}")
        for left in (*self.folder.glob(f"{OLD}*"), self.folder / NEW):
            shutil.rmtree(left, ignore_errors=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One change at a time; a reader never waits."""
        try:
            file = (self.folder / LOCK).open("a")
        except FileNotFoundError:
            raise NoVersion(f"there is no folder {self.folder}") from None
        with file:
            end = time.monotonic() + LOCK_S_MAX
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise Conflict(f"{self.folder} is being changed by another process") from None
                    time.sleep(LOCK_LOOK_S)
            yield


def _target(link: Path) -> str:
    """Where a link leads; nowhere if it is none."""
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _link_or_copy(source: str, target: str) -> str:
    """The same file under a second name where that is possible, for a film is large; else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
    return target


def _sync_tree(root: Path) -> None:
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            with (Path(folder) / name).open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(Path(folder))
