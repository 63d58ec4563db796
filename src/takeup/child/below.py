"""A process and everything that was started below it, whatever sessions and groups these have made."""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

GONE_S_MAX = 10.0
LOOK_S = 0.005
LOOKS_MAX = 100


def processes_below(pid: int) -> list[int]:
    """The living processes that descend from this one, parents first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - only the names are wanted
        state, parent = _state_and_parent(int(name)) if name.isdigit() else ("", 0)
        if state and state not in "ZX":
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [pid]
    while waiting:
        below = children.pop(waiting.pop(0), [])
        found += below
        waiting += below
    return found


def kill_with_all_below(pid: int) -> list[int]:
    """Kill a process and all below it at once; answers with those it killed, when they are gone.

    They are stopped first: whoever is stopped starts nobody, and cannot see the end of another and act on it.
    """
    stopped: list[int] = []
    for _ in range(LOOKS_MAX):
        found = [one for one in (pid, *processes_below(pid)) if one not in stopped]
        if not found:
            break
        _send(found, signal.SIGSTOP)
        stopped += found
    _send(stopped, signal.SIGKILL)
    end = time.monotonic() + GONE_S_MAX
    while any(map(is_alive, stopped)) and time.monotonic() < end:
        time.sleep(LOOK_S)
    return stopped


def is_alive(pid: int) -> bool:
    """Whether there is such a process; one that only waits to be asked how it ended is none."""
    state, _ = _state_and_parent(pid)
    return state not in ("", "Z", "X")


def _state_and_parent(pid: int) -> tuple[str, int]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - asked of every process there is
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    return state.decode(), int(parent)


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
