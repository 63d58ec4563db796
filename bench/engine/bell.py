"""The bell: a job says over a socket when its body started, by the clock that all processes share."""

import asyncio
import functools
import socket
import tempfile
import time
from pathlib import Path

MOMENT_BYTES = 8


@functools.cache
def _mouth() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def ring(address: str) -> None:
    """The body of a job whose start is measured."""
    moment_ns = time.monotonic_ns()
    _mouth().sendto(moment_ns.to_bytes(MOMENT_BYTES), address)


class Bell:
    """Where the jobs ring."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="takeup-bell-", dir="/tmp")
        self.address = str(Path(self._folder.name) / "bell")
        self._ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._ear.bind(self.address)
        self._ear.settimeout(0)

    async def wait(self, timeout_s: float) -> int:
        """When the next job's body started, in nanoseconds."""
        hear = asyncio.get_running_loop().sock_recv(self._ear, MOMENT_BYTES)
        return int.from_bytes(await asyncio.wait_for(hear, timeout_s))

    def close(self) -> None:
        self._ear.close()
        self._folder.cleanup()
