"""Outputs that were only for other stages: removed when the job is over, and never missed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from takeup.artifacts import manifest as manifests
from takeup.artifacts.local import LocalArtifacts
from takeup.core.errors import InvalidInput, NotFound
from tests.artifacts.attempts import FILES, FIRST, KEY, RESULT, SECOND, tree, write_outputs

JOB = KEY.split("/")[1]
CHILD = """
import os, sys
from pathlib import Path
from takeup.artifacts.local import LocalArtifacts
from takeup.testing import crash

artifacts = LocalArtifacts(Path(sys.argv[1]))
crash.arm_from_environment(os.environ)
artifacts.forget(sys.argv[2])
"""


def made(artifacts: LocalArtifacts, *, is_temporary: bool) -> None:
    write_outputs(artifacts.stage(FIRST))
    artifacts.seal(FIRST, KEY, 2, RESULT, is_temporary=is_temporary)
    assert artifacts.publish(FIRST, KEY)


def test_temporary_outputs_go_and_their_list_stays(artifacts: LocalArtifacts):
    made(artifacts, is_temporary=True)
    assert artifacts.forget(JOB) == 1
    assert set(tree(artifacts.root / KEY)) == {"manifest.json"}
    left = manifests.read(artifacts.root / KEY)
    assert (left.keeping, {file.name for file in left.files}) == ("removed", set(FILES))
    with pytest.raises(NotFound):
        artifacts.open_path(f"{KEY}/video.mp4")
    assert artifacts.forget(JOB) == 0


def test_other_outputs_and_other_jobs_stay(artifacts: LocalArtifacts):
    made(artifacts, is_temporary=False)
    assert artifacts.forget(JOB) == 0
    assert artifacts.forget("another") == 0
    assert set(tree(artifacts.root / KEY)) == {*FILES, "manifest.json"}
    with pytest.raises(InvalidInput):
        artifacts.forget("../..")


def test_who_publishes_after_the_removal_brings_nothing_back(artifacts: LocalArtifacts):
    made(artifacts, is_temporary=True)
    write_outputs(artifacts.stage(SECOND))
    artifacts.seal(SECOND, KEY, 2, RESULT, is_temporary=True)
    artifacts.forget(JOB)
    assert artifacts.publish(SECOND, KEY)
    assert set(tree(artifacts.root / KEY)) == {"manifest.json"}
    assert artifacts.staged() == []


@pytest.mark.parametrize("point", ["manifest.before rename", "forget.before remove", "remove.after rename"])
def test_a_removal_cut_short_is_finished_by_the_next(artifacts: LocalArtifacts, point: str):
    made(artifacts, is_temporary=True)
    died = subprocess.run(
        [sys.executable, "-c", CHILD, str(artifacts.root), JOB],
        env={**os.environ, "TAKEUP_CRASH": point},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert died.returncode == -signal.SIGKILL
    artifacts.forget(JOB)
    artifacts.sweep_trash()
    assert set(tree(artifacts.root / KEY)) == {"manifest.json"}
    assert [path.name for path in (artifacts.root / ".staging").iterdir()] == []
