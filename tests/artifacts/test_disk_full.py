"""A full disk surfaces as it is, leaves no half output, and going on needs only room."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from takeup.artifacts.local import LocalArtifacts
from tests.artifacts.attempts import FIRST, KEY, RESULT, SECOND, published, sealed, write_outputs

LIMITED = """
import sys
from pathlib import Path
from takeup.artifacts.local import LocalArtifacts
from tests.artifacts.attempts import FIRST, KEY
try:
    LocalArtifacts(Path(sys.argv[1])).seal(FIRST, KEY, 2, {"text": "x" * 20_000})
except OSError as error:
    sys.exit(error.errno)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[LocalArtifacts]:
    """A storage root on a disk of 1 MB and few inodes."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=64", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small disk; the limit on file sizes is tested instead")
    yield LocalArtifacts(tmp_path / "storage")
    subprocess.run(["umount", tmp_path], check=True)  # noqa: S607


def fill(artifacts: LocalArtifacts) -> Path:
    """Take all the room that is left."""
    filler = artifacts.root / "filler"
    with filler.open("wb", buffering=0) as file:
        while room(artifacts).f_bavail:
            file.write(b"x" * 4096)
    return filler


def room(artifacts: LocalArtifacts) -> os.statvfs_result:
    return os.statvfs(artifacts.root)


def test_a_seal_without_room_for_its_manifest_can_be_repeated(small_disk: LocalArtifacts):
    write_outputs(small_disk.stage(FIRST))
    filler = fill(small_disk)
    with pytest.raises(OSError, match="No space") as caught:
        small_disk.seal(FIRST, KEY, 2, RESULT)
    assert caught.value.errno == errno.ENOSPC
    assert small_disk.find(SECOND, KEY) is None
    filler.unlink()
    manifest = small_disk.seal(FIRST, KEY, 2, RESULT)
    assert small_disk.publish(FIRST, KEY)
    assert small_disk.verify(manifest) == []


def test_a_full_disk_hinders_no_removal(small_disk: LocalArtifacts):
    manifest = published(small_disk)
    sealed(small_disk, SECOND)
    fill(small_disk)
    small_disk.drop(SECOND)
    assert list((small_disk.root / ".staging").iterdir()) == []
    assert small_disk.verify(manifest) == []


def test_an_adoption_without_room_keeps_the_output(small_disk: LocalArtifacts):
    manifest = sealed(small_disk)
    filler = fill(small_disk)
    with pytest.raises(OSError, match="No space"):
        small_disk.adopt(SECOND, manifest)
    assert small_disk.find(SECOND, KEY) == manifest
    filler.unlink()
    assert small_disk.adopt(SECOND, manifest) == manifest.under(SECOND)
    assert small_disk.publish(SECOND, KEY)


def test_without_inodes_nothing_is_half_published(small_disk: LocalArtifacts):
    manifest = sealed(small_disk)
    made = [small_disk.root / f"filler{number}" for number in range(room(small_disk).f_ffree)]
    for path in made:
        path.touch()
    with pytest.raises(OSError, match="No space") as caught:
        small_disk.publish(FIRST, KEY)
    assert caught.value.errno == errno.ENOSPC
    assert small_disk.find(FIRST, KEY) == manifest
    for path in made:
        path.unlink()
    assert small_disk.publish(FIRST, KEY)
    assert small_disk.verify(manifest) == []


def test_a_limit_on_file_sizes_surfaces_and_leaves_no_manifest(artifacts: LocalArtifacts):
    write_outputs(artifacts.stage(FIRST))
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(artifacts.root)],
        cwd=Path(__file__).parents[2],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)),
        check=False,
    )
    assert done.returncode == errno.EFBIG
    assert artifacts.find(SECOND, KEY) is None
    assert artifacts.seal(FIRST, KEY, 2, RESULT) == artifacts.find(SECOND, KEY)
