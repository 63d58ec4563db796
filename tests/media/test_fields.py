"""Interlaced or not is seen, whatever the marks say."""

import subprocess
from array import array
from fractions import Fraction
from pathlib import Path

import pytest

from takeup.media.fields import is_doubtful, look, places
from takeup.media.index import Index
from takeup.media.probe import Video, probe, read
from takeup.media.source import look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools
from tests.media.conftest import PICTURE
from tests.media.test_probe import STREAM, report

MOVING = "testsrc2=size=720x576:rate=50:duration=1.2,gblur=2"
WOVEN, WHOLE = "tinterlace=interleave_top", "fps=25"
FAST = ("-c:v", "libx264", "-preset", "ultrafast", "-qp", "20")


@pytest.mark.parametrize(
    ("name", "pictures", "flags", "marked", "seen"),
    [
        ("marked and woven", f"{WOVEN},setfield=tff", ("-x264-params", "tff=1"), True, True),
        ("woven and not marked", f"{WOVEN},setfield=prog", (), False, True),
        ("marked and whole", f"{WHOLE},setfield=tff", ("-x264-params", "tff=1"), True, False),
        ("whole", f"{WHOLE},setfield=prog", (), False, False),
        ("the other field first", "tinterlace=interleave_bottom,setfield=prog", (), False, True),
    ],
)
async def test_what_is_seen_counts(tools: Tools, tmp_path: Path, name, pictures, flags, marked, seen):
    file = tmp_path / "source.mp4"
    made(tools, MOVING, "-vf", pictures, *FAST, *flags, file)
    facts = await probe(tools, look_at(file))
    assert facts.video
    assert facts.video.is_interlaced == marked, name
    video = (await survey(tools, look_at(file))).probe.video
    assert video
    assert video.is_interlaced == seen, name


async def test_a_fine_pattern_that_looks_like_fields_is_left_as_it_is_marked(tools: Tools, tmp_path: Path):
    file = tmp_path / "source.mp4"
    made(tools, "testsrc2=size=720x576:rate=25:duration=2", *FAST, file)
    found = await survey(tools, look_at(file))
    assert found.probe.video
    assert not found.probe.video.is_interlaced


def made(tools: Tools, picture: str, *options: object) -> None:
    command = [tools.binaries.ffmpeg, "-v", "error", *PICTURE, picture, *options]
    subprocess.run(command, check=True, timeout=60)


def video_of(**changed: object) -> Video:
    video = read(report({**STREAM, **changed})).video
    assert video
    return video


@pytest.mark.parametrize(
    ("changed", "is_worth_it"),
    [
        ({"field_order": "progressive", "height": 1080, "width": 1920}, True),
        ({"field_order": "progressive", "height": 720, "width": 1280}, False),
        ({"field_order": "progressive", "height": 1080, "width": 1920, "avg_frame_rate": "50/1"}, False),
        ({"field_order": "progressive", "height": 1080, "width": 1920, "codec_name": "hevc"}, False),
        ({"field_order": "tt"}, True),
        ({"field_order": "unknown"}, True),
        ({"field_order": "tt", "codec_name": "vp9"}, False),
        ({"field_order": "progressive", "height": 576, "width": 720, "codec_name": "mpeg2video"}, True),
    ],
)
def test_only_what_is_in_doubt_is_looked_at(changed, is_worth_it):
    assert is_doubtful(video_of(**changed)) == is_worth_it


def test_it_is_looked_at_where_decoding_can_begin():
    def index(seconds: int, *keys: int) -> Index:
        return Index(Fraction(1, 25), array("q", range(5, 25 * seconds)), array("q", keys), 25 * seconds)

    assert places(index(2, 5, 30)) == [5]
    assert places(index(600, 5)) == [5], "one place, if there is but one"
    assert places(index(600, 5, 2000, 3000, 9000, 14_000)) == [2000, 3000, 9000]


async def test_what_cannot_be_decoded_keeps_its_mark(tools: Tools, tmp_path: Path):
    (tmp_path / "noise.mp4").write_bytes(bytes(1000))
    facts = read(report({**STREAM, "field_order": "tt"}))
    frames = Index(Fraction(1, 25), array("q", [0]), array("q", [0]), 1)
    found = await look(tools, look_at(tmp_path / "noise.mp4"), facts, frames)
    assert found.video
    assert found.video.is_interlaced
    assert found.duration_s == Fraction(10)
