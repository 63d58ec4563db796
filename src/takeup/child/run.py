"""Runs a child to its end: in a group of its own, its last words kept, stopped when it hangs."""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from takeup.child.guard import Guard, dying_with_us
from takeup.child.reading import reading

TAIL_BYTES = 64 * 1024
READ_BYTES = 1 << 16
LINE_BYTES_MAX = 1 << 16
WATCH_S = 0.25

Stopped = Literal["", "stalled", "overdue"]


@dataclass(frozen=True, slots=True)
class Ended:
    """A child that ended; the outputs are their last 64 KiB."""

    command: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    duration_ms: int
    stopped: Stopped = ""
    """Why we ended it, if we did."""


class Watch:
    """How long a child may take in all, and how long without getting on, which its reader tells by `beat`."""

    def __init__(
        self,
        *,
        stall_s: float | None = None,
        wall_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """It begins now."""
        self.stall_s = stall_s
        self.wall_s = wall_s
        self._clock = clock
        self._at = self._begun = clock()
        self._is_held_up = False

    def beat(self) -> None:
        """It got on."""
        self._at = self._clock()

    @contextlib.contextmanager
    def held_up(self) -> Iterator[None]:
        """Meanwhile it cannot get on, through no fault of its own."""
        self._is_held_up = True
        try:
            yield
        finally:
            self.beat()
            self._is_held_up = False

    def verdict(self) -> Stopped:
        """Whether it has been silent or busy for too long."""
        if self._is_held_up:
            self.beat()
        now = self._clock()
        if self.stall_s is not None and now - self._at > self.stall_s:
            return "stalled"
        return "overdue" if self.wall_s is not None and now - self._begun > self.wall_s else ""


class Tail:
    """The last bytes of a stream, and its lines for whoever wants them."""

    def __init__(self, on_line: Callable[[str], None] | None = None) -> None:
        """Keep the last 64 KiB; call `on_line` for each line."""
        self._kept = bytearray()
        self._line = bytearray()
        self._on_line = on_line

    def add(self, data: bytes) -> None:
        """More of the stream."""
        self._kept += data
        if len(self._kept) > TAIL_BYTES:
            del self._kept[: len(self._kept) - TAIL_BYTES]
        if self._on_line is not None:
            self._line += data
            *lines, rest = bytes(self._line).replace(b"\r", b"\n").split(b"\n")
            self._line = bytearray(rest[-LINE_BYTES_MAX:])
            for line in lines:
                self._on_line(line.decode("utf-8", "replace"))

    def text(self) -> str:
        """What was kept, as text that any database can hold."""
        return bytes(self._kept).decode("utf-8", "replace").replace("\x00", "\N{REPLACEMENT CHARACTER}")


async def run_child(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    guard: Guard | None = None,
    stdout: IO[bytes] | None = None,
    on_line: Callable[[str], None] | None = None,
    watch: Watch | None = None,
) -> Ended:
    """Run a command to its end; if the caller is cancelled, its whole group is killed first.

    `env` is added to our environment; a guarded child gets nothing but that. With `stdout` its output goes to
    that file and is not kept.
    """
    watch = watch or Watch()
    argv = tuple(str(part) for part in command)
    if not argv:
        raise ValueError("a step needs a command")
    whole_env = {**({} if guard else os.environ), **(env or {})}
    found = shutil.which(argv[0], path=whole_env.get("PATH"))
    if found is None:
        raise FileNotFoundError(f"the command {argv[0]!r} is not installed or not on PATH")
    begun = time.monotonic()
    with reading(guard.sparse if guard else None, watch.held_up) as reads:
        line = reads.line.fileno() if reads else None
        process = await asyncio.create_subprocess_exec(
            *(guard.around((found, *argv[1:]), cwd, line) if guard else dying_with_us(argv)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout if stdout is not None else asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=cwd,
            env=whole_env,
            process_group=0,
            pass_fds=() if line is None else (line,),
        )
        if reads:
            reads.start()
        out, err = Tail(on_line), Tail(on_line)
        code, stopped = await _to_its_end(process, out, err, watch)
    duration_ms = int((time.monotonic() - begun) * 1000)
    code = guard.exit_code(code) if guard else code
    return Ended(argv, code, out.text(), err.text(), duration_ms, stopped)


async def _to_its_end(
    process: asyncio.subprocess.Process, out: Tail, err: Tail, watch: Watch
) -> tuple[int, Stopped]:
    """Read what a child says until it is gone; how it ended, and why we ended it, if we did."""
    watching = asyncio.create_task(_keep_watch(process.pid, watch))
    try:
        await asyncio.gather(_drain(process.stdout, out), _drain(process.stderr, err))
        code = await process.wait()
    except BaseException:
        kill_group(process.pid)
        await asyncio.shield(process.wait())
        raise
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    kill_group(process.pid)  # what the command left behind in its group
    return code, watching.result() if not watching.cancelled() else ""


def kill_group(group: int) -> None:
    """Kill a process group, if there is anybody left in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


async def _keep_watch(pid: int, watch: Watch) -> Stopped:
    while not (verdict := watch.verdict()):  # noqa: ASYNC110 - nobody tells us that nothing happens
        await asyncio.sleep(WATCH_S)
    kill_group(pid)
    return verdict


async def _drain(stream: asyncio.StreamReader | None, tail: Tail) -> None:
    while stream is not None and (data := await stream.read(READ_BYTES)):
        tail.add(data)
