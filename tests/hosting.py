"""A server with its data in a folder, or on a small disk, and what a test asks of it from outside."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.serving import LOOK_S, TAKEUP, WAIT_S, Process, free_port
from tests.small_disk import SmallDisk

ASK = """import json, sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=30) as connection:
    print(json.dumps(connection.execute(sys.argv[2]).fetchall()))
"""


class Server(Process):
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
        self.data = data or folder / "data"
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._disk = disk
        self._options = [*options, "--port", str(self.port), "--data", str(self.data)]
        self._options += ["--database", database] if database else []
        self._file = Path(database.removeprefix("sqlite:///")) if database else self.data / "takeup.db"
        named = {f"TAKEUP_{name.upper()}": str(value) for name, value in settings.items()}
        named |= {"TAKEUP_LOG_FORMAT": "json", "no_proxy": "*"}
        super().__init__(folder, "server", "serve", *self._options, **named)
        if disk:
            self.on(disk)

    def start(self) -> None:
        """Begin, and wait until it answers."""
        super().start()
        until(self._answers, "the server answers", self)

    def _answers(self) -> bool:
        try:
            return httpx2.get(f"{self.address}/health", trust_env=False, timeout=2).is_success
        except httpx2.HTTPError:
            return False

    def key(self, role: str = "operator") -> str:
        """A key that opens it."""
        return self.run("keys", "create", "mine", "--role", role).strip()

    def run(self, *command: str) -> str:
        """What another command says to the same database; it must end well."""
        told = subprocess.run(
            [*self.prefix, *TAKEUP, *command, *self._options[self._options.index("--data") :]],
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
            [*self.prefix, sys.executable, "-c", ASK, str(self._file), query],
            capture_output=True,
            check=True,
            timeout=WAIT_S,
        )
        return [tuple(row) for row in json.loads(asked.stdout)]

    def lines(self) -> list[dict[str, Any]]:
        """What it logged."""
        told = re.findall(r"^\{.*\}$", self.said, re.MULTILINE)
        return [json.loads(line) for line in told]


def until(holds: Any, words: str, process: Process | None = None) -> Any:
    """Wait until this is true, and answer with it."""
    end = time.monotonic() + WAIT_S
    while not (found := holds()):
        assert process is None or not process.has_ended, f"the server ended before: {words}"
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
