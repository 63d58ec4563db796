"""How far a child is confined: no network of any kind, no other program, or a clear word that it is not."""

import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from takeup.child import bubblewrap, launch
from takeup.child.calls import MACHINES, program
from takeup.child.guard import Guard, Limits, NoSandbox, confinement
from takeup.child.programs import started_with
from takeup.child.run import Ended, run_child
from takeup.media.probe import probe
from takeup.media.source import look_at
from takeup.media.tools import Tools
from tests.cli.conftest import environment
from tests.media.conftest import Make

PYTHON = Path(sys.executable)
LANDLOCK = launch.landlock_version() >= 1
MODES = [
    pytest.param("best-effort", marks=pytest.mark.skipif(not LANDLOCK, reason="this kernel has no Landlock")),
    pytest.param(
        "bubblewrap", marks=pytest.mark.skipif(not bubblewrap.works(), reason="bubblewrap does not work here")
    ),
]
SEND = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))"


async def python(code: str, sandbox: str = "best-effort", writes: tuple[Path, ...] = ()) -> Ended:
    reads = (Path(sys.base_prefix), Path(sys.prefix))
    guard = Guard(Limits(), reads=reads, writes=writes, sandbox=sandbox)
    return await run_child([PYTHON, "-I", "-c", code], guard=guard)


@pytest.mark.parametrize("sandbox", MODES)
@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('127.0.0.1', {port}))",
        SEND,
        "import socket; socket.socket(socket.AF_INET6, socket.SOCK_STREAM)",
        "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)",
    ],
)
async def test_s72_no_socket_of_any_kind(code: str, sandbox: str):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.05)
        ended = await python(code.format(port=server.getsockname()[1]), sandbox)
        assert "PermissionError" in ended.stderr
        with pytest.raises(TimeoutError):
            server.recv(1)


@pytest.mark.skipif(not LANDLOCK, reason="this kernel has no Landlock")
async def test_a_device_is_reached_only_by_who_works_with_it():
    code = "open('/dev/full', 'wb', buffering=0).write(b'x')"
    reads = (Path(sys.base_prefix), Path(sys.prefix))
    told = []
    for devices in ((), (Path("/dev/full"), Path("/dev/nothing"))):
        ended = await run_child([PYTHON, "-I", "-c", code], guard=Guard(reads=reads, devices=devices))
        told.append(ended.stderr.splitlines()[-1].split(":")[0])
    assert told == ["PermissionError", "OSError"]


async def test_without_a_sandbox_it_is_heard():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(5)
        assert (await python(SEND.format(port=server.getsockname()[1]), "off")).exit_code == 0
        assert server.recv(1) == b"x"


@pytest.mark.parametrize("sandbox", MODES)
@pytest.mark.parametrize(
    "code",
    [
        "import os; os.fork()",
        "import subprocess; subprocess.run(['/bin/true'])",
        "import os; os.execv('/bin/echo', ['echo', 'ran'])",
        "import os; os.posix_spawn('/bin/echo', ['echo', 'ran'], {})",
    ],
)
async def test_s85_no_other_program_and_no_new_process(code: str, sandbox: str):
    ended = await python(code, sandbox)
    assert ended.exit_code == 1
    assert "Error" in ended.stderr
    assert "ran" not in ended.stdout


@pytest.mark.parametrize("sandbox", MODES)
async def test_threads_are_no_processes(sandbox: str):
    threads = "import threading as t; x = t.Thread(target=print, args=('thread',)); x.start(); x.join()"
    assert (await python(threads, sandbox)).stdout == "thread\n"


@pytest.mark.parametrize("sandbox", MODES)
async def test_s94_a_crash_is_told_and_leaves_no_core(sandbox: str, tmp_path: Path):
    code = f"import os, signal; os.chdir({str(tmp_path)!r}); signal.raise_signal(signal.SIGSEGV)"
    assert (await python(code, sandbox, writes=(tmp_path,))).exit_code == -signal.SIGSEGV
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not bubblewrap.works(), reason="bubblewrap does not work here")
async def test_a_room_of_its_own_has_nothing_else_in_it(tools: Tools, make: Make, tmp_path: Path):
    found = await probe(Tools(tools.binaries, sandbox="bubblewrap"), look_at(make("plain")))
    assert found.video
    guard = Guard(Limits(), writes=(tmp_path,), sandbox="bubblewrap")
    command = guard.around(("/bin/true",), tmp_path)
    assert "--unshare-all" in command
    assert str(Path.home()) not in command


@pytest.fixture
def bare_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Landlock and without bubblewrap."""
    monkeypatch.setattr(launch, "landlock_version", lambda: 0)
    monkeypatch.setattr(bubblewrap, "works", lambda: False)


def test_s95_what_a_machine_cannot_do_is_told(bare_kernel: None):
    assert bare_kernel is None
    assert confinement("best-effort") == confinement("off") == "limits"
    for sandbox in ("required", "bubblewrap"):
        with pytest.raises(NoSandbox, match=f"sandbox is '{sandbox}', but"):
            confinement(sandbox)


def test_s95_bubblewrap_stands_in_for_landlock(bare_kernel: None, monkeypatch: pytest.MonkeyPatch):
    assert bare_kernel is None
    monkeypatch.setattr(bubblewrap, "works", lambda: True)
    assert confinement("best-effort") == confinement("required") == "bubblewrap"


def test_s95_a_worker_refuses_and_doctor_tells(tmp_path: Path):
    def takeup(command: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "takeup.cli.main", command],
            cwd=tmp_path, env=environment(**env), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    (tmp_path / "bin").mkdir()
    for command in ("work", "doctor"):
        ran = takeup(command, TAKEUP_SANDBOX="bubblewrap", PATH=str(tmp_path / "bin"))
        assert ran.returncode != 0
        assert "sandbox is 'bubblewrap', but bwrap is not installed" in ran.stdout + ran.stderr
        assert "Traceback" not in ran.stderr
    ran = takeup("work", TAKEUP_SANDBOX="maybe")
    assert "sandbox must be off, best-effort, required or bubblewrap" in ran.stderr


def test_a_filter_is_made_for_machines_that_are_known():
    for machine in MACHINES:
        assert len(program(machine)) % 8 == 0
        assert program(machine)
    assert program("mips") == b""


def test_what_must_run_for_a_program_to_run(tools: Tools, tmp_path: Path):
    script, naming_itself = tmp_path / "tool", tmp_path / "loop"
    script.write_text("#!/bin/sh -e\ntrue\n")
    naming_itself.write_text(f"#!{naming_itself}\n")
    assert started_with(script)[:2] == (script, Path("/bin/sh"))
    assert len(started_with(naming_itself)) <= 4
    loader = started_with(PYTHON.resolve())[1:]
    assert all(os.access(path, os.X_OK) for path in loader)
    small = bytearray(b"\x7fELF\x01".ljust(52, b"\x00") + struct.pack("<IIIII", 3, 100, 0, 0, 8))
    struct.pack_into("<I", small, 28, 52)
    struct.pack_into("<HH", small, 42, 32, 1)
    (tmp_path / "small").write_bytes(bytes(small).ljust(100, b"\x00") + b"/lib/ld\x00")
    assert started_with(tmp_path / "small")[1] == Path("/lib/ld")
    assert started_with(tmp_path / "missing") == (tmp_path / "missing",)
    assert started_with(tools.binaries.ffmpeg)[0] == tools.binaries.ffmpeg
