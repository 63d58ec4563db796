"""`takeup serve` as a process of its own: on a port that stays, killed and begun again as a test wants."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.cli.conftest import environment
from tests.small_disk import SmallDisk

WAIT_S = 60.0
LOOK_S = 0.02
ASK = """import json, sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=30) as connection:
    print(json.dumps(connection.execute(sys.argv[2]).fetchall()))
"""
COMMAND = [sys.executable, "-m", "takeup.cli.main"]


class Server:
    """One server in a folder; what it logs lies beside its data."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        disk: SmallDisk | None = None,
        data: Path | None = None,
        database: str | None = None,
        **settings: object,
    ) -> None:
        """`disk` is one that only the server sees; `data` is its folder, on that or beside it."""
        self.folder = folder
        self.data = data or folder / "data"
        self.log = folder / "server.log"
        self._disk = disk
        self._before = disk.entering if disk else []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._options = [*options, "--port", str(self.port), "--data", str(self.data)]
        self._options += ["--database", database] if database else []
        self._file = Path(database.removeprefix("sqlite:///")) if database else self.data / "takeup.db"
        named = {f"TAKEUP_{name.upper()}": str(value) for name, value in settings.items()}
        self.environment = environment(TAKEUP_LOG_FORMAT="json", no_proxy="*", **named)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin, and wait until it answers."""
        with self.log.open("ab") as said:
            self.process = subprocess.Popen(
                [*self._before, *COMMAND, "serve", *self._options],
                cwd=self.folder,
                env=self.environment,
                stdout=said,
                stderr=said,
            )
        until(self._answers, "the server answers", self.process)

    def _answers(self) -> bool:
        try:
            return httpx2.get(f"{self.address}/health", trust_env=False, timeout=2).is_success
        except httpx2.HTTPError:
            return False

    def kill(self) -> None:
        """As hard as it goes."""
        assert self.process
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Hand everything back and end."""
        if self.process is not None and self.process.poll() is None:
            for _ in range(2):
                self.process.send_signal(signal.SIGTERM)
            self.process.wait(WAIT_S)

    def key(self, role: str = "operator") -> str:
        """A key that opens it."""
        return self.run("keys", "create", "mine", "--role", role).strip()

    def run(self, *command: str) -> str:
        """What another command says to the same database; it must end well."""
        told = subprocess.run(
            [*self._before, *COMMAND, *command, *self._options[self._options.index("--data") :]],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert told.returncode == 0, told.stdout + told.stderr
        return told.stdout

    def client(self, key: str) -> httpx2.Client:
        """Who calls it with a key."""
        headers = {"Authorization": f"Bearer {key}"}
        return httpx2.Client(base_url=self.address, headers=headers, trust_env=False, timeout=WAIT_S)

    def seen(self, path: Path) -> Path:
        """A file of the server, as the test reaches it."""
        return self._disk.seen(path) if self._disk else path

    @property
    def files(self) -> list[str]:
        """The files of uploads."""
        folder = self.seen(self.data / "uploads")
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What stands in its embedded database."""
        asked = subprocess.run(
            [*self._before, sys.executable, "-c", ASK, str(self._file), query],
            capture_output=True,
            check=True,
            timeout=WAIT_S,
        )
        return [tuple(row) for row in json.loads(asked.stdout)]

    def lines(self) -> list[dict[str, Any]]:
        """What it logged."""
        told = re.findall(rb"^\{.*\}$", self.log.read_bytes(), re.MULTILINE)
        return [json.loads(line) for line in told]


def until(holds: Any, words: str, process: subprocess.Popen[bytes] | None = None) -> Any:
    """Wait until this is true, and answer with it."""
    end = time.monotonic() + WAIT_S
    while not (found := holds()):
        assert process is None or process.poll() is None, f"the server ended before: {words}"
        assert time.monotonic() < end, f"it never came true: {words}"
        time.sleep(LOOK_S)
    return found


@contextmanager
def running(server: Server) -> Iterator[Server]:
    """Started, and stopped at the end."""
    try:
        server.start()
        yield server
    finally:
        server.stop()
