"""The runner processes of a worker, started and ended through its guardian."""

import asyncio
import contextlib
import itertools
import json
import math
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from takeup.core.model import Brief
from takeup.engine import guardian
from takeup.engine.wire import Decoder, Frame, Start, encode, encode_starts
from takeup.telemetry.logs import logger

PRIVATE = (
    "TAKEUP_DATABASE_URL", "TAKEUP_REDIS_URL", "TAKEUP_WORKER_ADMIN_SECRET", "TAKEUP_WORKER_API_KEY",
    "DATABASE_URL", "PGPASSWORD",
)  # fmt: skip
"""What a runner's environment does not have: a stage has no business with the database."""
LINE_BYTES_MAX = 8192
SILENT_S = 30.0
"""How long an idle runner may live on when nothing is heard of its worker; moved on at half of it."""
GUARDIAN_END_S = 1.5
EXTEND_S = 1.0
"""So little longer is not worth waking the guardian, unless it is half of what a runner has left."""
START_PAUSE_S, START_PAUSE_S_MAX = 0.5, 30.0
"""How long to wait before a runner is replaced that died while it started; longer each time."""

log = logger("runners")


@dataclass(eq=False)
class Runner:
    """One runner process."""

    number: int
    capacity: int
    channel: asyncio.Transport | None = None
    tasks: set[tuple[int, int]] = field(default_factory=set)
    """Task and epoch of what it was given and has not ended."""
    pid: int | None = None
    is_ready: bool = False
    is_ending: bool = False
    is_ordered: bool = False
    """Whether its end was our own order."""
    until: float | None = None
    fault: str = ""
    """Why it cannot be believed any more."""
    output: Any = field(default=None, repr=False)

    @property
    def free(self) -> int:
        """How many more tasks it takes."""
        return self.capacity - len(self.tasks) if self.is_ready and not self.is_ending else 0


@dataclass(frozen=True, slots=True)
class RunnerSetup:
    """What every runner of a worker is told when it starts."""

    sources: tuple[str, ...]
    storage: Path
    scratch: Path
    per_process: int = 1
    module: str = "takeup.engine.runner"
    """What a runner process runs; tests put crash points in by one of their own."""

    def frame(self) -> Frame:
        """As it is sent."""
        return {
            "op": "setup",
            "sources": list(self.sources),
            "storage": str(self.storage),
            "scratch": str(self.scratch),
            "threads": self.per_process,
        }


