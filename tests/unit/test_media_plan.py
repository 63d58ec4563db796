"""Plans: one rate, one grid, every frame in one segment, and sizes that fit the source."""

import json
from array import array
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeup.media import profile
from takeup.media.index import Index
from takeup.media.ladder import ladder
from takeup.media.plan import RATE_MAX, RATES, Plan, constant_rate, is_plain, plan, vain_s
from takeup.media.probe import Audio, Colour, Probe, Text, Video
from takeup.media.profile import InvalidProfile

WEB = profile.load("web-h264")
(H264,) = WEB.families
TICK = Fraction(1, 90_000)


def even(
    rate: Fraction, count: int, *, time_base: Fraction = TICK, start: int = 0, key_every: int = 50
) -> Index:
    """A source of this many frames, each at the nearest tick."""
    over, under = (rate * time_base).as_integer_ratio()
    shown = array("q", (start + (2 * n * under + over) // (2 * over) for n in range(count + 1)))
    return Index(time_base, shown[:-1], shown[:-1:key_every], shown[-1])


def source(width: int = 1920, height: int = 1080, *, shape: Fraction = Fraction(1), hdr=None) -> Probe:
    video = Video(
        stream=0,
        codec="h264",
        width=width,
        height=height,
        pixel_shape=shape,
        rotation=0,
        pixel_format="yuv420p",
        bit_depth=8,
        rate=Fraction(25),
        time_base=TICK,
        start_s=Fraction(0),
        duration_s=None,
        frames=0,
        field_order="progressive",
        is_interlaced=False,
        colour=Colour(),
        hdr=hdr,
    )
    audio = (
        Audio(1, "aac", 48_000, 2, "eng", "", Fraction(0), is_default=False, is_descriptive=False),
        Audio(2, "ac3", 48_000, 8, "fra", "", Fraction(0), is_default=True, is_descriptive=False),
    )
    texts = (Text(3, "subrip", "eng", "", is_default=False, is_forced=False),)
    return Probe("mov", Fraction(10), video, audio, texts, ())


@pytest.mark.parametrize(
    ("changed", "plain"),
    [
        ({}, True),
        ({"colour": Colour("tv", "bt709", "bt709", "bt709")}, True),
        ({"colour": Colour("pc", "bt709")}, False),
        ({"colour": Colour("tv", "smpte170m")}, False),
        ({"pixel_format": "yuvj420p"}, False),
        ({"pixel_format": "yuv420p10le"}, False),
        ({"width": 640, "height": 360}, False),
        ({"hdr": "pq"}, False),
    ],
)
def test_plain_pictures_are_those_that_need_no_conversion(changed: dict, plain: bool):  # noqa: FBT001
    """A small picture that says nothing is taken for BT.601, as players do."""
    video = source().video
    assert video is not None
    assert is_plain(replace(video, **changed)) is plain


def sizes(*picture: int, shape: Fraction = Fraction(1)) -> list[tuple[int, int]]:
    return [(rung.width, rung.height) for rung in ladder(*picture, shape, Fraction(30), H264)]


def test_sizes_go_by_the_short_side_and_never_above_the_source():
    usual = [(1920, 1080), (1280, 720), (854, 480), (640, 360), (426, 240)]
    assert sizes(1920, 1080) == usual
    assert sizes(1080, 1920) == [(height, width) for width, height in usual]
    assert sizes(3840, 2160) == [(3840, 2160), (2560, 1440), *usual]
    assert sizes(7680, 4320)[0] == (3840, 2160)
    assert sizes(2560, 1080)[:2] == [(2560, 1080), (1706, 720)]
    assert sizes(640, 480) == [(640, 480), (480, 360), (320, 240)]


def test_a_rung_is_made_of_the_one_twice_as_large_that_is_made_of_the_source():
    def via(*picture: int) -> list[tuple[str, str]]:
        return [(rung.size, rung.via) for rung in ladder(*picture, Fraction(1), Fraction(30), H264)]

    assert via(1920, 1080) == [
        ("1920x1080", ""),
        ("1280x720", ""),
        ("854x480", ""),
        ("640x360", "1280x720"),
        ("426x240", "854x480"),
    ]
    assert dict(via(3840, 2160))["640x360"] == "", "the rung of 720 lines is made of another one itself"


def test_a_source_between_two_sizes_gets_a_rung_of_its_own():
    assert sizes(1600, 900)[:2] == [(1600, 900), (1280, 720)]
    assert sizes(1300, 740)[0] == (1264, 720), "too near to the next size to be worth it"
    own, below = ladder(1600, 900, Fraction(1), Fraction(30), H264)[:2]
    assert own.name == "900p"
    assert below.max_kbps < own.max_kbps < H264.rungs[2].max_kbps


@pytest.mark.parametrize(
    ("picture", "found"), [((2, 2), [(2, 2)]), ((161, 91), [(160, 90)]), ((1, 1), [(2, 2)])]
)
def test_tiny_and_odd_pictures(picture, found):
    assert sizes(*picture) == found


def test_pixels_become_square_and_no_side_is_lost():
    assert sizes(720, 576, shape=Fraction(64, 45))[0] == (1024, 576)
    assert sizes(1440, 1080, shape=Fraction(4, 3))[0] == (1920, 1080)
    assert sizes(720, 480, shape=Fraction(8, 9))[0] == (640, 480), "540 lines are too near to 480"


@given(st.integers(1, 8192), st.integers(1, 8192), st.sampled_from(RATES))
def test_every_ladder_is_even_falling_and_no_larger(width: int, height: int, rate: Fraction):
    rungs = ladder(width, height, Fraction(1), rate, H264)
    assert rungs
    for rung in rungs:
        assert rung.width % 2 == rung.height % 2 == 0
        assert min(rung.width, rung.height) <= min(width, height) + 1
        assert rung.max_kbps > 0
    assert [rung.height for rung in rungs] == sorted({rung.height for rung in rungs}, reverse=True)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("time_base", [TICK, Fraction(1, 1000)])
def test_a_usual_rate_is_found_however_coarse_the_clock(rate: Fraction, time_base: Fraction):
    assert constant_rate(even(rate, 2000, time_base=time_base, start=7)) == rate


def test_other_rates():
    assert constant_rate(even(Fraction(15), 100)) == 15
    assert constant_rate(even(Fraction(15, 2), 100, time_base=Fraction(1, 1000))) == Fraction(15, 2)
    assert constant_rate(even(Fraction(1, 700), 3)) == Fraction(1, 700)
    assert constant_rate(even(Fraction(120), 500)) == 60
    assert constant_rate(even(Fraction(120_000, 1001), 500)) == Fraction(60_000, 1001)
    assert constant_rate(even(Fraction(1000), 5000)) <= RATE_MAX
    assert constant_rate(even(Fraction(25), 1)) == 25
    dropped = even(Fraction(30), 900)
    gappy = Index(
        TICK, array("q", (t for n, t in enumerate(dropped.shown) if n % 11)), dropped.keys, dropped.end
    )
    assert constant_rate(gappy) == 30


@given(
    st.sampled_from(RATES),
    st.integers(1, 9_000),
    st.integers(1, 600),
    st.sampled_from([2.0, 12.0, 30.0, 45.5]),
)
def test_segments_cover_every_frame_once_on_the_grid(
    rate: Fraction, count: int, key_every: int, segment_s: float
):
    index = even(rate, count, key_every=key_every)
    picture = plan(source(), index, WEB, segment_s=segment_s).picture
    assert picture
    assert picture.frames == count
    first = 0
    for number, segment in enumerate(picture.segments):
        assert (segment.number, segment.first) == (number, first)
        assert segment.first % picture.fragment == 0
        assert segment.count > 0
        assert segment.seek in index.keys
        assert segment.seek <= index.shown[segment.first]
        first += segment.count
    assert first == count
    assert picture.fragment == 3 * picture.keys_every


def test_a_short_source_is_not_cut_and_a_long_one_at_its_keys():
    short = plan(source(), even(Fraction(25), 1499), WEB).picture
    assert short
    assert len(short.segments) == 1
    few = plan(source(), even(Fraction(25), 2000, key_every=300), WEB).picture
    assert few
    assert [segment.count for segment in few.segments] == [750, 600, 650]
    index = even(Fraction(25), 25 * 600, key_every=300)
    cut = plan(source(), index, WEB).picture
    assert cut
    on_keys = [index.shown[segment.first] in index.keys for segment in cut.segments]
    assert sum(on_keys) > len(on_keys) / 2
    assert all(15 <= segment.count / 25 <= 45 for segment in cut.segments)


def test_far_from_a_key_there_are_fewer_cuts():
    seconds = 3600
    picture = plan(source(), even(Fraction(25), 25 * seconds, key_every=25 * seconds), WEB).picture
    assert picture
    in_vain = [vain_s(picture, segment) for segment in picture.segments]
    assert in_vain == [segment.first / picture.rate for segment in picture.segments], "there is one key"
    assert sum(in_vain) <= 2 * seconds
    assert len(in_vain) > 4


def test_sound_and_text():
    found = plan(source(), even(Fraction(25), 100), WEB)
    assert [(s.channels, s.kbps, s.language, s.is_default) for s in found.sounds] == [
        (2, 128, "eng", False),
        (6, 384, "fra", True),
    ]
    assert [text.language for text in found.texts] == ["eng"]
    alone = plan(Probe("wav", Fraction(5), None, source().audio, (), ()), None, WEB)
    assert (alone.picture, alone.length_s) == (None, 5)


def test_a_plan_survives_its_file():
    for probe in (source(), source(hdr="pq"), Probe("wav", Fraction(5), None, source().audio, (), ())):
        made = plan(probe, even(Fraction(30_000, 1001), 5000) if probe.video else None, WEB)
        assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made
    assert plan(source(hdr="hlg"), even(Fraction(25), 50), WEB).picture.tone_map


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"encoder": "libx264 -vf evil"}, "encoder 'libx264 -vf evil' is not one of"),
        ({"encoder": "libx265"}, "encoder 'libx265' is not one of auto, hardware, libx264"),
        ({"codec": "vp6"}, "codec 'vp6' is not one of"),
        ({"preset": 3}, "preset 3 is not one of"),
        ({"range": "hdr"}, "h264 is for sdr"),
        ({"critical": "maybe"}, "critical 'maybe' is not one of"),
        ({"rungs": []}, "the number of rungs 0"),
        ({"rungs": [{"short": 720, "crf": 23, "max_kbps": 0}]}, "max_kbps 0 is not a whole number"),
        ({"rungs": [{"short": 720, "crf": 23}]}, "rungs: max_kbps is missing"),
        ({"rungs": [{"short": 720, "crf": 23, "max_kbps": 9}] * 2}, "two rungs have the same short side"),
        ({"filters": "x"}, "families: filters is not known"),
    ],
)
def test_a_profile_holds_names_and_numbers_only(change, says):
    family = {
        "codec": "h264",
        "encoder": "libx264",
        "preset": "fast",
        "range": "sdr",
        "critical": True,
        "rungs": [{"short": 720, "crf": 23, "max_kbps": 2000}],
    }
    good = {"name": "mine", "audio": {"codec": "aac", "kbps_a_channel": 64}, "families": [family]}
    assert profile.read(good).families[0].rungs[0].short == 720
    with pytest.raises(InvalidProfile) as told:
        profile.read({**good, "families": [{**family, **change}]})
    assert says in str(told.value)
    with pytest.raises(InvalidProfile, match="two families have the same codec and range"):
        profile.read({**good, "families": [family, family]})
    with pytest.raises(InvalidProfile, match="the profile: filters is not known"):
        profile.read({**good, "filters": "x"})
    with pytest.raises(InvalidProfile, match="loudness_lufs 3 is not a whole number"):
        profile.read({**good, "audio": {**good["audio"], "loudness_lufs": 3}})


def test_profiles_by_name_and_from_a_file(tmp_path):
    assert "web-h264" in profile.names()
    with pytest.raises(InvalidProfile, match="there is no profile 'web-h265'; there are: "):
        profile.load("web-h265")
    (tmp_path / "broken.toml").write_text("name = ")
    with pytest.raises(InvalidProfile, match="is not TOML"):
        profile.load(str(tmp_path / "broken.toml"))
    with pytest.raises(InvalidProfile, match="cannot be read"):
        profile.load(str(tmp_path / "gone.toml"))
