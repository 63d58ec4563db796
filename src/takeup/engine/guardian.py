"""The guardian: a small process that starts a worker's runners and makes sure that they end.

Run as `python guardian.py FD`; it uses nothing but the standard library. It starts runners on order, each in
a session of its own. It ends a runner with everything that it started: on order, when the worker's trust in
its leases is over, and when the worker itself is gone, however that went. Orphans of runners become children
of the guardian (it is their subreaper), so that none of them gets away.

Orders come as JSON datagrams: {"op": "start", "id", "argv"} with two descriptors (the runner's socket,
its output), {"op": "until", "id", "at"} in seconds of the boot clock, {"op": "kill", "id"}. It answers
{"op": "started", "id", "pid"} and {"op": "ended", "id", "status"}.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MESSAGE_BYTES_MAX = 1 << 17
MARK = "TAKEUP_RUNNER"
"""Inherited by whatever a runner starts, so that an orphan still shows whose it is."""
RUNNER_FD = 3
SWEEPS_MAX = 50
SWEEP_PAUSE_S = 0.01


def now() -> float:
    """Seconds of a clock that runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Guardian:
    """The runners that are alive, by the number their worker gave them."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.name = f"{os.getpid()}-{time.monotonic_ns()}"
        self.runners: dict[int, int] = {}
        self.deadlines: dict[int, float] = {}
        self.prctl = ctypes.CDLL(None, use_errno=True).prctl

    def run(self) -> None:
        """Serve until the worker is gone."""
        self.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        os.set_blocking(wake_read, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(wake_read, select.POLLIN)
        try:
            while self.turn(poll, wake_read):
                pass
        finally:
            self.runners.clear()
            self.sweep()

    def turn(self, poll: select.poll, wake_read: int) -> bool:
        """Wait for an order, a child's end or a deadline; False when the worker is gone."""
        nearest = min(self.deadlines.values(), default=None)
        timeout = None if nearest is None else max(0.0, nearest - now()) * 1000 + 1
        ready = {fd for fd, _ in poll.poll(timeout)}
        if wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wake_read, 4096)
        if self.control.fileno() in ready and not self.obey():
            return False
        for number in [n for n, at in self.deadlines.items() if at <= now()]:
            self.kill(number)
        self.reap()
        return True

    def obey(self) -> bool:
        """Carry out one order; False at the end of orders."""
        try:
            data, fds, _, _ = socket.recv_fds(self.control, MESSAGE_BYTES_MAX, 2)
        except ConnectionResetError:
            return False
        if not data:
            return False
        order = json.loads(data)
        if order["op"] == "start":
            self.start(order, fds)
        elif order["op"] == "until":
            if order["id"] in self.runners and order["at"] is not None:
                self.deadlines[order["id"]] = order["at"]
            else:
                self.deadlines.pop(order["id"], None)
        elif order["op"] == "kill":
            self.kill(order["id"])
        for fd in fds:
            os.close(fd)
        return True

    def start(self, order: dict[str, object], fds: list[int]) -> None:
        """Fork a runner in a session of its own, which dies if the guardian does."""
        number, argv = int(str(order["id"])), list(order["argv"])  # type: ignore[call-overload]
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                self.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                if os.getppid() != parent:
                    os._exit(1)
                for known in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
                    signal.signal(known, signal.SIG_DFL)
                channel, output = (os.dup(fd) for fd in fds)
                for target, source in ((RUNNER_FD, channel), (1, output), (2, output)):
                    os.dup2(source, target)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.closerange(RUNNER_FD + 1, 1024)
                os.execve(argv[0], argv, {**os.environ, MARK: f"{self.name}.{number}"})  # noqa: S606 - what its worker ordered
            except BaseException as error:  # noqa: BLE001 - nothing may return into the guardian's own loop
                os.write(2, f"a runner could not start: {error}\n".encode())
            finally:
                os._exit(127)
        self.runners[number] = pid
        self.say({"op": "started", "id": number, "pid": pid})

    def kill(self, number: int) -> None:
        """End a runner and everything in its session."""
        pid = self.runners.get(number)
        self.deadlines.pop(number, None)
        if pid is not None:
            for _ in range(SWEEPS_MAX):
                members = session_members(pid)
                for member in members:
                    end(member)
                if members <= {pid}:
                    return
                time.sleep(SWEEP_PAUSE_S)

    def reap(self) -> None:
        """Collect children that ended; what a runner left behind goes with it."""
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None:
                return
            number = next((n for n, pid in self.runners.items() if pid == info.si_pid), None)
            if number is None:
                os.waitpid(info.si_pid, 0)
                continue
            self.kill(number)  # before its pid is given back, so that the session is surely its own
            _, status = os.waitpid(info.si_pid, 0)
            del self.runners[number]
            self.sweep()
            self.say({"op": "ended", "id": number, "status": status})

    def sweep(self) -> None:
        """End orphans whose runner is not alive, until none is found."""
        for _ in range(SWEEPS_MAX):
            alive = {f"{self.name}.{number}" for number in self.runners}
            strays = [pid for pid in children() if pid not in self.runners.values()]
            strays = [pid for pid in strays if not self.runners or mark_of(pid) not in alive]
            for pid in strays:
                end(pid)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
            if not strays:
                return

    def say(self, event: dict[str, object]) -> None:
        """Tell the worker; if it is gone, the next turn notices."""
        with contextlib.suppress(OSError):
            self.control.send(json.dumps(event).encode())


def end(pid: int) -> None:
    """The hard way."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def stat_of(pid: str) -> list[str]:
    """State, parent, group and session of a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib costs start-up time
            return file.read().rpartition(b")")[2].decode().split()[:4]
    except (FileNotFoundError, ProcessLookupError):
        return []


def session_members(session: int) -> set[int]:
    """The living processes of a session."""
    found = set()
    for name in os.listdir("/proc"):  # noqa: PTH208 - see above
        if name.isdigit():
            stat = stat_of(name)
            if stat and stat[3] == str(session) and stat[0] not in "ZX":
                found.add(int(name))
    return found


def children() -> list[int]:
    """The processes whose parent this one is."""
    me = str(os.getpid())
    return [
        int(name)
        for name in os.listdir("/proc")  # noqa: PTH208 - see above
        if name.isdigit() and stat_of(name)[1:2] == [me]
    ]


def mark_of(pid: int) -> str:
    """Whose runner's child this was, by its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - see above
            marks = [part for part in file.read().split(b"\0") if part.startswith(f"{MARK}=".encode())]
    except OSError:
        return ""
    return marks[0].partition(b"=")[2].decode() if marks else ""


if __name__ == "__main__":
    os.setsid()
    Guardian(socket.socket(fileno=int(sys.argv[1]))).run()
