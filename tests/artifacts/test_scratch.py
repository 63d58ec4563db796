"""Scratch folders: one for each attempt, removed whatever a stage left in them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeup.artifacts.layout import TaskFolder
from takeup.artifacts.scratch import Scratch
from takeup.core.errors import InvalidInput
from tests.artifacts.attempts import FIRST, SECOND, write_outputs

NOBODY = 65534


def test_each_attempt_has_a_folder_of_its_own(tmp_path: Path):
    scratch = Scratch(tmp_path / "deep" / "scratch")
    assert scratch.folders() == []
    path = scratch.make(FIRST)
    write_outputs(path)
    assert scratch.make(FIRST) == path
    assert scratch.make(SECOND) != path
    (scratch.root / "other").mkdir()
    assert scratch.folders() == [FIRST, SECOND]
    scratch.drop(FIRST)
    scratch.drop(FIRST)
    assert scratch.folders() == [SECOND]
    assert sorted(p.name for p in scratch.root.iterdir()) == [SECOND.name, "other"]


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path):
    for act in (Scratch(tmp_path).make, Scratch(tmp_path).drop):
        with pytest.raises(InvalidInput):
            act(TaskFolder(1, 1, "../../x"))


def test_removal_does_not_follow_links(tmp_path: Path):
    kept = tmp_path / "kept"
    write_outputs(kept)
    scratch = Scratch(tmp_path / "scratch")
    (scratch.make(FIRST) / "link").symlink_to(kept)
    scratch.drop(FIRST)
    scratch.make(SECOND).rmdir()
    (scratch.root / SECOND.name).symlink_to(kept)
    scratch.drop(SECOND)
    assert list(scratch.root.iterdir()) == []
    assert (kept / "video.mp4").exists()


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """A folder of an ordinary user, whom closed folders stop."""
    path = Path(tempfile.mkdtemp())
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    yield path
    if is_root:
        os.seteuid(0)
    shutil.rmtree(path)


def test_folders_that_a_stage_has_closed_are_removed(ordinary_user: Path):
    kept = ordinary_user / "kept"
    kept.mkdir(mode=0o755)
    scratch = Scratch(ordinary_user / "scratch")
    path = scratch.make(FIRST)
    write_outputs(path)
    (path / "link").symlink_to(kept)
    for folder in (path / "hls/low", path / "hls", path):
        folder.chmod(0o500 if folder == path else 0)
    scratch.drop(FIRST)
    assert list(scratch.root.iterdir()) == []
    assert kept.stat().st_mode & 0o777 == 0o755
