"""What a child may use and touch: limits of the kernel, and the paths it may read and write."""

import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from takeup.child import launch

Confinement = Literal["limits", "landlock"]

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """At most so much; None is as much as we have ourselves."""

    cpu_s: int | None = None
    memory_bytes: int | None = 16 * GIB
    """Address space, which is more than what is really used."""
    file_bytes: int | None = None
    open_files: int | None = 1024


@dataclass(frozen=True, slots=True)
class Guard:
    """The limits of one child and the files it needs; everything else is out of its reach where we can."""

    limits: Limits = field(default_factory=Limits)
    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    """Folders in which it may make and change files."""

    def around(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """The command behind the launcher, which gives up rights and then becomes the command."""
        limits = self.limits
        order = {
            "parent": os.getpid(),
            "limits": {
                "RLIMIT_CPU": limits.cpu_s,
                "RLIMIT_AS": limits.memory_bytes,
                "RLIMIT_FSIZE": limits.file_bytes,
                "RLIMIT_NOFILE": limits.open_files,
                "RLIMIT_CORE": 0,
            },
            "reads": [str(path) for path in (Path(argv[0]), *self.reads)],
            "writes": [str(path) for path in self.writes],
        }
        return (sys.executable, "-I", "-S", launch.__file__, json.dumps(order), *argv)


def dying_with_us(argv: tuple[str, ...]) -> tuple[str, ...]:
    """A command without a guard: the kernel kills it should this process die without a chance to do it."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--", *argv) if setpriv else argv


def confinement() -> Confinement:
    """How far this machine lets us confine a child."""
    return "landlock" if launch.landlock_version() >= 1 else "limits"
