"""Real servers and their workers, as the processes that people start, to be killed and begun again."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Self

from tests.cli.conftest import environment
from tests.machines import Machine
from tests.small_disk import SmallDisk

TAKEUP = (sys.executable, "-m", "takeup.cli.main")
WAIT_S = 60.0
LOOK_S = 0.02
LISTENING = "] listening "


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Process:
    """A command in a folder; what it says is kept in NAME.log there."""

    def __init__(self, folder: Path, name: str, *arguments: object, **variables: str) -> None:
        self.folder, self._name = folder, name
        self.prefix: list[str] = []
        self.environment = environment(**variables)
        self._command = [*TAKEUP, *map(str, arguments)]
        self._running: subprocess.Popen[bytes] | None = None

    def on(self, place: Machine | SmallDisk) -> Self:
        """Run there instead of here."""
        self.prefix = place.prefix
        return self

    def start(self) -> None:
        with (self.folder / f"{self._name}.log").open("a") as said:
            self._running = subprocess.Popen(
                [*self.prefix, *self._command],
                cwd=self.folder,
                env=self.environment,
                stdout=said,
                stderr=said,
            )

    @property
    def said(self) -> str:
        file = self.folder / f"{self._name}.log"
        return file.read_text() if file.exists() else ""

    @property
    def has_ended(self) -> bool:
        return self._running is None or self._running.poll() is not None

    def kill(self) -> None:
        """kill -9."""
        assert self._running
        assert self._running.poll() is None, self.said[-3000:]
        os.kill(self._running.pid, signal.SIGKILL)
        self._running.wait()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """SIGSTOP meanwhile."""
        assert self._running
        os.kill(self._running.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._running.pid, signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM twice: finish what is under way in a moment."""
        if self._running is None or self._running.poll() is not None:
            return
        for _ in range(2):
            self._running.terminate()
        try:
            self._running.wait(WAIT_S)
        finally:
            if self._running.poll() is None:
                self._running.kill()
                self._running.wait()


class Server(Process):
    """`takeup serve` on a fixed port, which runs only what needs its disk."""

    def __init__(
        self,
        folder: Path,
        url: str,
        *arguments: object,
        name: str = "server",
        port: int = 0,
        **variables: str,
    ) -> None:
        self.port = port or free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        own = ["serve", "--workers", 0, "--port", self.port, "--database", url]
        variables = {"TAKEUP_RECOVERY_INTERVAL": "0.5", **variables}
        super().__init__(folder, name, *own, *arguments, **variables)

    def start(self) -> None:
        """Return when it takes connections."""
        before = self.said.count(LISTENING)
        super().start()
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            if self.said.count(LISTENING) > before:
                return
            assert not self.has_ended, self.said[-3000:]
            time.sleep(LOOK_S)
        raise AssertionError("the server did not start")

    async def come_back(self) -> float:
        """kill -9 and begin again; for how long it was away."""
        began = time.monotonic()
        await asyncio.to_thread(self.kill)
        await asyncio.to_thread(self.start)
        return time.monotonic() - began


class RemoteWorker(Process):
    """`takeup work --server`, with a folder of its own and nothing else."""

    def __init__(self, folder: Path, servers: str, key: str, *arguments: object, name: str) -> None:
        own = ["work", "--server", servers, "--data", folder / name]
        variables = {"TAKEUP_WORKER_API_KEY": key, "TAKEUP_WORKER_CLAIM_WAIT": "2"}
        super().__init__(folder, name, *own, *arguments, **variables)


@contextlib.asynccontextmanager
async def running(*processes: Process) -> AsyncIterator[None]:
    """They run meanwhile, beside whatever else this process does."""
    try:
        await asyncio.gather(*(asyncio.to_thread(process.start) for process in processes))
        yield
    finally:
        await asyncio.gather(*(asyncio.to_thread(process.stop) for process in processes))
