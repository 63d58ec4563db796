"""The runner's end of the line to its worker: frames out, orders in, questions answered."""

import itertools
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from takeup.engine.wire import Decoder, Frame, encode

READ_BYTES = 1 << 18
ANSWER_TIMEOUT_S = 60.0


class Channel:
    """One socket; any thread may send, one thread of its own reads."""

    def __init__(self, line: socket.socket) -> None:
        """Use this end of a socket pair."""
        self._line = line
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}

    def send(self, frame: Frame) -> None:
        """Send a frame; a worker that is gone takes this process with it."""
        data = encode(frame)
        with self._sending:
            self._line.sendall(data)

    def ask(self, question: Frame) -> Any:
        """Ask the worker and wait for its answer; not to be called from the reading thread."""
        number = next(self._numbers)
        answer: Future[Any] = Future()
        self._waiting[number] = answer
        try:
            self.send({"op": "ask", "n": number, **question})
            return answer.result(ANSWER_TIMEOUT_S)
        except TimeoutError:
            raise TimeoutError(f"the worker did not answer within {ANSWER_TIMEOUT_S:.0f} s") from None
        finally:
            self._waiting.pop(number, None)

    def listen(self, obey: Callable[[list[Frame]], None], end: Callable[[], None]) -> None:
        """Start the reading thread: answers go to who asked, everything else to `obey`."""
        threading.Thread(target=self._read, args=(obey, end), daemon=True, name="takeup-channel").start()

    def receive(self) -> Frame | None:
        """The first frame, before anybody listens; None if the worker is gone."""
        decoder = Decoder()
        while data := self._line.recv(READ_BYTES):
            frames = decoder.feed(data)
            if frames:
                return frames[0]
        return None

    def _read(self, obey: Callable[[list[Frame]], None], end: Callable[[], None]) -> None:
        decoder = Decoder()
        try:
            while data := self._line.recv(READ_BYTES):
                orders = []
                for frame in decoder.feed(data):
                    if frame["op"] == "answer":
                        self._resolve(frame)
                    else:
                        orders.append(frame)
                if orders:
                    obey(orders)
        finally:
            end()

    def _resolve(self, frame: Frame) -> None:
        answer = self._waiting.get(frame["n"])
        if answer is None:
            return
        if "error" in frame:
            answer.set_exception(RuntimeError(frame["error"]))
        else:
            answer.set_result(frame["value"])
