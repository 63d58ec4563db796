"""What a command costs with all that it starts: wall time, CPU seconds, and whose they are.

Every process that loses its parent becomes a child of ours, so that in the end each one is waited for, and
the kernel adds up its time. Which part of it the tools (ffmpeg, ffprobe, a packager) took is read from /proc
while they run.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PR_SET_CHILD_SUBREAPER = 36
LOOK_S = 0.05
PAGE_BYTES = 4096
SCAN_S = 0.25
"""Looking for tools takes time that is missing to who is measured, and the more the more processes it has."""
TOOLS = ("ffmpeg", "ffprobe", "packager")
TICKS = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What one run took."""

    wall_s: float
    cpu_s: float
    tools_s: Mapping[str, float]
    """CPU seconds of each kind of tool; up to the last look, so a little less than it was."""
    others_s: float
    """CPU seconds that the rest of the machine took meanwhile."""

    @property
    def overhead(self) -> float:
        """The share of what is no tool."""
        return 1 - sum(self.tools_s.values()) / self.cpu_s


class Failed(Exception):
    """A contender did not do its work."""


def measure(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path,
    log: Path,
    kill_after_s: float | None = None,
) -> Cost:
    """Run a command to its end; or kill it with all that it started, after so many seconds."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    before, busy, begun = _reaped_s(), _machine_s(), time.monotonic()
    with log.open("ab") as words:
        root = subprocess.Popen(
            [*map(str, command)], stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=env, cwd=cwd
        )
    tools = ToolsBelow(os.getpid())
    watched = os.pidfd_open(root.pid)
    try:
        while not select.select([watched], [], [], LOOK_S)[0]:
            tools.look(time.monotonic())
            if kill_after_s is not None and time.monotonic() - begun >= kill_after_s:
                break
        wall_s = time.monotonic() - begun
    finally:
        os.close(watched)
        _end_all(root, is_killed=kill_after_s is not None)
    if root.returncode != (0 if kill_after_s is None else -signal.SIGKILL):
        raise Failed(
            f"{command[0]} ended with {root.returncode}: {log.read_text('utf-8', 'replace')[-2000:]}"
        )
    cpu_s = _reaped_s() - before
    return Cost(wall_s, cpu_s, tools.seconds(), max(_machine_s() - busy - cpu_s, 0.0))


def _end_all(root: subprocess.Popen[bytes], *, is_killed: bool) -> None:
    """Wait for everybody; whoever is still there is killed."""
    while True:
        if is_killed or root.poll() is not None:
            for pid in _below(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        root.wait()
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _reaped_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _machine_s() -> float:
    """CPU seconds that all cores have been busy, or taken from us by the machine below."""
    user, nice, system, _idle, _waiting, *rest = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + sum(rest)) / TICKS


class ToolsBelow:
    """The tools below a process: found now and then, which costs something; read often, which does not."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._alive: set[int] = set()
        self._scan_at = 0.0
        self._seen: dict[tuple[int, str], tuple[str, float]] = {}

    def look(self, now: float) -> None:
        """Note what every tool has taken so far."""
        if now >= self._scan_at:
            self._scan_at = now + SCAN_S
            self._scan(self._pid)
        else:
            self._alive = {pid for pid in self._alive if self._note(pid)}

    def seconds(self) -> dict[str, float]:
        """CPU seconds of each kind of tool, until it was looked at last."""
        kinds = {name for name, _ in self._seen.values()}
        return {kind: sum(s for name, s in self._seen.values() if name == kind) for kind in sorted(kinds)}

    def _scan(self, pid: int) -> None:
        for child in _children(pid):
            if self._note(child):
                self._alive.add(child)
            else:
                self._scan(child)

    def _note(self, pid: int) -> bool:
        """Whether this is a tool; if so, its time is noted under its process and start."""
        try:
            name, _, rest = _read(f"/proc/{pid}/stat").partition("(")[2].rpartition(")")
        except OSError:
            return False
        tool = next((tool for tool in TOOLS if name.startswith(tool)), "")
        if tool:
            values = rest.split()
            self._seen[pid, values[19]] = tool, (int(values[11]) + int(values[12])) / TICKS
        return bool(tool)


def _below(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _below(child)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - many times a second
            with contextlib.suppress(OSError):
                found += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return found


def _read(path: str) -> str:
    """A file of /proc, at the least cost: what is spent here is missing to who is measured."""
    opened = os.open(path, os.O_RDONLY)
    try:
        return os.read(opened, PAGE_BYTES).decode("utf-8", "replace")
    finally:
        os.close(opened)
