"""Starts, kills, stops and counts the processes of a fleet."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos.roles import Role, faketime, play

MARK = "TAKEUP_CHAOS_RUN"
STOP_S = 10.0

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["tests.chaos.roles", "asyncpg"])


class Exec:
    """A process that is started as a command, for what must be so from its very beginning."""

    def __init__(self, role: Role) -> None:
        self._role = role

    def start(self) -> None:
        environment = {**os.environ, **self._role.environment, **faketime(self._role.clock_h)}
        argv = [sys.executable, "-m", "tests.chaos.roles", pickle.dumps(self._role).hex()]
        self._child = subprocess.Popen(argv, env=environment)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exitcode(self) -> int | None:
        return self._child.poll()

    def join(self, timeout_s: float | None = None) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout_s)


class Fleet:
    """Processes that come back when they are killed, each time under a new name."""

    def __init__(self, folder: Path, roles: list[Role], random: Random) -> None:
        self.folder = folder
        self.mark = f"{folder.name}-{os.getpid()}-{time.monotonic_ns()}"
        self.random = random
        self.kills = 0
        self.stops = 0
        self._number = 0
        self._running: dict[str, tuple[Role, Any]] = {}
        self._stopped: dict[str, float] = {}
        for role in roles:
            self.start(role)

    def start(self, role: Role) -> str:
        """Start a process; answers with its name."""
        self._number += 1
        name = role.name or f"{role.kind}-{self._number}"
        environment = {**role.environment, MARK: self.mark, "PYTHONPATH": str(Path(__file__).parents[2])}
        told = replace(role, name=name, environment=environment)
        process: Any = Exec(told) if role.clock_h else context.Process(target=play, args=(told,))
        process.start()
        self._running[name] = role, process
        return name

    def names(self, kind: str = "") -> list[str]:
        return [name for name, (role, _) in self._running.items() if role.kind.startswith(kind)]

    def kill(self, name: str, *, restart: bool = True) -> None:
        """kill -9, and a new one in its place."""
        role, process = self._running.pop(name)
        self._stopped.pop(name, None)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        self.kills += 1
        if restart:
            self.start(replace(role, crash=""))

    def freeze(self, name: str, seconds: float) -> None:
        """SIGSTOP the process alone; it is resumed later by `thaw`."""
        os.kill(self._running[name][1].pid, signal.SIGSTOP)
        self._stopped[name] = time.monotonic() + seconds
        self.stops += 1

    def thaw(self, *, now: bool = False) -> None:
        for name, until in list(self._stopped.items()):
            if now or until <= time.monotonic():
                del self._stopped[name]
                os.kill(self._running[name][1].pid, signal.SIGCONT)

    def is_frozen(self, name: str) -> bool:
        return name in self._stopped

    def revive(self) -> list[str]:
        """Start again whoever died by itself, at a crash point; answers with their names."""
        dead = [name for name, (_, process) in self._running.items() if process.exitcode is not None]
        for name in dead:
            role, process = self._running.pop(name)
            assert process.exitcode == -signal.SIGKILL, (name, process.exitcode, self.tail(name))
            self.kills += 1
            self.start(replace(role, crash=""))
        return dead

    def stop(self) -> None:
        """SIGTERM to all; every one must end by itself, in time and well."""
        self.thaw(now=True)
        for _, process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for name, (_, process) in self._running.items():
            process.join(max(deadline - time.monotonic(), 0.1))
            was_young = process.exitcode == -signal.SIGTERM and not self.tail(name)
            assert process.exitcode == 0 or was_young, (name, process.exitcode, self.tail(name))
        self._running.clear()

    def close(self) -> None:
        """After a failure: leave nothing behind."""
        for _, process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.join()
        self._running.clear()

    def tail(self, name: str) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / f"{name}.log").read_text()[-3000:]
        return ""

    def survivors(self) -> list[str]:
        """Processes of this run that are still there; all of them inherited its mark."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if wanted in (entry / "environ").read_bytes():
                        found.append(f"{entry.name}: {(entry / 'cmdline').read_bytes()!r}")
        return found
