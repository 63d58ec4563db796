"""Runs the application on a socket, inside our own event loop and with our own signals."""

import asyncio
import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from takeup.api.protocol import PatientProtocol
from takeup.core.errors import TakeupError
from takeup.telemetry.logs import logger

log = logger("api")

BACKLOG = 2048
IDLE_S = 65
CLOSE_S = 10
OWN_FILES = 256
"""What the server keeps open besides connections and what they send and fetch."""


class CannotListen(TakeupError):
    """The address cannot be had."""

    help = "Choose another one with --host and --port, or stop what uses it."


class _Server(uvicorn.Server):
    """Leaves the signals to the command that runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int) -> socket.socket:
    """A socket on this address; 0 is any free port."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
        # Told that it is TCP, asyncio lets no answer wait until a packet is full.
        opened = socket.socket(family, kind, protocol)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(address)
            opened.listen(BACKLOG)
        except OSError:
            opened.close()
            raise
    except OSError as error:
        raise CannotListen(f"{host}:{port} cannot be listened on: {error.strerror or error}") from error
    return opened


def room_for(connections: int) -> int:
    """How many of so many connections may be kept, each with a file; the system is asked for as much.

    By default a process may open far fewer files than it is allowed to ask for.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + OWN_FILES
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if 0 <= soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    room = min(connections, max((allowed - OWN_FILES) // 2, allowed // 4))
    if room < connections:
        log.info("fewer connections", kept=room, wanted=connections, help=f"raise ulimit -n to {wanted}")
    return room


async def serve(application: Any, opened: socket.socket, stop: asyncio.Event) -> None:
    """Answer until told to stop; then what is being answered is finished, within bounds.

    What the application runs beside its answers stands in its `state.beside`, how many it answers at a
    time in `state.connections_max`.
    """
    config = uvicorn.Config(
        application,
        http=PatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=room_for(application.state.connections_max),
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=CLOSE_S,
    )
    for name in ("uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).propagate = False  # what is wrong is in our own log, without secrets
        logging.getLogger(name).addHandler(logging.NullHandler())
    server = _Server(config)
    beside = [asyncio.create_task(run(stop)) for run in application.state.beside]
    running = asyncio.create_task(server.serve(sockets=[opened]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    server.should_exit = True
    stopping.cancel()
    await running
    await asyncio.gather(*beside)
