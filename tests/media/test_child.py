"""A guarded child: bounded, confined, watched, alone in its environment, and dead when its parent is."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from takeup.child.guard import Guard, Limits, confinement
from takeup.child.run import Ended, Watch, run_child

PYTHON = sys.executable
MIB = 1 << 20


async def python(code: str, guard: Guard | None = None, **options: Any) -> Ended:
    """Run some Python, which needs to read its own library."""
    return await run_child([PYTHON, "-I", "-c", code], guard=guard, **options)


def guard_for(*, limits: Limits | None = None, writes: tuple[Path, ...] = ()) -> Guard:
    return Guard(limits or Limits(), reads=(Path(sys.base_prefix), Path(sys.prefix)), writes=writes)


async def test_a_guarded_child_sees_no_variable_of_ours(monkeypatch):
    monkeypatch.setenv("SECRET", "canary")
    ended = await python("import os; print(sorted(os.environ))", guard_for(), env={"LANG": "C"})
    assert ended.exit_code == 0
    assert "LANG" in ended.stdout
    assert "SECRET" not in ended.stdout
    unguarded = await python("import os; print(os.environ['SECRET'])")
    assert unguarded.stdout == "canary\n"


@pytest.mark.parametrize(
    ("limits", "code", "signs"),
    [
        (Limits(cpu_s=1), "while True: pass", (-signal.SIGXCPU,)),
        (Limits(file_bytes=MIB), "open('big', 'wb').write(bytes(2 << 20))", (1, -signal.SIGXFSZ)),
        (Limits(memory_bytes=300 * MIB), "bytearray(500 << 20)", (1,)),
        (Limits(open_files=16), "f = [open('/dev/null') for _ in range(40)]", (1,)),
    ],
)
async def test_a_limit_ends_the_child(limits: Limits, code: str, signs, tmp_path: Path):
    ended = await python(code, guard_for(limits=limits, writes=(tmp_path,)), cwd=tmp_path)
    assert ended.exit_code in signs, ended.stderr
    assert ended.stopped == ""


async def test_no_core_is_dumped():
    ended = await python("import resource as r; print(r.getrlimit(r.RLIMIT_CORE))", guard_for())
    assert ended.stdout == "(0, 0)\n"


async def test_a_guarded_child_is_scheduled_as_work_that_nobody_waits_for():
    code = "import os; print(os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))"
    ended = await python(code, guard_for())
    assert ended.stdout == f"{os.SCHED_BATCH} {os.getpriority(os.PRIO_PROCESS, 0)}\n"


@pytest.mark.skipif(confinement() != "landlock", reason="this kernel has no Landlock")
async def test_a_guarded_child_reaches_its_own_files_and_no_others(tmp_path: Path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("canary")
    own = guard_for(writes=(inside,))
    fine = await python("open('made', 'w').write('x'); print(open('made').read())", own, cwd=inside)
    assert (fine.exit_code, fine.stdout) == (0, "x\n")
    for code in (
        f"print(open({str(outside / 'secret')!r}).read())",
        f"open({str(outside / 'new')!r}, 'w')",
        f"import os; os.link('made', {str(outside / 'link')!r})",
        f"import os; os.unlink({str(outside / 'secret')!r})",
        "import subprocess; subprocess.run(['./made'])",
    ):
        ended = await python(code, own, cwd=inside)
        assert ended.exit_code == 1, code
        assert "Error" in ended.stderr
        assert "canary" not in ended.stdout
    assert [entry.name for entry in outside.iterdir()] == ["secret"]


@pytest.mark.skipif(confinement() != "landlock", reason="this kernel has no Landlock")
async def test_a_guarded_child_has_no_network():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}))"
        ended = await python(code, guard_for())
        assert "PermissionError" in ended.stderr
        with pytest.raises(TimeoutError):
            server.accept()
        assert (await python(code)).exit_code == 0, "without a guard it reaches it"


@pytest.mark.parametrize(("watch", "verdict"), [({"stall_s": 0.3}, "stalled"), ({"wall_s": 0.3}, "overdue")])
async def test_a_child_that_hangs_is_stopped_with_all_of_its_group(watch, verdict, tmp_path: Path):
    code = "import subprocess as s; c = s.Popen(['sleep', '60']); print(c.pid, flush=True); c.wait()"
    ended = await python(code, watch=Watch(**watch))
    assert (ended.stopped, ended.exit_code) == (verdict, -signal.SIGKILL)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{int(ended.stdout)}").exists() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert not Path(f"/proc/{int(ended.stdout)}").exists()


async def test_a_child_that_gets_on_is_not_stopped():
    watch = Watch(stall_s=0.6)
    code = "import time\nfor _ in range(8): print('on', flush=True); time.sleep(0.2)"
    ended = await python(code, watch=watch, on_line=lambda _: watch.beat())
    assert (ended.stopped, ended.exit_code) == ("", 0)


async def test_only_the_last_words_are_kept():
    ended = await python("import sys; sys.stderr.write('x' * (5 << 20) + 'end')", guard_for())
    assert len(ended.stderr) == 64 * 1024
    assert ended.stderr.endswith("end")


async def test_output_may_go_to_a_file(tmp_path: Path):
    with (tmp_path / "out").open("w+b") as file:
        ended = await python("print('x' * 100_000)", guard_for(), stdout=file)
    assert (ended.exit_code, ended.stdout, (tmp_path / "out").stat().st_size) == (0, "", 100_001)


PARENT = """
import asyncio, sys
from pathlib import Path
from takeup.child.guard import Guard
from takeup.child.run import run_child
code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
guard = Guard(reads=(Path(sys.base_prefix), Path(sys.prefix)))
asyncio.run(run_child([sys.executable, "-I", "-c", code], guard=guard, on_line=lambda s: print(s, flush=1)))
"""


def test_a_guarded_child_dies_with_its_parent():
    with subprocess.Popen([PYTHON, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()


async def test_a_command_that_is_missing_is_named():
    with pytest.raises(FileNotFoundError, match="'no-such-tool' is not installed"):
        await run_child(["no-such-tool"])
    ended = await run_child([PYTHON, "-c", "pass"], guard=Guard(reads=()))
    assert ended.exit_code != 0, "a guard that forgets what the program needs is not widened"
