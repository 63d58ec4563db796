"""What tests of files that the server fetches begin with: an origin beside it, which it may call."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from tests.videos.making import sound
from tests.videos.origin import Origin, origin_of

WAV = sound(1.0)


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with origin_of(WAV) as one:
        yield one


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/takeup.db"


@pytest.fixture
def more_settings() -> Mapping[str, object]:
    return {"pull_http": "allowed", "pull_allowed_networks": "127.0.0.1/32", "upload_quota_count": 2}
