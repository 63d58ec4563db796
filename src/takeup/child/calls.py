"""The calls to the kernel that a guarded child is refused: sockets, new processes, a look into others.

Landlock knows files and TCP; this is for the rest. The filter is a program of the kernel's small language for
packets, written by the parent and set by the launcher. Another one tells us of every call that reads a file.
"""

import errno
import functools
import platform
import struct

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_AT, MACHINE_AT, FIRST_ARGUMENT_AT = 0, 4, 16
FIFTH_ARGUMENT_AT = FIRST_ARGUMENT_AT + 4 * 8
ALLOW, REFUSE, TELL = 0x7FFF0000, 0x00050000, 0x7FC00000
NO_FILE = 0xFFFFFFFF
"""The lower half of a descriptor that is none."""
CLONE_THREAD = 0x00010000
FOREIGN_NUMBERS = 0x40000000
"""From here on the numbers are those of another table of the same machine."""

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435
REFUSED = {
    "x86_64": {
        "socket": 41, "fork": 57, "vfork": 58, "ptrace": 101, "mount": 165, "keyctl": 250, "unshare": 272,
        "perf_event_open": 298, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "bpf": 321,
        "userfaultfd": 323, "io_uring_setup": 425,
    },
    "aarch64": {
        "socket": 198, "ptrace": 117, "mount": 40, "keyctl": 219, "unshare": 97, "perf_event_open": 241,
        "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "bpf": 280, "userfaultfd": 282,
        "io_uring_setup": 425,
    },
}  # fmt: skip
READING = {
    "x86_64": {
        "read": 0, "pread64": 17, "readv": 19, "sendfile": 40, "splice": 275, "preadv": 295,
        "copy_file_range": 326, "preadv2": 327,
    },
    "aarch64": {
        "read": 63, "pread64": 67, "readv": 65, "sendfile": 71, "splice": 76, "preadv": 69,
        "copy_file_range": 285, "preadv2": 286,
    },
}  # fmt: skip
"""All calls by which bytes of a file are reached, but for `mmap`, which is for memory as a rule."""
UNSEEN = {
    "x86_64": {"io_submit": 209, "io_uring_setup": 425},
    "aarch64": {"io_submit": 2, "io_uring_setup": 425},
}
"""Calls that read in a way which shows nothing of where; who is to wait has to do without them."""
MMAP = {"x86_64": 9, "aarch64": 222}
SECCOMP = {"x86_64": 317, "aarch64": 277}


def name_of(number: int) -> str:
    """Which of the calls that read this is; `mmap` if it is none of the others."""
    return _names().get(number, "mmap")


@functools.cache
def _names() -> dict[int, str]:
    return {known: name for name, known in READING[platform.machine()].items()}


def seccomp() -> int:
    """The number of the call that sets a filter and answers with a descriptor."""
    return SECCOMP[platform.machine()]


def reading(machine: str | None = None) -> bytes:
    """The filter that has us asked before anything is read; empty where the numbers are not known here."""
    machine = machine or platform.machine()
    if machine not in MACHINES:
        return b""
    tell, allow, refuse = (_step(RETURN, what) for what in (TELL, ALLOW, REFUSE | errno.EPERM))
    lines = _own_numbers(machine)
    for number in UNSEEN[machine].values():
        lines += [_step(EQUAL, number, no=1), refuse]
    for number in READING[machine].values():
        lines += [_step(EQUAL, number, no=1), tell]
    lines += [_step(EQUAL, MMAP[machine], yes=1), allow, _step(LOAD, FIFTH_ARGUMENT_AT)]
    return b"".join([*lines, _step(EQUAL, NO_FILE, no=1), allow, tell])


def program(machine: str | None = None) -> bytes:
    """The filter for this machine; empty where the numbers of its calls are not known here."""
    machine = machine or platform.machine()
    if machine not in MACHINES:
        return b""
    refuse = _step(RETURN, REFUSE | errno.EPERM)
    lines = _own_numbers(machine)
    for number in REFUSED[machine].values():
        lines += [_step(EQUAL, number, no=1), refuse]
    # the arguments of clone3 cannot be seen from here; without it the C library takes clone
    lines += [_step(EQUAL, CLONE3, no=1), _step(RETURN, REFUSE | errno.ENOSYS)]
    lines += [_step(EQUAL, CLONE[machine], no=3), _step(LOAD, FIRST_ARGUMENT_AT)]
    lines += [_step(ANY_BIT, CLONE_THREAD, yes=1), refuse, _step(RETURN, ALLOW)]
    return b"".join(lines)


def _own_numbers(machine: str) -> list[bytes]:
    """Load the number of the call; those of another machine or table are refused."""
    refuse = _step(RETURN, REFUSE | errno.EPERM)
    return [
        _step(LOAD, MACHINE_AT), _step(EQUAL, MACHINES[machine], yes=1), refuse,
        _step(LOAD, NUMBER_AT), _step(AT_LEAST, FOREIGN_NUMBERS, no=1), refuse,
    ]  # fmt: skip


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    """One instruction; `yes` and `no` are how many to leave out after a comparison."""
    return struct.pack("=HBBI", code, yes, no, value)
