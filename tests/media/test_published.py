"""What a package says of itself, against what it was made of."""

from pathlib import Path

import pytest

from takeup.media.errors import MediaError
from takeup.media.published import served
from tests.media.packages import LENGTH_S
from tests.videos.making import package


def test_a_package_of_ours(good: Path):
    found = served(good, 3)
    assert (found.version, found.duration_s) == (3, LENGTH_S)
    assert [(rung.name, rung.width, rung.height) for rung in found.qualities] == [
        ("90p", 160, 90),
        ("72p", 128, 72),
    ]
    for rung in found.qualities:
        files = [path.stat().st_size for path in (good / rung.name).glob("*.m*") if path.suffix != ".m3u8"]
        assert rung.size_bytes == sum(files)
        assert 0 < rung.mean_rate <= rung.peak_rate
        assert rung.codec.startswith("avc1.")


@pytest.mark.parametrize("name", ["../x/index.m3u8", "/etc/passwd", "http://127.0.0.1/index.m3u8"])
def test_it_leads_nowhere_else(tmp_path: Path, name: str):
    made = package(tmp_path / "made", f"#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{name}\n")
    with pytest.raises(MediaError, match="no file of this package"):
        served(made, 1)
