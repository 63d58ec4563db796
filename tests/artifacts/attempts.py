"""Attempts of one task that the tests share, and what they write."""

from pathlib import Path

from takeup.artifacts.layout import TaskFolder, output_key
from takeup.artifacts.local import LocalArtifacts
from takeup.artifacts.manifest import Manifest

KEY = output_key("watch", "job_1", 1, "encode", 2, 7)
FIRST = TaskFolder(5, 1, "1" * 32)
SECOND = TaskFolder(5, 2, "2" * 32)
THIRD = TaskFolder(5, 3, "3" * 32)
RESULT = {"seconds": 4, "tracks": ["a", "v"]}
FILES = {"video.mp4": b"v" * 3000, "hls/low/1.ts": b"", "hls/high/1.ts": b"ts"}


def write_outputs(path: Path, files: dict[str, bytes] = FILES) -> None:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)


def sealed(artifacts: LocalArtifacts, folder: TaskFolder = FIRST) -> Manifest:
    write_outputs(artifacts.stage(folder))
    return artifacts.seal(folder, KEY, 2, RESULT)


def published(artifacts: LocalArtifacts, folder: TaskFolder = FIRST) -> Manifest:
    manifest = sealed(artifacts, folder)
    assert artifacts.publish(folder, KEY)
    return manifest


def tree(path: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(path.rglob("*")) if f.is_file()}
