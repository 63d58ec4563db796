"""What a child may use and touch: limits of the kernel, and the paths it may read and write."""

import json
import os
import shutil
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from takeup.child import bubblewrap, calls, launch
from takeup.child.programs import started_with
from takeup.child.sparse import SparseCopy
from takeup.core.errors import TakeupError

Confinement = Literal["limits", "landlock", "bubblewrap"]

GIB = 1 << 30
BEST_EFFORT = "best-effort"
TOLD_SIGNALS = (
    signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL, signal.SIGSEGV,
    signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ,
)  # fmt: skip
SIGNAL_CODES = 128


class NoSandbox(TakeupError):
    """The confinement that the settings ask for does not work on this machine."""

    help = (
        "Use Linux 5.13 or newer with Landlock, or install bubblewrap (`apt install bubblewrap`); "
        "or set TAKEUP_SANDBOX=best-effort, and ffmpeg runs with limits alone."
    )


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
    devices: tuple[Path, ...] = ()
    """Parts of the machine that it works with, or folders of them; what is not there is passed over."""
    sandbox: str = BEST_EFFORT
    """As the setting of this name."""
    sparse: SparseCopy | None = None
    """What it reads of this file is fetched first."""

    def around(
        self, argv: tuple[str, ...], cwd: Path | None = None, line: int | None = None
    ) -> tuple[str, ...]:
        """The command behind the launcher, which gives up rights and then becomes the command.

        With a line, whoever holds its other end is asked before anything is read.
        """
        runs = started_with(Path(argv[0]))
        if confinement(self.sandbox) != "bubblewrap":
            return self._launched(argv, runs, os.getpid(), line)
        reads = (Path(launch.__file__), *runs, *self.reads)
        return (
            *bubblewrap.around(reads, self.writes, cwd or Path.cwd(), self.devices),
            *self._launched(argv, runs, bubblewrap.PARENT, line),
        )

    def exit_code(self, code: int) -> int:
        """How the command itself ended: bubblewrap tells of a signal as a shell does."""
        number = code - SIGNAL_CODES
        is_signal = number in TOLD_SIGNALS and confinement(self.sandbox) == "bubblewrap"
        return -number if is_signal else code

    def _launched(
        self, argv: tuple[str, ...], runs: tuple[Path, ...], parent: int, line: int | None
    ) -> tuple[str, ...]:
        limits = self.limits
        order = {
            "parent": parent,
            "limits": {
                "RLIMIT_CPU": limits.cpu_s,
                "RLIMIT_AS": limits.memory_bytes,
                "RLIMIT_FSIZE": limits.file_bytes,
                "RLIMIT_NOFILE": limits.open_files,
                "RLIMIT_CORE": 0,
            },
            "confined": self.sandbox != "off",
            "runs": [str(path) for path in runs],
            "reads": [str(path) for path in self.reads],
            "writes": [str(path) for path in self.writes],
            "devices": [str(path) for path in self.devices],
            "filter": calls.program().hex(),
            "reading": line and {"line": line, "call": calls.seccomp(), "filter": calls.reading().hex()},
        }
        return (sys.executable, "-I", "-S", launch.__file__, json.dumps(order), *argv)


def dying_with_us(argv: tuple[str, ...]) -> tuple[str, ...]:
    """A command without a guard: the kernel kills it should this process die without a chance to do it."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--", *argv) if setpriv else argv


def confinement(sandbox: str = BEST_EFFORT) -> Confinement:
    """How far a child is confined here under this setting; an error where that is not far enough."""
    if sandbox == "off":
        return "limits"
    has_landlock = launch.landlock_version() >= 1
    if (sandbox == "bubblewrap" or not has_landlock) and bubblewrap.works():
        return "bubblewrap"
    if sandbox == "bubblewrap":
        raise NoSandbox("sandbox is 'bubblewrap', but bwrap is not installed or may not make namespaces here")
    if sandbox == "required" and not has_landlock:
        raise NoSandbox("sandbox is 'required', but this kernel has no Landlock and bubblewrap does not work")
    return "landlock" if has_landlock else "limits"
