"""Runs in the child before the command does: gives up rights, then becomes the command.

A script of its own with nothing but the standard library, so that it starts in a few milliseconds. What the
kernel cannot do is left out; the parent knows beforehand what that is (`guard.confinement`).
"""

import ctypes
import json
import os
import resource
import signal
import stat
import struct
import sys
from typing import Any

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 1, 38, 22
FILTER_MODE, INSTRUCTION_BYTES = 2, 8
SET_FILTER, NEW_LISTENER = 1, 1 << 3
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH, VERSION = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FILES_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
FIRST_RIGHTS = (1 << 13) - 1
NETWORK, SCOPES = 0b11, 0b11
NETWORK_SINCE, SCOPES_SINCE = 4, 6
RIGHTS_SINCE = {2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}
SYSTEM_READS = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/proc/cpuinfo", "/proc/meminfo",
                "/sys/devices/system", "/dev/urandom", "/dev/zero")  # fmt: skip
SYSTEM_WRITES = ("/dev/null",)
DEVICE_READS = ("/sys/dev/char", "/sys/devices", "/proc/driver")
"""Where drivers look what the machine has."""
SET_SCHEDULING = {"x86_64": 314, "aarch64": 274}
SLICE_NS = 100_000_000
"""Every switch between threads costs what the caches held; a kernel before 6.12 knows no such wish."""
CANNOT_RUN = 126
CPU_GRACE_S = 5
"""Between the signal that says why and the one that nobody can ignore."""

libc = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """Which Landlock the kernel has; 0 is none."""
    found: int = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION))
    return max(found, 0)


def main() -> None:
    order: dict[str, Any] = json.loads(sys.argv[1])
    command = sys.argv[2:]
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != order["parent"]:
        os._exit(CANNOT_RUN)  # the parent died before we asked to be told
    for name, amount in order["limits"].items():
        if amount is not None:
            lower(getattr(resource, name), amount)
    ask_for_long_slices()
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if order["reading"]:
        tell_of_reads(**order["reading"])
    if order["confined"]:
        confine(order["runs"], order["reads"], order["writes"], order["devices"])
        refuse_calls(bytes.fromhex(order["filter"]))
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python; the command would go on ignoring them
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - this is what a launcher is for
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error.strerror}\n")
        os._exit(CANNOT_RUN)


def ask_for_long_slices() -> None:
    """Be scheduled as work that nobody waits for; who is in a hurry still goes first."""
    call = SET_SCHEDULING.get(os.uname().machine)
    if call is not None:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        wish = struct.pack("IIQiIQQQ", 48, os.SCHED_BATCH, 0, nice, 0, SLICE_NS, 0, 0)
        libc.syscall(call, 0, wish, 0)


def lower(which: int, amount: int) -> None:
    """Lower a limit; a lower one that we have already stays."""
    _, hard = resource.getrlimit(which)
    most = amount + (CPU_GRACE_S if which == resource.RLIMIT_CPU else 0)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(which, (min(amount, most), most))


def confine(runs: list[str], reads: list[str], writes: list[str], devices: list[str]) -> None:
    """Let nothing be reached but these paths, and no network, as far as the kernel knows how."""
    version = landlock_version()
    if version < 1:
        return
    rights = FIRST_RIGHTS
    for since, right in RIGHTS_SINCE.items():
        rights |= right if version >= since else 0
    handled = struct.pack(
        "QQQ", rights, NETWORK if version >= NETWORK_SINCE else 0, SCOPES if version >= SCOPES_SINCE else 0
    )
    size = 8 if version < NETWORK_SINCE else 16 if version < SCOPES_SINCE else 24
    ruleset = libc.syscall(CREATE_RULESET, handled[:size], ctypes.c_size_t(size), ctypes.c_uint32(0))
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    for path in runs:
        allow(ruleset, path, EXECUTE | READ_FILE)
    for path in (*SYSTEM_READS, *reads, *(DEVICE_READS if devices else ())):
        allow(ruleset, path, READ_FILE | READ_DIR)
    for path in devices:
        allow(ruleset, path, (READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV) & rights)
    for path in SYSTEM_WRITES:
        allow(ruleset, path, (READ_FILE | WRITE_FILE | TRUNCATE) & rights)
    for path in writes:
        allow(ruleset, path, rights & ~(EXECUTE | IOCTL_DEV))
    if libc.syscall(RESTRICT_SELF, ruleset, ctypes.c_uint32(0)) != 0:
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    os.close(ruleset)


def allow(ruleset: int, path: str, rights: int) -> None:
    """A path that does not exist needs no rule."""
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(found).st_mode):
            rights &= FILES_ONLY
        rule = struct.pack("=Qi", rights, found)
        if libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, ctypes.c_uint32(0)) != 0:
            raise OSError(ctypes.get_errno(), f"landlock_add_rule {path}")
    finally:
        os.close(found)


def tell_of_reads(line: int, call: int, filter: str) -> None:  # noqa: A002 - as the order names it
    """From here on nothing is read before whoever holds the other end of this line allows it."""
    import array  # noqa: F401, PLC0415 - sending needs it, and nothing can be loaded below
    import socket  # noqa: PLC0415 - few children need it

    whole, code = packed(bytes.fromhex(filter))
    with socket.socket(fileno=line) as told:
        listener = libc.syscall(call, SET_FILTER, ctypes.c_ulong(NEW_LISTENER), whole)
        if listener < 0:
            os._exit(CANNOT_RUN)  # the line ends, which tells enough
        socket.send_fds(told, [b"x"], [listener])
    os.close(listener)
    del code


def refuse_calls(program: bytes) -> None:
    """Let the kernel refuse the calls that this filter names; one without filters goes without."""
    if not program:
        return
    whole, code = packed(program)
    libc.prctl(PR_SET_SECCOMP, FILTER_MODE, whole, 0, 0)
    del code


def packed(program: bytes) -> tuple[bytes, Any]:
    """A filter as the kernel takes it, and the memory it points to."""
    code = ctypes.create_string_buffer(program, len(program))
    return struct.pack("HxxxxxxP", len(program) // INSTRUCTION_BYTES, ctypes.addressof(code)), code


if __name__ == "__main__":
    main()
