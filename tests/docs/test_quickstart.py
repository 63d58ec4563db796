"""The README's quick start: run it, kill it half-way with -9, run it again; nothing is done twice."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAKEUP = Path(sys.executable).with_name("takeup")
COUNT_OF_PRIMES = 41538


def test_the_quick_start_resumes_after_a_kill(tmp_path: Path):
    text = (ROOT / "README.md").read_text("utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert ".venv/bin/takeup run flow.py" in text
    (tmp_path / "flow.py").write_text(example)
    command = [str(TAKEUP), "run", "flow.py"]
    with (tmp_path / "first.log").open("wb") as log:
        first = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
        wait_for(lambda: done_tasks(tmp_path) >= 10 or first.poll() is not None)
        assert first.poll() is None, (tmp_path / "first.log").read_text()
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    before = done_tasks(tmp_path)
    assert 10 <= before < 52
    second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert second.returncode == 0, second.stderr
    assert "completed" in second.stdout
    assert "count 50/50" in second.stderr, "plain lines where nobody watches"
    (total,) = tmp_path.glob("takeup-data/artifacts/primes.v1/*/g1/total.v1/whole/total.txt")
    assert total.read_text() == str(COUNT_OF_PRIMES)
    claims = ask(tmp_path, "SELECT task_id, COUNT(*) FROM audit WHERE event = 'claim' GROUP BY task_id")
    assert len(claims) == 52
    repeated = sum(count - 1 for _, count in claims)
    assert repeated <= (os.cpu_count() or 1), "only what was running is done again"
    third = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert third.returncode == 0
    assert "was completed before, so nothing is run" in third.stderr
    verified = subprocess.run(
        [TAKEUP, "verify", "--artifacts"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    shutil.rmtree(tmp_path / "takeup-data")


def wait_for(holds) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def done_tasks(folder: Path) -> int:
    try:
        return ask(folder, "SELECT COUNT(*) FROM tasks WHERE status = 'DONE'")[0][0]
    except sqlite3.OperationalError:
        return 0


def ask(folder: Path, sql: str) -> list:
    connection = sqlite3.connect(f"file:{folder}/takeup-data/takeup.db?mode=ro", uri=True)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
