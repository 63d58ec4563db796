"""A transcode whose processes are killed one after the other, whole groups at once or one of them."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

from tests.cli.conftest import environment

VICTIMS = ("group", "main", "runner", "ffmpeg")
PAUSE_S = (0.6, 2.5)
WAIT_S = 120.0


class Storm:
    """Runs the command again and again; each time somebody dies at a random moment."""

    def __init__(self, folder: Path, arguments: list[str], seed: int) -> None:
        self._folder = folder
        self._command = [sys.executable, "-m", "takeup.cli.main", *arguments]
        self._random = random.Random(seed)
        self.killed: list[str] = []
        self.cut_short = 0
        """How many tasks the kills can have ended: one a slot, or that of one process."""

    def rage(self, kills: int, least: int) -> None:
        """Kill so often, then let it come to its end; it may come to it before, but not at once."""
        while len(self.killed) < kills and self._run_and_kill():
            pass
        assert len(self.killed) >= least
        with self._start() as running:
            assert running.wait(WAIT_S) == 0

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self._command,
            cwd=self._folder,
            env=environment(),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _run_and_kill(self) -> bool:
        """False if there was nothing left to be killed."""
        with self._start() as running:
            try:
                running.wait(self._random.uniform(*PAUSE_S))
            except subprocess.TimeoutExpired:
                self._kill(running, self._random.choice(VICTIMS))
                return True
        return False

    def _kill(self, running: "subprocess.Popen[bytes]", victim: str) -> None:
        """One process may die and the others go on; then the rest is killed a little later."""
        self.killed.append(victim)
        if victim == "main":
            os.kill(running.pid, signal.SIGKILL)
        elif victim in ("runner", "ffmpeg"):
            for pid in processes_of(running.pid, victim)[:1]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.cut_short += 1
            time.sleep(self._random.uniform(*PAUSE_S))
        self.cut_short += os.cpu_count() or 1
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait(WAIT_S)

    def repeated(self) -> int:
        """How many attempts were made in vain."""
        with closing(sqlite3.connect(self._folder / "takeup-data" / "takeup.db")) as connection:
            ((tasks, attempts),) = connection.execute("SELECT count(*), sum(attempt) FROM tasks").fetchall()
        return int(attempts - tasks)


def processes_of(pid: int, word: str) -> list[int]:
    """The processes below this one whose command has the word."""
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        with suppress(OSError):
            for thread in Path(f"/proc/{parent}/task").iterdir():
                waiting += map(int, (thread / "children").read_text().split())
            if word in Path(f"/proc/{parent}/cmdline").read_text(errors="replace"):
                found.append(parent)
    return [one for one in found if one != pid]
