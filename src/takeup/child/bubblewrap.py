"""A room of its own for a child, where bubblewrap can make one: no network and no other process in it."""

import functools
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TRY_S_MAX = 10.0
PARENT = 1
"""The process in the room that starts the command."""
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/sys/devices/system")


def around(
    reads: Sequence[Path], writes: Sequence[Path], cwd: Path, devices: Sequence[Path] = ()
) -> tuple[str, ...]:
    """The words before a command that put it in a room with these paths alone."""
    bwrap = shutil.which("bwrap") or "bwrap"
    words = [bwrap, "--unshare-all", "--die-with-parent", "--proc", "/proc", "--dev", "/dev"]
    seen: list[Path] = []
    for path in (*map(Path, (*SYSTEM, sys.base_prefix, sys.prefix)), *reads):
        if not any(path.is_relative_to(other) for other in seen):  # a path within another is there already
            words += ["--ro-bind-try", str(path), str(path)]
            seen.append(path)
    for path in writes:
        words += ["--bind", str(path), str(path)]
    for path in devices:
        words += ["--dev-bind-try", str(path), str(path)]
    words += ["--ro-bind-try", "/sys", "/sys"] if devices else []
    is_seen = any(cwd.is_relative_to(path) for path in (*seen, *writes))
    return (*words, "--chdir", str(cwd) if is_seen else "/", "--")


@functools.cache
def works() -> bool:
    """Whether a room can be made here; it is tried once, for a program that is installed proves nothing."""
    if shutil.which("bwrap") is None:
        return False
    command = (*around((), (), Path("/")), sys.executable, "-I", "-S", "-c", "")
    try:
        return subprocess.run(command, capture_output=True, timeout=TRY_S_MAX, check=False).returncode == 0  # noqa: S603 - our own words
    except (OSError, subprocess.TimeoutExpired):
        return False
