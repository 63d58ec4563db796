"""Marks: a job says over a socket when its body started, by the clock that all processes share."""

import asyncio
import functools
import socket
import tempfile
import time
from pathlib import Path

MOMENT_BYTES = 8


@functools.cache
def _sender() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def mark_start(address: str) -> None:
    """The body of a job whose start is measured."""
    moment_ns = time.monotonic_ns()
    _sender().sendto(moment_ns.to_bytes(MOMENT_BYTES), address)


class Marks:
    """Where the jobs' marks arrive."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="takeup-marks-", dir="/tmp")
        self.address = str(Path(self._folder.name) / "marks")
        self._receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._receiver.bind(self.address)
        self._receiver.settimeout(0)

    async def wait(self, timeout_s: float) -> int:
        """When the next job's body started, in nanoseconds."""
        receive = asyncio.get_running_loop().sock_recv(self._receiver, MOMENT_BYTES)
        return int.from_bytes(await asyncio.wait_for(receive, timeout_s))

    def close(self) -> None:
        self._receiver.close()
        self._folder.cleanup()