class Runners:
    """Keeps so many runners alive; tells the worker what they say and when one ended."""

    def __init__(
        self,
        setup: RunnerSetup,
        count: int,
        *,
        on_frame: Callable[[Runner, Frame], None],
        on_end: Callable[[Runner, str], None],
        on_line: Callable[[Runner, str], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Nothing starts before `start`."""
        self._setup = setup
        self._count = count
        self._on_frame, self._on_end, self._on_line = on_frame, on_end, on_line
        given = os.environ if environment is None else environment
        self._environment = {name: value for name, value in given.items() if name not in PRIVATE}
        self._numbers = itertools.count(1)
        self._control: socket.socket | None = None
        self._guardian: subprocess.Popen[bytes] | None = None
        self._is_closing = False
        self._orders: deque[tuple[bytes, list[int]]] = deque()
        self._start_pause_s = START_PAUSE_S
        self.all: dict[int, Runner] = {}
        self.pipelines: dict[str, Any] | None = None
        self.broken: Frame | None = None
        """Why the pipelines cannot be loaded, if so."""
        self.changed = asyncio.Event()
        """Set whenever a runner became ready or ended."""

    @property
    def free(self) -> int:
        """How many tasks the runners together would take now."""
        return sum(runner.free for runner in self.all.values())

    async def start(self) -> None:
        """Start the guardian and every runner."""
        self._start_guardian()
        for _ in range(self._count):
            self._start_runner()

    async def close(self) -> None:
        """End everything, the guardian last."""
        self._is_closing = True
        control, self._control = self._control, None
        if control is not None:
            asyncio.get_running_loop().remove_reader(control)
            control.close()  # the guardian ends its runners when the line is gone
        if self._guardian is not None:
            ended = asyncio.ensure_future(asyncio.to_thread(self._guardian.wait))
            done, _ = await asyncio.wait((ended,), timeout=GUARDIAN_END_S)
            if not done:
                self._guardian.kill()  # it is stuck; its runners die with it
            await ended
        for runner in list(self.all.values()):
            self._forget(runner)

    def give(self, runner: Runner, starts: Sequence[Start], jobs: Mapping[str, Brief], until: float) -> None:
        """Hand tasks to a runner that is killed at `until`, or earlier if it is not extended soon."""
        runner.tasks.update((start.task_id, start.epoch) for start in starts)
        if runner.until is None or runner.until > until:
            self._limit(runner, until)
        self._write(runner, encode_starts(starts, jobs))

    def tell(self, runner: Runner, frame: Frame) -> None:
        """Send a frame to a runner that may be gone."""
        self._write(runner, encode(frame))

    def _write(self, runner: Runner, data: bytes) -> None:
        if runner.channel is not None and not runner.channel.is_closing():
            runner.channel.write(data)

    def extend(self, runner: Runner, until: float | None, now: float) -> None:
        """Let the guardian kill this runner at that time; one that does nothing, if its worker falls silent.

        The guardian always knows a time, so a task that may live longer is begun without waking it first.
        """
        known = -math.inf if runner.until is None else runner.until
        if -math.inf < known <= now:
            return  # its guardian is ending it, for that very reason
        if until is None:
            if known < now + SILENT_S / 2:
                self._limit(runner, now + SILENT_S)
        elif until < known or until - known > min(EXTEND_S, max(known - now, 0.0) / 2):
            self._limit(runner, until)

    def _limit(self, runner: Runner, until: float) -> None:
        runner.until = until
        self._order({"op": "until", "id": runner.number, "at": until})

    def kill(self, runner: Runner, fault: str = "") -> None:
        """End a runner with everything it started; another one takes its place."""
        runner.is_ending = runner.is_ordered = True
        runner.fault = runner.fault or fault
        self._order({"op": "kill", "id": runner.number})

    def _hung_up(self, runner: Runner, fault: str) -> None:
        """A runner that said nonsense must end; one that says nothing more is dying by itself, or has to."""
        if fault:
            self.kill(runner, fault)
        elif not runner.is_ending:
            runner.is_ending = True
            self._order({"op": "kill", "id": runner.number})

    def _order(self, order: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        """Send an order; a guardian that does not listen just now gets it later, in turn."""
        self._orders.append((json.dumps(order).encode(), [os.dup(fd) for fd in fds]))
        self._send_orders()

    def _send_orders(self) -> None:
        loop = asyncio.get_running_loop()
        while self._orders and self._control is not None:
            data, fds = self._orders[0]
            try:
                socket.send_fds(self._control, [data], fds)
            except BlockingIOError:
                loop.add_writer(self._control, self._send_orders)
                return
            except OSError:
                return  # its end is noticed where it is read from
            self._orders.popleft()
            _close_all(fds)
        if self._control is not None:
            loop.remove_writer(self._control)

    def _start_guardian(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._guardian = subprocess.Popen(  # noqa: S603 - our own file
                [sys.executable, "-I", "-S", guardian.__file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=self._environment,
            )
        ours.setblocking(False)  # noqa: FBT003 - the library's own signature
        self._control = ours
        asyncio.get_running_loop().add_reader(ours, self._hear, ours)

    def _start_runner(self) -> None:
        if self._is_closing or (self.broken is not None and self.pipelines is None):
            return
        runner = Runner(next(self._numbers), self._setup.per_process)
        self.all[runner.number] = runner
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        with theirs:
            order = {
                "op": "start",
                "id": runner.number,
                "argv": [sys.executable, "-m", self._setup.module],
            }
            self._order(order, [theirs.fileno(), out_write])
        os.close(out_write)
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._connect(runner, ours, out_read))
        task.add_done_callback(
            lambda done: done.exception() and log.error("no line", error=str(done.exception()))
        )

    async def _connect(self, runner: Runner, ours: socket.socket, out_read: int) -> None:
        loop = asyncio.get_running_loop()
        runner.output, _ = await loop.connect_read_pipe(
            lambda: _Lines(lambda line: self._on_line(runner, line)), os.fdopen(out_read, "rb", 0)
        )
        channel, _ = await loop.connect_accepted_socket(
            lambda: _Frames(
                lambda frame: self._heard(runner, frame), lambda fault: self._hung_up(runner, fault)
            ),
            ours,
        )
        runner.channel = channel
        channel.write(encode(self._setup.frame()))

    def _heard(self, runner: Runner, frame: Frame) -> None:
        if runner.is_ready:
            self._on_frame(runner, frame)
        elif frame["op"] == "ready" and self.pipelines in (None, frame["pipelines"]):
            runner.is_ready = True
            self.pipelines, self.broken, self._start_pause_s = frame["pipelines"], None, START_PAUSE_S
            self.changed.set()
        elif frame["op"] == "ready":
            log.error("the pipelines are not those that the worker started with; restart the worker")
            self.kill(runner)
        elif frame["op"] == "broken":
            log.error("a runner cannot load the pipelines", error=frame["error"])
            self.broken = frame
            self.changed.set()

    def _hear(self, control: socket.socket) -> None:
        try:
            data = control.recv(guardian.MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self._lost_guardian(control)
            return
        event = json.loads(data)
        runner = self.all.get(event["id"])
        if runner is None:
            return
        if event["op"] == "started":
            runner.pid = event["pid"]
        elif event["op"] == "ended":
            self._ended(runner, describe(event["status"]))

    def _lost_guardian(self, control: socket.socket) -> None:
        """Without its guardian no runner lives on; start again with a new one."""
        asyncio.get_running_loop().remove_reader(control)
        control.close()
        self._control = None
        if self._is_closing:
            return
        log.error("the guardian of the runners died; all runners are started again")
        for runner in list(self.all.values()):
            if runner.pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(runner.pid, 9)
        if self._guardian is not None:
            self._guardian.kill()
            asyncio.get_running_loop().run_in_executor(None, self._guardian.wait)
        self._restart_guardian()
        for runner in list(self.all.values()):
            runner.is_ordered = True  # no fault of what ran in it
            self._ended(runner, "was killed together with its guardian")

    def _restart_guardian(self) -> None:
        for _, fds in self._orders:
            _close_all(fds)
        self._orders.clear()
        try:
            self._start_guardian()
        except OSError as error:
            log.exception("no new guardian yet", error=str(error))
            asyncio.get_running_loop().call_later(START_PAUSE_S, self._restart_guardian)

    def _ended(self, runner: Runner, how: str) -> None:
        self.all.pop(runner.number, None)
        self._on_end(runner, how)
        self._forget(runner)
        self.changed.set()
        if not self._is_closing:
            pause_s = 0.0 if runner.is_ready else self._start_pause_s
            if not runner.is_ready:
                self._start_pause_s = min(2 * self._start_pause_s, START_PAUSE_S_MAX)
            asyncio.get_running_loop().call_later(pause_s, self._start_runner)

    def _forget(self, runner: Runner) -> None:
        self.all.pop(runner.number, None)
        runner.is_ending = True
        for transport in (runner.channel, runner.output):
            if transport is not None:
                transport.close()


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def describe(status: int) -> str:
    """A wait status in words."""
    if os.WIFSIGNALED(status):
        return f"was killed by signal {os.WTERMSIG(status)}"
    return f"ended with exit code {os.waitstatus_to_exitcode(status)}"


class _Frames(asyncio.Protocol):
    """The frames of a runner; one that cannot be read, or the end of them, is the end of the runner."""

    def __init__(self, hear: Callable[[Frame], None], end: Callable[[str], None]) -> None:
        self._decoder = Decoder()
        self._hear = hear
        self._end = end

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._decoder.feed(data):
                self._hear(frame)
        except Exception as error:  # noqa: BLE001 - a runner runs foreign code and may say anything
            log.warning("a runner makes no sense", error=f"{type(error).__name__}: {error}")
            self._end(f"said what makes no sense: {type(error).__name__}")

    def connection_lost(self, _error: Exception | None) -> None:
        self._end("")


class _Lines(asyncio.Protocol):
    """What a runner prints, line by line."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        self._rest = b""
        self._hear = hear

    def data_received(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-LINE_BYTES_MAX:]
        for line in lines:
            self._hear(line[:LINE_BYTES_MAX].decode("utf-8", "replace"))
