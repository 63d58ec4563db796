"""A process killed at each named point leaves the old state or the new one, and running again repairs it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from takeup.artifacts import manifest as manifests
from takeup.artifacts.local import LocalArtifacts
from takeup.testing import crash
from tests.artifacts.attempts import (
    FILES,
    FIRST,
    KEY,
    RESULT,
    SECOND,
    THIRD,
    published,
    sealed,
    tree,
    write_outputs,
)

CHILD = """
import os, sys
from pathlib import Path
from takeup.artifacts.local import LocalArtifacts
from takeup.testing import crash
from tests.artifacts.attempts import FIRST, KEY, RESULT, SECOND

artifacts = LocalArtifacts(Path(sys.argv[1]))
crash.arm_from_environment(os.environ)
match sys.argv[2]:
    case "seal":
        artifacts.seal(FIRST, KEY, 2, RESULT)
    case "adopt":
        artifacts.adopt(SECOND, artifacts.find(SECOND, KEY))
    case "publish":
        artifacts.publish(SECOND, KEY)
    case "drop":
        artifacts.drop(FIRST)
"""
POINTS = {
    "seal": ["seal.before manifest", "manifest.before rename", "seal.after manifest"],
    "adopt": ["remove.after rename", "adopt.before rename", "adopt.after rename", "manifest.before rename"],
    "publish": ["remove.after rename", "publish.before rename", "publish.after rename"],
    "drop": ["remove.after rename"],
}
TREE = Path(__file__).parents[2]


def die(artifacts: LocalArtifacts, act: str, name: str) -> None:
    """Do this in a process of its own, which is killed at this point."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(artifacts.root), act],
        env={**os.environ, "TAKEUP_CRASH": name},
        cwd=TREE,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", POINTS["seal"])
def test_a_seal_cut_short_is_no_output_or_a_whole_one(artifacts: LocalArtifacts, name: str):
    write_outputs(artifacts.stage(FIRST))
    die(artifacts, "seal", name)
    found = artifacts.find(SECOND, KEY)
    assert (found is not None) == (name == "seal.after manifest")
    manifest = artifacts.seal(FIRST, KEY, 2, RESULT)
    assert found in (None, manifest)
    assert set(tree(artifacts.staged_path(FIRST))) == {*FILES, "manifest.json"}
    assert artifacts.publish(FIRST, KEY)
    assert artifacts.verify(manifest) == []


@pytest.mark.parametrize("name", POINTS["adopt"])
@pytest.mark.parametrize("next_folder", [SECOND, THIRD], ids=["same attempt", "next attempt"])
def test_an_adoption_cut_short_loses_nothing(artifacts: LocalArtifacts, name: str, next_folder):
    manifest = sealed(artifacts)
    write_outputs(artifacts.stage(SECOND), {"half": b"done"})
    die(artifacts, "adopt", name)
    found = artifacts.find(next_folder, KEY)
    assert found.files == manifest.files
    adopted = artifacts.adopt(next_folder, found)
    assert adopted == manifest.under(next_folder)
    artifacts.sweep_trash()
    assert [path.name for path in (artifacts.root / ".staging").iterdir()] == [next_folder.name]
    assert artifacts.publish(next_folder, KEY)
    assert artifacts.verify(adopted) == []
    assert set(tree(artifacts.root / KEY)) == {*FILES, "manifest.json"}


@pytest.mark.parametrize(
    ("before", "name"),
    [
        ("nothing", "publish.before rename"),
        ("nothing", "publish.after rename"),
        ("sound", "remove.after rename"),
        ("damaged", "remove.after rename"),
        ("damaged", "publish.before rename"),
        ("damaged", "publish.after rename"),
    ],
)
def test_a_publication_cut_short_shows_all_or_nothing(artifacts: LocalArtifacts, before: str, name: str):
    old = None if before == "nothing" else published(artifacts)
    if before == "damaged":
        (artifacts.root / KEY / "video.mp4").unlink()
    new = sealed(artifacts, SECOND)
    die(artifacts, "publish", name)
    shown = manifests.read(artifacts.root / KEY)
    if before == "sound":
        assert artifacts.verify(old) == []
    else:
        assert shown == (new if name == "publish.after rename" else None)
    assert artifacts.publish(SECOND, KEY)
    artifacts.sweep_trash()
    assert artifacts.verify(old if before == "sound" else new) == []
    assert list((artifacts.root / ".staging").iterdir()) == []


def test_a_removal_cut_short_is_swept(artifacts: LocalArtifacts):
    sealed(artifacts)
    die(artifacts, "drop", "remove.after rename")
    assert artifacts.staged() == []
    assert artifacts.find(SECOND, KEY) is None
    assert artifacts.sweep_trash() == 1
    assert list((artifacts.root / ".staging").iterdir()) == []


def test_every_point_is_named_here(artifacts: LocalArtifacts):
    known = crash.Armed({}, crash.collapse)
    with crash.armed(known):
        manifest = sealed(artifacts)
        artifacts.stage(SECOND)
        artifacts.adopt(SECOND, manifest)
        artifacts.publish(SECOND, KEY)
    assert set(known.passes) == {name for names in POINTS.values() for name in names}
