"""The import, killed at every point in a process of its own, ends the same when it is run again."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from takeup.pipelines.control import import_control
from tests.control.conftest import PIPELINE, ask, old_file, shown

ROOT = Path(__file__).parents[2]
CHILD = """
import asyncio, os, sys
from takeup.pipelines.control import import_control
from takeup.testing.crash import arm_from_environment
from tests.control.conftest import PIPELINE
arm_from_environment(os.environ)
asyncio.run(import_control(sys.argv[1], PIPELINE))
"""
POINTS = [
    "control import.before backup rename",
    "control import.after backup",
    "control import.after rename",
    "control import.after batch#1",
    "control import.after batch#2",
    "control import.after batch#3",
]
TOGGLES = ("READY", "PAUSED", "SKIP", None)
STATUSES = ("READY", "COMPLETED", "ERROR", "IN_PROGRESS")


def rows(count: int = 2500) -> list[dict]:
    stages = list(PIPELINE.stages)
    return [
        {
            "url": f"u{i}",
            "iteration": 1,
            "stage": stages[i % 3],
            "status": STATUSES[i // 3 % 4],
            "process_status": TOGGLES[i // 12 % 4],
        }
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return old_file(tmp_path_factory.mktemp("old") / "old.duckdb", rows())


def run_child(path: Path, crash: str) -> int:
    environment = {**os.environ, "TAKEUP_CRASH": crash, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], env=environment, check=False, cwd=ROOT
    ).returncode


@pytest.mark.parametrize("crash", POINTS)
async def test_killed_and_run_again(crash: str, old: Path, tmp_path: Path):
    plain, killed = tmp_path / "plain.duckdb", tmp_path / "killed.duckdb"
    for path in (plain, killed):
        path.write_bytes(old.read_bytes())
    await import_control(plain, PIPELINE)
    assert run_child(killed, crash) == -signal.SIGKILL
    report = await import_control(killed, PIPELINE)
    assert sum(report.counts.values()) == len(rows())
    assert shown(killed) == shown(plain)
    for sql in (
        "SELECT * FROM pipeline_control_old ORDER BY rowid",
        "SELECT spec, subject, control, status, generation FROM jobs ORDER BY subject",
        "SELECT stage, status, control, job_control, COUNT(*) FROM tasks GROUP BY ALL ORDER BY ALL",
        "SELECT noun, event, actor, to_status, reason, COUNT(*) FROM audit GROUP BY ALL ORDER BY ALL",
    ):
        assert ask(killed, sql) == ask(plain, sql), sql
    backups = sorted(tmp_path.glob("killed.duckdb.before-takeup-*"))
    assert [file.name for file in backups] == ["killed.duckdb.before-takeup-1"]
    assert backups[0].read_bytes() == old.read_bytes()
    assert (await import_control(killed, PIPELINE)).is_nothing_new
