"""What a beginner runs into: told at once, in words that help."""

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from tests.cli.conftest import Call, Cli, environment

FAILS_TWICE = """
from takeup import Pipeline, RetryPolicy
flow = Pipeline("flow")

@flow.stage(retries=RetryPolicy(max_attempts=2, initial_s=1.6, cap_s=1.6))
def work(ctx):
    return {"n": ctx.parameters["missing"]}
"""

NOBODY = """
from takeup import Pipeline
flow = Pipeline("flow")

@flow.stage()
def split(ctx):
    pass

@flow.stage(needs=[split], each="segment")
def work(ctx):
    pass
"""


def test_looking_at_a_database_of_somebody_else_leaves_it_alone(call: Call, tmp_path: Path):
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE shop (id INTEGER)")
    before = path.read_bytes()
    ran = call("jobs", "list", "--database", f"sqlite:///{path}")
    assert (ran.code, "has no Takeup schema" in ran.err) == (1, True)
    assert path.read_bytes() == before


def test_a_worker_without_pipelines_says_how_to_name_them(tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-m", "takeup.cli.main", "work", "--data", "d"],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        said = []
        for line in process.stderr or []:
            said.append(line)
            if "registered" in line:
                process.terminate()
        assert process.wait() == 0
    assert any("--pipelines flow.py" in line for line in said)
    assert any("pipelines='transcode" in line for line in said)


def test_a_run_says_where_it_failed_and_what_it_waits_for(cli: Cli, tmp_path: Path):
    folder = tmp_path / "takeup"
    folder.mkdir()
    (folder / "flow.py").write_text(FAILS_TWICE)
    ran = cli("run", "takeup/flow.py")
    assert ran.returncode == 1
    assert "KeyError: 'missing' (flow.py:7)" in ran.stdout
    assert "retry in" in ran.stderr


def test_a_splitter_that_returns_nothing_is_told_what_to_return(cli: Cli, tmp_path: Path):
    (tmp_path / "flow.py").write_text(NOBODY)
    ran = cli("run", "flow.py")
    assert ran.returncode == 1
    assert "return {'segments': [...]}" in ran.stdout


def test_errors_advise_on_their_own_case(call: Call, tmp_path: Path):
    assert "Check the path" in call("run", "none.py").err
    (tmp_path / "broken.py").write_text("this is no Python")
    assert "Python can import it" in call("run", "broken.py").err
    (tmp_path / "flow.py").write_text(NOBODY)
    assert "--spec" in call("run", "flow.py", "--spec", "none.json").err
    (tmp_path / "file").touch()
    assert "--data DIR" in call("run", "flow.py", "--data", "file").err


WAITS = """
from pathlib import Path
from time import sleep
from takeup import Pipeline
flow = Pipeline("flow")

@flow.stage(requires={"gpu"})
def work(ctx):
    if not Path("begun").exists():
        Path("begun").touch()
        sleep(60)
"""


def test_a_run_that_is_interrupted_says_how_to_go_on(cli: Cli, tmp_path: Path):
    (tmp_path / "flow.py").write_text(WAITS)
    command = [sys.executable, "-m", "takeup.cli.main", "run", "flow.py", "--capability", "gpu"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    ) as running:
        begun = tmp_path / "begun"
        while not begun.exists() and running.poll() is None:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=30)
    assert "nothing is lost: the same command goes on with it" in told
    assert running.returncode == 130
    again = cli("run", "flow.py", "--capability", "gpu")
    assert (again.returncode, "was begun before and goes on" in again.stderr) == (0, True)
