"""A storage root on a real disk, with the attempts of one task."""

from pathlib import Path

import pytest

from takeup.artifacts.local import LocalArtifacts


@pytest.fixture
def artifacts(tmp_path: Path) -> LocalArtifacts:
    return LocalArtifacts(tmp_path / "storage")
