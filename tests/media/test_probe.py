"""What the tools say of real sources, and what becomes of reports that make no sense."""

import json
from array import array
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeup.media import index, probe, words
from takeup.media.errors import MediaError, NotMedia, TooLarge
from takeup.media.source import look_at
from tests.media.conftest import Make

STREAM = {
    "index": 0,
    "codec_type": "video",
    "codec_name": "h264",
    "width": 640,
    "height": 360,
    "pix_fmt": "yuv420p",
    "avg_frame_rate": "25/1",
    "time_base": "1/12800",
}


def report(*streams: dict, **form: object) -> dict:
    return {"streams": list(streams), "format": {"format_name": "mov", "duration": "10.0", **form}}


async def test_tracks_languages_and_times(tools, make: Make):
    found = await probe.probe(tools, look_at(make("languages")))
    assert [track.language for track in found.audio] == ["eng", "fra", "deu"]
    assert [track.is_default for track in found.audio] == [False, True, False]
    assert found.video
    assert (found.video.width, found.video.height, found.video.rate) == (320, 180, 25)
    assert float(found.duration_s) == pytest.approx(8, abs=0.1)


async def test_what_is_special_about_a_picture(tools, make: Make):
    async def video(name: str) -> probe.Video:
        found = await probe.probe(tools, look_at(make(name)))
        assert found.video
        return found.video

    assert (await video("wide pixels")).pixel_shape == Fraction(16, 11)
    assert (await video("fields")).is_interlaced
    assert not (await video("plain")).is_interlaced
    ten_bit = await video("ten bit")
    assert (ten_bit.bit_depth, ten_bit.hdr, ten_bit.colour.primaries) == (10, "pq", "bt2020")
    assert (await video("late start")).start_s == pytest.approx(Fraction("5.3"), abs=0.1)


async def test_a_source_of_sound_alone(tools, make: Make):
    found = await probe.probe(tools, look_at(make("sound")))
    assert found.video is None
    assert [(track.channels, track.sample_rate) for track in found.audio] == [(1, 44100)]


async def test_the_frames_of_real_sources(tools, make: Make):
    counts = {"plain": 200, "film": 192, "one frame": 1, "webm": 200}
    for name, count in counts.items():
        source = look_at(make(name))
        video = (await probe.probe(tools, source)).video
        assert video
        frames = await index.index(tools, source, video.stream, video.time_base)
        assert (frames.count, frames.is_even, frames.has_all_times) == (count, True, True), name
        assert frames.keys[0] == frames.shown[0]
    source = look_at(make("uneven"))
    uneven = await index.index(tools, source, 0, Fraction(1, 1000))
    assert not uneven.is_even


@pytest.mark.parametrize(
    ("turn", "size"), [(90, (360, 640)), (-90, (360, 640)), (180, (640, 360)), (0, (640, 360))]
)
def test_a_turned_picture_is_measured_as_it_is_shown(turn, size):
    side = [{"side_data_type": "Display Matrix", "rotation": turn}]
    video = probe.read(report({**STREAM, "sample_aspect_ratio": "2:1", "side_data_list": side})).video
    assert video
    assert (video.width, video.height) == size
    assert video.pixel_shape == (Fraction(1, 2) if turn % 180 else 2)


def test_covers_are_no_picture_and_the_largest_track_is_taken():
    cover = {**STREAM, "index": 1, "width": 3000, "height": 3000, "disposition": {"attached_pic": 1}}
    small = {**STREAM, "index": 2, "width": 320, "height": 180}
    video = probe.read(report(small, cover, STREAM)).video
    assert video
    assert video.stream == 0
    with pytest.raises(NotMedia):
        probe.read(report(cover))


def test_labels_of_strangers_are_cleaned():
    tags = {"LANGUAGE": "en\x1b[31m", "title": "a\nb\x00" + "c" * 10_000}
    sound = {"index": 1, "codec_type": "audio", "channels": 2, "time_base": "1/48000", "tags": tags}
    (track,) = probe.read(report(STREAM, sound)).audio
    assert track.language == ""
    assert track.title.startswith("a b c")
    assert len(track.title) == words.TEXT_CHARS_MAX


@pytest.mark.parametrize(
    ("changed", "form", "says"),
    [
        ({}, {"duration": "1000000"}, "lasts 1000000 s"),
        ({"width": 100_000}, {}, "shown as 100000×360"),
        ({"avg_frame_rate": "1000/1"}, {}, "1000 frames a second"),
    ],
)
def test_more_than_the_limits_allow(changed, form, says):
    with pytest.raises(TooLarge, match=says):
        probe.read(report({**STREAM, **changed}, **form))


def test_a_picture_without_size_makes_no_sense():
    with pytest.raises(MediaError):
        probe.read(report({**STREAM, "width": 0}))


def test_an_index_leaves_out_what_an_edit_list_cuts_away():
    lines = ["0,512,K_D", "1024,512,_D_", "512,512,K__", "1536,512,___", "1024,512,___"]
    frames = index.read(lines, Fraction(1, 12800))
    assert (list(frames.shown), list(frames.keys), frames.end) == ([512, 1024, 1536], [512], 2048)
    assert frames.key_before(5000) == frames.key_before(0) == 512


def test_an_index_tells_of_frames_without_a_time():
    frames = index.read(["0,1,K__", "N/A,1,___", "2,N/A,___"], Fraction(1, 25))
    assert (frames.has_all_times, frames.count, frames.end) == (False, 2, 4)
    assert list(index.read(["5,1,___", "6,1,___"], Fraction(1, 25)).keys) == [5], "from the first on"
    for lines in (["N/A,1,K__"], []):
        with pytest.raises(MediaError):
            index.read(lines, Fraction(1, 25))


@given(st.lists(st.integers(-(1 << 40), 1 << 40), min_size=1, unique=True), st.integers(1, 5))
def test_an_index_is_stored_without_loss(times: list[int], every: int):
    shown = array("q", sorted(times))
    kept = index.Index(Fraction(1001, 30_000), shown, shown[::every], shown[-1] + 7, has_all_times=every > 1)
    assert index.Index.from_json(json.loads(json.dumps(kept.to_json()))) == kept


def test_an_even_index_is_stored_in_a_line():
    shown = array("q", range(0, 512 * 1_000_000, 512))
    kept = index.Index(Fraction(1, 12_800), shown, shown[::250], shown[-1] + 512)
    assert len(json.dumps(kept.to_json())) < 200


def test_which_containers_can_be_cut_where_they_are():
    assert index.is_seekable("mov,mp4,m4a,3gp,3g2,mj2")
    assert index.is_seekable("matroska,webm")
    assert not index.is_seekable("mpegts")
