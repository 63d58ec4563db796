"""A file that somebody handed in: opened without following anything, and the same at every step."""

import stat
from dataclasses import dataclass, replace
from pathlib import Path

from takeup.child.sparse import SparseCopy
from takeup.media.errors import NotMedia


@dataclass(frozen=True, slots=True)
class Source:
    """A regular file and what it was when it was first looked at."""

    path: Path
    size: int
    changed_ns: int
    touched_ns: int
    """When anything of it was changed last, its name and its rights too; nobody can set this back."""
    inode: int
    links: int
    sparse: SparseCopy | None = None
    """Where not all of it is here: what fetches it while it is read."""

    @property
    def argument(self) -> str:
        """How the tools are told of it: with the prefix no name is read as an option or an address."""
        return f"file:{self.path}"

    @property
    def version(self) -> dict[str, int]:
        """What changes when the file does, on whichever machine it is looked at."""
        return {"size": self.size, "changed_ns": self.changed_ns}

    def is_still(self, now: "Source") -> bool:
        """Whether what was looked at later is the same file with nothing written to it.

        A backup may link to a file while it is read, which touches it and changes nothing in it. Some file
        systems give a file another inode each time they are asked, so a new one alone proves nothing.
        """
        if self.sparse is not None:  # whoever fetches it sees to it that all comes from the same file
            return self.path == now.path and self.size == now.size
        was_linked = self.inode == now.inode and self.links != now.links
        is_untouched = self.touched_ns == now.touched_ns or was_linked
        return self.path == now.path and self.version == now.version and is_untouched


def look_at(path: Path) -> Source:
    """The file, if it is one: no folder, device, pipe or link to one of them."""
    try:
        found = path.resolve(strict=True)
        facts = found.stat(follow_symlinks=False)
    except OSError as error:
        raise NotMedia(f"{path} cannot be read: {error.strerror or error}") from error
    if not stat.S_ISREG(facts.st_mode):
        raise NotMedia(f"{path} is not a regular file")
    if facts.st_size == 0:
        raise NotMedia(f"{path} is empty")
    return Source(found, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino, facts.st_nlink)


def look_at_sparse(copy: SparseCopy) -> Source:
    """The file that this is a copy of: a copy changes with all that is fetched, the file does not."""
    return replace(look_at(copy.path), size=copy.size, changed_ns=copy.changed_ns, sparse=copy)
