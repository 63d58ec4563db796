"""What `takeup watch` does: a small server over media/serving.py, with a bounded number of threads."""

import argparse
import asyncio
import contextlib
import ipaddress
import socket
import sys
import threading
import webbrowser
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from takeup.cli.printing import line
from takeup.cli.progress import say
from takeup.cli.signals import stop_on_signal
from takeup.core.errors import InvalidInput, TakeupError
from takeup.media import serving
from takeup.media.package import MASTER

THREADS_MAX = 64
WAIT_S = 30
"""A client that is silent for so long is let go."""
ROOM_S = 1
"""How long a new client waits for a thread before it is turned away."""


class NoStream(InvalidInput):
    """The folder holds nothing that could be played."""

    help = "Name a folder that `takeup transcode -o DIR` made, or one that holds such folders."


class CannotListen(TakeupError):
    """The address is taken, or not of this machine."""

    help = "Choose another one with --port or --host."


async def watch(options: argparse.Namespace) -> int:
    """Serve the folder until a signal."""
    folder: Path = options.folder
    try:
        has_streams = (folder / MASTER).is_file() or serving.packages(folder)
    except OSError as error:
        raise NoStream(f"{folder} cannot be read: {error.strerror}") from error
    if not has_streams:
        raise NoStream(f"there is no {MASTER} in {folder}")
    stop = asyncio.Event()
    with listen(folder, options.host, options.port) as server, stop_on_signal(stop.set):
        serving_thread = threading.Thread(target=server.serve_forever)
        serving_thread.start()
        try:
            line(server.address)
            sys.stdout.flush()
            say("Ctrl-C ends it")
            if options.open:
                webbrowser.open(server.address)
            await stop.wait()
        finally:
            server.shutdown()
            serving_thread.join()
    return 0


def listen(folder: Path, host: str, port: int) -> "Server":
    """A server of this folder, ready to be run."""
    try:
        return Server(folder.resolve(), host, port)
    except (OSError, OverflowError, UnicodeError) as error:
        raise CannotListen(f"cannot listen on {host} port {port}: {error}") from error


class Server(ThreadingHTTPServer):
    """One thread a connection, up to a number."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, folder: Path, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._room = threading.BoundedSemaphore(THREADS_MAX)
        self.host = host
        super().__init__((host, port), partial(Handler, folder))

    @property
    def address(self) -> str:
        """Where it is found."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_address[1]}/"

    def server_bind(self) -> None:
        """Without asking anybody for the name of this machine."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, if there is one."""
        if not self._room.acquire(timeout=ROOM_S):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started now
            self._room.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """As the base does it, and then there is room again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def is_for_us(self, host: str) -> bool:
        """Whether a request names this machine: a page of somebody else whose name leads here does not."""
        if not _is_loopback(self.host):
            return True
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        return name.strip("[]").lower() == "localhost" or _is_loopback(name.strip("[]"))


class Handler(BaseHTTPRequestHandler):
    """One connection; each request is answered by media/serving.py."""

    protocol_version = "HTTP/1.1"
    server_version = "takeup"
    sys_version = ""
    timeout = WAIT_S
    server: Server

    def __init__(self, folder: Path, *rest: Any) -> None:
        self._folder = folder
        super().__init__(*rest)

    def do_GET(self) -> None:
        """Send a file."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send what is known of a file."""
        self._answer(with_body=False)

    def log_message(self, *_: Any) -> None:
        """Not a line a piece."""

    def _answer(self, *, with_body: bool) -> None:
        if not self.server.is_for_us(self.headers.get("Host", "")):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        with contextlib.ExitStack() as stack:
            try:
                answer = serving.answer(self._folder, self.path, dict(self.headers.items()))
                file = stack.enter_context(answer.file.open("rb")) if answer.file else None
            except OSError:  # it went away meanwhile, or may not be read
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            if with_body and file and answer.length:
                sent = self.connection.sendfile(file, answer.start, answer.length)
                self.close_connection |= sent < answer.length  # it was cut meanwhile
            elif with_body:
                self.wfile.write(answer.body)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
