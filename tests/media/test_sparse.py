"""A segment made of a sparse copy is, byte for byte, the one made of the file, whatever kind that is."""

from pathlib import Path

import pytest

from takeup.media import encode, plan
from takeup.media.source import look_at, look_at_sparse
from takeup.media.survey import survey
from takeup.media.tools import Tools
from tests.media.conftest import H264, PICTURE
from tests.media.holed import Holed
from tests.media.kinds import KINDS, made
from tests.media.packages import ffmpeg, tiny_profile

SEGMENT_S = 1
REMUXED = {
    "index first": ("plain", "mp4", ("-movflags", "+faststart")),
    "fragmented": ("plain", "mp4", ("-movflags", "+frag_keyframe+empty_moov")),
    "fragmented with an index": (
        "plain", "mp4", ("-movflags", "+frag_keyframe+empty_moov+default_base_moof+global_sidx"),
    ),
    "cues first": ("longer sound", "mkv", ("-reserve_index_space", "4096")),
    "without cues": ("longer sound", "mkv", ("-live", "1")),
}  # fmt: skip
"""Other ways to lay out the same tracks: what is copied, into what, how."""
OFTEN = ("fragmented", "edit list", "open gop", "webm", "mpeg-ts")


def laid_out(tools: Tools, name: str, folder: Path) -> Path:
    if name in KINDS:
        return made(tools.binaries.ffmpeg, name, folder)
    kind, ending, how = REMUXED[name]
    file = folder / f"remuxed.{ending}"
    source = made(tools.binaries.ffmpeg, kind, folder)
    ffmpeg(tools, "-i", source, "-map", "0", "-c", "copy", *how, file)
    return file


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in OFTEN else pytest.mark.long) for name in (*REMUXED, *KINDS)],
)
async def test_segments_of_a_sparse_copy_have_the_same_bytes(
    tools: Tools, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(plan, "KEY_EVERY_S", SEGMENT_S)
    monkeypatch.setattr(plan, "KEYS_A_FRAGMENT", 1)
    file = laid_out(tools, name, tmp_path)
    found = await survey(tools, look_at(file), tmp_path / "copy.mkv")
    whole = plan.plan(found.probe, found.index, tiny_profile(tmp_path), segment_s=SEGMENT_S)
    assert whole.picture
    for segment in whole.picture.segments:
        holed = Holed(found.source.path, tmp_path / f"holed-{segment.number}" / found.source.path.name)
        files = []
        for source in (found.source, look_at_sparse(holed.copy)):
            folder = tmp_path / f"out-{segment.number}-{len(files)}"
            folder.mkdir()
            result = await encode.encode(tools, source, whole, segment, folder)
            files.append({rung: path.read_bytes() for rung, path in result.files.items()})
        assert files[0] == files[1]
        assert holed.asked


async def test_a_segment_reads_little_of_a_long_source(tools: Tools, tmp_path: Path):
    file = tmp_path / "long.mp4"
    size = "testsrc2=size=640x360:rate=25:duration=60"
    rate = ("-b:v", "8M", "-minrate", "8M", "-maxrate", "8M", "-bufsize", "8M", "-nal-hrd", "cbr")
    ffmpeg(tools, *PICTURE, size, *H264, *rate, file)
    found = await survey(tools, look_at(file))
    whole = plan.plan(found.probe, found.index, tiny_profile(tmp_path), segment_s=12)
    assert whole.picture
    segment = whole.picture.segments[3]
    holed = Holed(file, tmp_path / "holed" / file.name)
    await encode.encode(tools, look_at_sparse(holed.copy), whole, segment, tmp_path)
    share = segment.count / whole.picture.frames
    total = file.stat().st_size
    assert total > 20_000_000
    assert share < holed.held.total / total < share * 1.5
    assert holed.path.stat().st_blocks * 512 < total / 2
    assert len(holed.asked) < 60
