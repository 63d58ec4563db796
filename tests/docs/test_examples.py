"""Every example runs exactly as its README says, in a copy of its folder."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import wave
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from tests.cli.conftest import environment
from tests.docs.test_pages import LINK

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())
PATIENCE_S = 60.0


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "takeup-data", "*.duckdb*", "ticket")
    return shutil.copytree(EXAMPLES / request.param, tmp_path / request.param, ignore=ignored)


def in_folder(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("folder", [name], indirect=True)


def surroundings() -> dict[str, str]:
    return {**environment(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def blocks(folder: Path) -> list[str]:
    return SHELL.findall((folder / "README.md").read_text("utf-8"))


def run(folder: Path, script: str) -> str:
    """Line by line as somebody types it; the first that fails ends it."""
    ran = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=surroundings(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert "Traceback" not in ran.stderr
    return ran.stdout


def test_each_example_has_a_readme_and_a_test():
    assert NAMES == ["control_table", "segments"]
    assert all(blocks(EXAMPLES / name) for name in NAMES)
    links = [
        page.parent / link
        for page in EXAMPLES.glob("*/README.md")
        for link in LINK.findall(page.read_text("utf-8"))
    ]
    assert [link for link in links if not link.exists()] == []


@in_folder("segments")
def test_segments(folder: Path):
    (block,) = blocks(folder)
    told = run(folder, block)
    assert "completed" in told
    assert told.splitlines()[-1].endswith("21 files, 0 violations")
    (path,) = folder.glob("takeup-data/artifacts/**/sound.wav")
    with closing(wave.open(str(path))) as file:
        assert (file.getnframes(), file.getframerate()) == (20 * 44_100, 44_100)
    steps = json.loads(run(folder, f"takeup jobs logs {job_of(folder)} --steps --json").splitlines()[0])
    assert steps["command"].startswith("sha256sum")
    run(folder, block)
    assert finished(folder) == dict.fromkeys(range(10), 1), "there was nothing left to do"


@in_folder("segments")
def test_segments_killed_half_way_and_run_again(folder: Path):
    (folder / "spec.json").write_text('{"seconds": 90, "piece_seconds": 1.5, "hertz": 440}')
    command = blocks(folder)[0].splitlines()[0].split()
    with subprocess.Popen(
        command, cwd=folder, env=surroundings(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        deadline = time.monotonic() + PATIENCE_S
        while len(finished(folder)) < 10:
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
    before = finished(folder)
    assert 10 <= len(before) < 60
    assert run(folder, blocks(folder)[0]).splitlines()[-1].endswith("0 violations")
    after = finished(folder)
    assert sorted(after) == list(range(60))
    assert {segment: after[segment] for segment in before} == before, "what was done is not done again"
    (killed,) = folder.glob("takeup-data/artifacts/**/sound.wav")
    bytes_killed = killed.read_bytes()
    run(folder, f"{' '.join(command)} --data other")
    (whole,) = folder.glob("other/artifacts/**/sound.wav")
    assert whole.read_bytes() == bytes_killed


def finished(folder: Path) -> dict[int, int]:
    """The segments that are done, and in which attempt."""
    query = "SELECT segment, attempt FROM tasks WHERE stage = 'shake' AND status = 'DONE'"
    return dict(ask(folder, query))


def job_of(folder: Path) -> str:
    return ask(folder, "SELECT id FROM jobs")[0][0]


def ask(folder: Path, query: str) -> list[tuple]:
    path = folder / "takeup-data" / "takeup.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(path)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:  # the tables are being made
            return []


@in_folder("control_table")
def test_control_table(folder: Path):
    first, second = blocks(folder)
    run(folder, first)
    done = ("compare", "COMPLETED", "READY")
    expected = {
        ("https://a.example", 1): done,
        ("https://a.example", 2): ("fetch", "READY", "PAUSED"),
        ("https://b.example", 1): done,
        ("https://b.example", 2): ("compare", "COMPLETED", "SKIP"),
        ("https://c.example", 1): done,
    }
    assert table(folder) == expected
    claims = "SELECT COUNT(*) FROM audit WHERE event = 'claim'"
    assert duck(folder, claims) == [(9,)], "three rows with three stages"
    assert "0 rows created, 5 were there" in run(folder, first)
    assert (table(folder), duck(folder, claims)) == (expected, [(9,)])
    (setting,) = (line for line in first.splitlines() if line.startswith("export"))
    told = run(folder, f"{setting}\n{second}")
    assert "released as ERROR" in told
    assert told.splitlines()[-1].endswith("0 violations")
    assert table(folder) == {**expected, ("https://a.example", 2): done}
    assert duck(folder, claims) == [(9 + 4,)], "the claim by hand, and three stages"


def table(folder: Path) -> dict[tuple[str, int], tuple[str, str, str]]:
    (query,) = re.findall(r"```sql\n(.*?)```", (folder / "README.md").read_text("utf-8"), re.DOTALL)
    return {tuple(row[:2]): tuple(row[2:]) for row in duck(folder, query)}


def duck(folder: Path, query: str) -> list[tuple]:
    with duckdb.connect(str(folder / "table.duckdb"), read_only=True) as connection:
        return connection.execute(query).fetchall()
