"""Commands that a stage runs: each in a group of its own, killed with its task, recorded with last words."""

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TAIL_BYTES = 64 * 1024
READ_BYTES = 1 << 16
LINE_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Step:
    """A command that ended; the outputs are their last 64 KiB."""

    command: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    duration_ms: int


class StepFailed(Exception):
    """A command ended with another exit code than 0."""

    def __init__(self, step: Step) -> None:
        """Say how it ended and what it said last."""
        code = step.exit_code
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        last = (step.stderr or step.stdout).strip().splitlines()[-3:]
        super().__init__(f"{step.command[0]} {how}" + (": " + " / ".join(last) if last else ""))
        self.step = step


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


async def run_command(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
) -> Step:
    """Run a command to its end; if the caller is cancelled, its whole group is killed first."""
    argv = tuple(str(part) for part in command)
    if not argv:
        raise ValueError("a step needs a command")
    if shutil.which(argv[0], path=(env or os.environ).get("PATH")) is None:
        raise FileNotFoundError(f"the command {argv[0]!r} is not installed or not on PATH")
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *_dying_with_us(argv),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd,
        env=None if env is None else {**os.environ, **env},
        process_group=0,
    )
    out, err = Tail(on_line), Tail(on_line)
    try:
        await asyncio.gather(_drain(process.stdout, out), _drain(process.stderr, err))
        code = await process.wait()
    except BaseException:
        kill_group(process.pid)
        await asyncio.shield(process.wait())
        raise
    kill_group(process.pid)  # what the command left behind in its group
    duration_ms = int((time.monotonic() - begun) * 1000)
    return Step(argv, code, out.text(), err.text(), duration_ms)


def kill_group(group: int) -> None:
    """Kill a process group, if there is anybody left in it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


async def _drain(stream: asyncio.StreamReader | None, tail: Tail) -> None:
    while stream is not None and (data := await stream.read(READ_BYTES)):
        tail.add(data)


def _dying_with_us(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Let the kernel kill the command should this process die without a chance to do it."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--", *argv) if setpriv else argv
