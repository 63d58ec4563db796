"""A transcode of which somebody is killed, again and again, at chosen points of its progress."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

from takeup.child.below import kill_with_all_below, processes_below
from tests.cli.conftest import environment
from tests.processes import environment_mark

SLOTS = 2
CUT_SHORT = {"all": SLOTS, "main": SLOTS, "guardian": SLOTS, "runner": 1, "ffmpeg": 1}
"""Who is killed, and how many tasks that can end: one in each slot, or that of one process."""
LATER_S = 0.3
LOOK_S = 0.005
WAIT_S = 120.0

Running = subprocess.Popen[bytes]


class Storm:
    """Runs the command, kills whom the dice say, and runs it again where nothing of it is left.

    A kill comes when so many tasks are done, and a random moment later: so all of them come before the
    end, however fast the machine is.
    """

    def __init__(self, folder: Path, arguments: list[str], seed: int) -> None:
        self._folder = folder
        self._command = [sys.executable, "-m", "takeup.cli.main", *arguments, "--workers", str(SLOTS)]
        self._random = random.Random(seed)
        self.killed: list[str] = []

    def rage(self, kills: int, tasks: int) -> None:
        """Kill so often, spread over so many tasks; then let it come to its end."""
        kinds = list(CUT_SHORT)
        victims = [kinds[number % len(kinds)] for number in range(kills)]
        self._random.shuffle(victims)
        points = sorted(self._random.choices(range(tasks), k=kills))
        running = self._start()
        try:
            for victim, done in zip(victims, points, strict=True):
                self._wait_for(running, done)
                self._kill(running, victim)
                self.killed.append(victim)
                if victim in ("all", "main"):
                    running.wait(WAIT_S)
                    running = self._start()
            assert running.wait(WAIT_S) == 0
        finally:
            if running.poll() is None:
                kill_with_all_below(running.pid)
            running.wait(WAIT_S)

    def _start(self) -> Running:
        env = environment(**environment_mark(self._folder))
        quiet = subprocess.DEVNULL
        return subprocess.Popen(self._command, cwd=self._folder, env=env, stdout=quiet, stderr=quiet)

    def _wait_for(self, running: Running, done: int) -> None:
        end = time.monotonic() + WAIT_S
        while self.done() < done:
            assert running.poll() is None, f"it ended before {done} tasks were done"
            assert time.monotonic() < end, f"{done} tasks were not done in time"
            time.sleep(LOOK_S)
        time.sleep(self._random.uniform(0, LATER_S))

    def _kill(self, running: Running, victim: str) -> None:
        assert running.poll() is None, f"it ended before the kill of {victim}"
        if victim == "all":
            kill_with_all_below(running.pid)
        elif victim == "main":
            os.kill(running.pid, signal.SIGKILL)
        else:
            self._kill_one_below(running, victim)

    def _kill_one_below(self, running: Running, victim: str) -> None:
        """Wait until there is such a process, for a tool may just have ended, and kill it."""
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            for pid in [one for one in processes_below(running.pid) if kind_of(one) == victim]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return
            assert running.poll() is None, f"it ended before there was a {victim} to kill"
            time.sleep(LOOK_S)
        raise AssertionError(f"there was no {victim} to kill")

    @property
    def cut_short(self) -> int:
        """How many tasks the kills can have ended."""
        return sum(CUT_SHORT[victim] for victim in self.killed)

    def done(self) -> int:
        """How many tasks are done."""
        with suppress(sqlite3.OperationalError):  # nothing is there yet
            return int(ask(self._folder, "SELECT count(*) FROM tasks WHERE status = 'DONE'")[0][0])
        return 0

    def repeated(self) -> int:
        """How many tasks were begun in vain."""
        ((claims, tasks),) = ask(
            self._folder,
            "SELECT (SELECT count(*) FROM audit WHERE noun = 'task' AND event = 'claim'),"
            " (SELECT count(*) FROM tasks)",
        )
        return int(claims) - int(tasks)


def ask(folder: Path, question: str) -> list[tuple[int | str, ...]]:
    """Rows of the database of the runs in this folder."""
    file = folder / "takeup-data" / "takeup.db"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return connection.execute(question).fetchall()


def kind_of(pid: int) -> str:
    """What a process below the command is; a tool counts once it runs, not while it is launched."""
    with suppress(OSError):
        if Path(f"/proc/{pid}/comm").read_text().startswith("ffmpeg"):
            return "ffmpeg"
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
        if "takeup.engine.runner" in words:
            return "runner"
        if any(word.endswith("guardian.py") for word in words):
            return "guardian"
    return ""
