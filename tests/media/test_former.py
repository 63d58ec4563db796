"""A transcode that failed half-way and is run again: what was done before is taken over, not made again."""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from takeup.engine.runner.inputs import Made
from takeup.media.tools import Tools
from takeup.stages import former
from tests.cli.conftest import environment
from tests.media.conftest import PICTURE
from tests.media.test_transcode import contents, takeup

SEGMENTS = 6
WAIT_S = 60
DONE = "SELECT count(*) FROM tasks WHERE stage = 'encode' AND status = 'DONE'"
STEPS = """SELECT count(DISTINCT s.task_id) FROM execution_steps s JOIN tasks t ON t.id = s.task_id
JOIN jobs j ON j.id = t.job_id WHERE t.stage = 'encode' AND j.generation = ?"""


@pytest.fixture
def source(tools: Tools, tmp_path: Path) -> Path:
    file = tmp_path / "movie.mp4"
    picture = f"testsrc2=size=640x360:rate=25:duration={6 * SEGMENTS}"
    made = [*PICTURE, picture, "-c:v", "libx264", "-preset", "ultrafast", "-g", "50", file]
    subprocess.run([tools.binaries.ffmpeg, "-v", "error", *made], check=True, timeout=60)
    return file


def ask(home: Path, sql: str, *values: object) -> int:
    with closing(sqlite3.connect(home / "takeup-data" / "takeup.db")) as connection:
        (number,) = connection.execute(sql, values).fetchone()
    return int(number)


def fail_half_way(home: Path, source: Path) -> int:
    """Take the source away when some segments are done; how many are done when the job has failed."""
    command = [sys.executable, "-m", "takeup.cli.main", "transcode", source, "-o", "out", "--segment", "6"]
    away = source.with_suffix(".away")
    with subprocess.Popen(command, cwd=home, env=environment(), stderr=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            try:
                if ask(home, DONE) > 1:
                    break
            except sqlite3.OperationalError:
                pass  # it is being made
            time.sleep(0.02)
        source.rename(away)
        assert running.wait(WAIT_S) == 1
    away.rename(source)
    return ask(home, DONE)


def test_segments_that_were_done_survive_a_failure_and_damaged_ones_are_made_again(
    tmp_path: Path, source: Path
):
    done = fail_half_way(tmp_path, source)
    assert 1 < done < SEGMENTS
    damaged = next((tmp_path / "takeup-data" / "artifacts").rglob("00000?/360p.mp4"))
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    ran = takeup(tmp_path, "transcode", source, "-o", "out", "--segment", "6")
    assert ran.returncode == 0, ran.stderr
    assert ask(tmp_path, STEPS, 2) == SEGMENTS - (done - 1), "only what is missing or damaged is encoded"
    ran = takeup(tmp_path, "transcode", source, "-o", "undisturbed", "--segment", "6")
    assert ran.returncode == 0, ran.stderr
    assert contents(tmp_path / "out" / "v1") == contents(tmp_path / "undisturbed" / "v1")
    left = [file.name for file in (tmp_path / "takeup-data" / "artifacts").rglob("*.mp4")]
    assert left == [], "when it is done, what failed before is of no use any more"
    assert takeup(tmp_path, "verify").returncode == 0


def test_only_what_was_made_by_the_same_recipe_is_kept(tmp_path: Path):
    (tmp_path / "a.mp4").write_bytes(b"a")
    made = Made(
        0, {former.RECIPES: {"a.mp4": "1", "b.mp4": "1", "c.mp4": "1"}}, {"a.mp4": tmp_path / "a.mp4"}
    )
    context = SimpleNamespace(
        generation=2, former=made, keep=lambda file, _: file, log=SimpleNamespace(info=lambda *_, **__: None)
    )
    wanted = {"a.mp4": "1", "b.mp4": "2", "c.mp4": "1"}
    assert former.keep(context, wanted) == {"a.mp4": tmp_path / "a.mp4"}
    assert former.keep(context, {"a.mp4": "2"}) == {}
    context.generation = 1
    assert former.keep(context, wanted) == {}
