"""What a system must offer to be measured, and the worker process that it starts."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

ROOT = Path(__file__).parents[2]
URL_VARIABLE = "TAKEUP_BENCH_URL"
"""How the scripts in apps/ learn where their queue is."""

STOP_TIMEOUT_S = 15
DRAIN_TIMEOUT_S = 180
POLL_S = 1.0
LOG_TAIL_BYTES = 4_000

Home = Literal["postgres", "sqlite", "redis", "redis-durable"]
"""Where a queue lives. Made anew for every turn: an empty database, a folder, a Redis server."""


class System(Protocol):
    """One contender's turn: prepare, load, start_worker, wait_done, many enqueue_one, stop."""

    async def prepare(self, url: str) -> None:
        """Make the schema in an empty home, and open what enqueues."""

    async def load(self, count: int) -> None:
        """Enqueue so many no-op jobs; no worker runs yet."""

    async def start_worker(self) -> None:
        """Start one worker as its documentation tells, in a process of its own; it need not be ready yet."""

    async def wait_done(self, count: int) -> list[float]:
        """Wait until so many no-ops are recorded as done. Answers when each was, in seconds, in order."""

    async def enqueue_one(self, address: str) -> None:
        """Enqueue one job whose body is `mark_start(address)`."""

    async def stop(self) -> None:
        """Stop the worker and close everything; called also when the turn failed half way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A row of the tables."""

    system: str
    variant: str = ""
    batch: int | None = None
    """How many jobs it claims at once, if it can claim several."""
    home: Home
    is_durable: bool = True
    """Whether a job that it said is enqueued or done survives a power cut."""
    open: Callable[[], System]
    count: int
    """No-op jobs a turn: a few seconds of work."""
    quick_count: int

    @property
    def name(self) -> str:
        return "-".join(filter(None, (self.system, self.variant, str(self.batch or ""))))


class WorkerError(Exception):
    """A worker ended early or did not finish its jobs in time; the end of its log is the message."""


class WorkerProcess:
    """A worker in a process group of its own, that ends when we do."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        # setpriv becomes the program it starts, so the pid we see is the worker's own.
        bound = ["setpriv", "--pdeathsig=TERM", *argv]
        self._child = subprocess.Popen(
            bound,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **env},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def check(self) -> None:
        if self._child.poll() is not None:
            raise WorkerError(f"the worker ended with {self._child.returncode}:\n{self.log_tail()}")

    def log_tail(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), LOG_TAIL_BYTES, max(0, size - LOG_TAIL_BYTES)).decode()

    async def stop(self) -> None:
        """Ask it to stop; what is left of its group then or after a while is killed."""
        self._child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._child.wait, STOP_TIMEOUT_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        await asyncio.to_thread(self._child.wait)
        self._log.close()


def command(name: str) -> str:
    """A command that a package installed beside this Python."""
    return str(Path(sys.executable).with_name(name))


async def wait_for_count(count: int, ask: Callable[[], Awaitable[int]], worker: WorkerProcess) -> None:
    """Ask now and then, seldom enough to cost nothing: moments are recorded by the systems themselves."""
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while (done := await ask()) < count:
        worker.check()
        if time.monotonic() > deadline:
            raise WorkerError(f"{done} of {count} jobs done in {DRAIN_TIMEOUT_S} s:\n{worker.log_tail()}")
        await asyncio.sleep(POLL_S)
