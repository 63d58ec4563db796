"""The runner's end of the line to its worker: frames out, orders in, questions answered."""

import asyncio
import itertools
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from takeup.core.signals import Retry
from takeup.engine.wire import Decoder, Frame, encode

READ_BYTES = 1 << 18
ANSWER_TIMEOUT_S = 3600.0
"""The worker asks as long as it trusts the lease, and the guardian ends whoever is asked for no more."""


Obey = Callable[[list[Frame]], None]


class Channel:
    """One socket; any thread may send, only the event loop's reads."""

    def __init__(self, line: socket.socket) -> None:
        """Use this end of a socket pair."""
        self._line = line
        self._decoder = Decoder()
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._reader: int | None = None
        self._orders: list[Frame] = []

    def send(self, frame: Frame) -> None:
        """Send a frame; a worker that is gone takes this process with it."""
        data = encode(frame)
        with self._sending:
            self._line.sendall(data)

    def ask(self, question: Frame) -> Any:
        """Ask the worker and wait for its answer: in the event loop by reading on, else until it was read."""
        number = next(self._numbers)
        answer: Future[Any] = Future()
        self._waiting[number] = answer
        try:
            self.send({"op": "ask", "n": number, **question})
            if threading.get_ident() != self._reader:
                return answer.result(ANSWER_TIMEOUT_S)
            self._read_until(answer)
            return answer.result(0)
        except TimeoutError:
            raise TimeoutError(f"the worker did not answer within {ANSWER_TIMEOUT_S:.0f} s") from None
        finally:
            self._waiting.pop(number, None)

    def receive(self) -> Frame | None:
        """The first frame, before anybody listens; None if the worker is gone."""
        while data := self._line.recv(READ_BYTES):
            frames = self._decoder.feed(data)
            if frames:
                return frames[0]
        return None

    def listen(self, obey: Obey, end: Callable[[], None]) -> None:
        """Let the running event loop read: answers go to who asked, orders to `obey`."""
        self._obey, self._end = obey, end
        self._loop = asyncio.get_running_loop()
        self._reader = threading.get_ident()
        self._loop.add_reader(self._line, self._read_and_obey)

    def _read_and_obey(self) -> None:
        self._read()
        self._obey_all()

    def _obey_all(self) -> None:
        """In the order they came, however they were read."""
        orders, self._orders = self._orders, []
        if orders:
            self._obey(orders)

    def _read(self) -> None:
        """Resolve the answers that came, and keep the orders."""
        try:
            data = self._line.recv(READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
        for frame in self._decoder.feed(data):
            if frame["op"] == "answer":
                self._resolve(frame)
            else:
                self._orders.append(frame)

    def _read_until(self, answer: Future[Any]) -> None:
        """Read while the event loop cannot; orders that come meanwhile are obeyed when it can again."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while not answer.done() and (left_s := deadline - time.monotonic()) > 0:
            if select.select([self._line], [], [], left_s)[0]:
                self._read()
        if self._orders:
            self._loop.call_soon(self._obey_all)

    def _resolve(self, frame: Frame) -> None:
        answer = self._waiting.get(frame["n"])
        if answer is None:
            return
        if frame.get("errno"):
            answer.set_exception(OSError(frame["errno"], frame["error"]))
        elif frame.get("is_away"):  # what could not be brought is no fault of who asked for it
            answer.set_exception(Retry(frame["error"]))
        elif "error" in frame:
            answer.set_exception(RuntimeError(frame["error"]))
        else:
            answer.set_result(frame["value"])
