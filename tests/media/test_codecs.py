"""Several codecs and ranges of one source: one grid, true names and colours, failures that stay small."""

import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from takeup.media import audio, buffer, encode, fmp4, package, plan, profile
from takeup.media.choice import choose, chosen
from takeup.media.codecs import Colours, codec_of, colours_of
from takeup.media.encode import Made
from takeup.media.errors import MediaError, NoTools
from takeup.media.plan import Plan
from takeup.media.profile import Profile
from takeup.media.source import Source, look_at
from takeup.media.survey import survey
from takeup.media.tools import Progress, Tools
from tests.media.conftest import PICTURE, Make, frame_hashes

HEVC = profile.Family("hevc", "auto", "ultrafast", "sdr", critical=False, rungs=(profile.Step(180, 28, 400),))


async def planned(tools: Tools, file: Path, wanted: Profile, segment_s: float = 2) -> tuple[Source, Plan]:
    source = look_at(file)
    seen = await survey(tools, source)
    made = plan.plan(seen.probe, seen.index, await choose(tools.binaries, wanted), segment_s=segment_s)
    return source, made


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even short sources are cut."""
    monkeypatch.setattr(plan, "WHOLE_S", 0)
    monkeypatch.setattr(plan, "KEYS_A_FRAGMENT", 1)


async def every(tools: Tools, source: Source, whole: Plan, folder: Path) -> list[Made]:
    assert whole.picture
    made = []
    for segment in whole.picture.segments:
        (folder / str(segment.number)).mkdir(parents=True)
        made.append(await encode.encode(tools, source, whole, segment, folder / str(segment.number)))
    return made


def facts(tools: Tools, *files: Path) -> str:
    """What a stranger reads in these files, joined."""
    joined = files[0].parent / "joined.mp4"
    joined.write_bytes(b"".join(file.read_bytes() for file in files))
    command = [tools.binaries.ffprobe, "-v", "quiet", "-show_streams", joined]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def first_pixel(tools: Tools, file: Path) -> bytes:
    command = [tools.binaries.ffmpeg, "-v", "error", "-i", file, "-frames:v", "1", "-f", "rawvideo"]
    command += ["-vf", "scale=1:1:in_color_matrix=bt709,format=rgb24", "-"]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout


@pytest.mark.usefixtures("cut")
async def test_every_codec_has_its_keys_at_the_same_places(tools: Tools, make: Make, tmp_path: Path):
    multi = profile.load("web-multi")
    wanted = replace(multi, families=(*multi.families, HEVC))
    source, whole = await planned(tools, make("plain"), wanted)
    assert whole.picture
    assert [rung.name for rung in whole.picture.rungs] == ["180p", "180p-av1", "180p-hevc"]
    made = await every(tools, source, whole, tmp_path / "once")
    assert all(not one.failed for one in made)
    inits, grids = {}, set()
    for rung in whole.picture.rungs:
        movies = [fmp4.read(one.files[rung.name].read_bytes()) for one in made]
        (inits[rung.name],) = {movie.init for movie in movies}
        grids.add(str([(movie.count, movie.keys) for movie in movies]))
    assert len(grids) == 1
    assert re.fullmatch(r"avc1\.6400[0-9a-f]{2}", codec_of(inits["180p"]))
    assert re.fullmatch(r"av01\.0\.\d\dM\.08", codec_of(inits["180p-av1"]))
    assert re.fullmatch(r"hvc1\.1\.6\.L\d+\.90", codec_of(inits["180p-hevc"]))
    assert {colours_of(init) for init in inits.values()} == {Colours(1, 1, 1, is_full=False)}
    again = await every(tools, source, whole, tmp_path / "again")
    for first, second in zip(made, again, strict=True):
        assert {name: file.read_bytes() for name, file in first.files.items()} == {
            name: file.read_bytes() for name, file in second.files.items()
        }
    _package(whole, made, tmp_path)
    hevc = tmp_path / "180p-hevc" / "index.m3u8"
    assert len(frame_hashes(tools, "-i", str(hevc))) == whole.picture.frames
    assert re.findall(r"(\w+)p?[-\w]*/index", (tmp_path / package.MASTER).read_text())[0] == "180p"
    manifest = ET.parse(tmp_path / package.MANIFEST).getroot()  # noqa: S314 - we wrote it
    sets = manifest.findall(".//{*}AdaptationSet[@contentType='video']")
    assert [[one.get("id") for one in found.iter() if "width" in one.attrib] for found in sets] == [
        ["180p"],
        ["180p-av1"],
        ["180p-hevc"],
    ]


def _package(whole: Plan, made: list[Made], folder: Path) -> None:
    package.package(replace(whole, sounds=()), [one.files for one in made], {}, folder)


async def test_hdr_stays_hdr_beside_a_ladder_for_every_screen(tools: Tools, make: Make, tmp_path: Path):
    source, whole = await planned(tools, make("hdr10"), profile.load("hdr"))
    made = await every(tools, source, whole, tmp_path / "work")
    _package(whole, made, tmp_path)
    master = (tmp_path / package.MASTER).read_text()
    assert re.findall(r'CODECS="(\S+)",RES.*VIDEO-RANGE=(\w+),CLOSED', master)[1] == (
        "av01.0.00M.10.0.110.09.16.09.0",
        "PQ",
    )
    bright = facts(tools, *(tmp_path / "180p-av1-hdr" / name for name in ("init.mp4", "00001.m4s")))
    for told in (
        "pix_fmt=yuv420p10le",
        "color_transfer=smpte2084",
        "color_primaries=bt2020",
        "color_space=bt2020nc",
        "red_x=34000/50000",
        "max_content=1000",
    ):
        assert told in bright
    plain = facts(tools, *(tmp_path / "180p" / name for name in ("init.mp4", "00001.m4s")))
    for told in ("pix_fmt=yuv420p\n", "color_transfer=bt709", "color_primaries=bt709", "color_space=bt709"):
        assert told in plain
    assert "max_content" not in plain
    essential = re.findall(r'cicp:(\w+)" value="(\d+)"', (tmp_path / package.MANIFEST).read_text())
    assert dict(essential) == {
        "ColourPrimaries": "9",
        "TransferCharacteristics": "16",
        "MatrixCoefficients": "9",
    }


async def test_a_large_hdr_source(tools: Tools, make: Make, tmp_path: Path):
    source, whole = await planned(tools, make("2160p hdr10"), profile.load("hdr"))
    assert whole.picture
    largest = replace(whole.picture, rungs=tuple(r for r in whole.picture.rungs if r.name == "2160p-av1-hdr"))
    (made,) = await every(tools, source, replace(whole, picture=largest), tmp_path)
    (file,) = made.files.values()
    assert fmp4.read(file.read_bytes()).count == 5
    assert codec_of(file.read_bytes()) == "av01.0.12M.10.0.110.09.16.09.0"


async def test_a_source_that_is_not_hdr_gets_no_hdr(tools: Tools, make: Make):
    _, whole = await planned(tools, make("plain"), profile.load("hdr"))
    assert whole.picture
    assert {rung.range for rung in whole.picture.rungs} == {"sdr"}
    only = replace(profile.load("hdr"), families=profile.load("hdr").families[1:])
    with pytest.raises(MediaError, match="is for HDR alone"):
        await planned(tools, make("plain"), only)


async def test_sound_alone_of_a_source_with_a_picture(tools: Tools, make: Make):
    _, whole = await planned(tools, make("plain"), profile.load("audio"))
    assert whole.picture is None
    assert len(whole.sounds) == 1
    with pytest.raises(MediaError, match="makes sound, and the source has none"):
        await planned(tools, make("ntsc"), profile.load("audio"))


async def test_what_is_not_critical_fails_alone(tools: Tools, make: Make, tmp_path: Path):
    source, whole = await planned(tools, make("plain"), profile.load("web-multi"))
    assert whole.picture
    critical, other = whole.picture.rungs
    heard: list[Progress] = []
    broken = replace(whole.picture, rungs=(critical, replace(other, encoder="av1_nvenc", preset="p5")))
    made = await encode.encode(
        tools,
        source,
        replace(whole, picture=broken),
        broken.segments[0],
        tmp_path,
        on_progress=heard.append,
    )
    assert (list(made.files), list(made.failed)) == (["180p"], ["180p-av1"])
    assert "\n" not in made.failed["180p-av1"]
    assert [p.frames for p in heard] == sorted(p.frames for p in heard)
    assert package.complete(replace(whole, picture=broken), [made.files]) == [critical]
    with pytest.raises(MediaError, match="some segments of 180p are missing"):
        package.complete(whole, [{"180p-av1": tmp_path}])
    worse = replace(broken, rungs=(replace(critical, encoder="h264_nvenc", preset="p5"), other))
    with pytest.raises(MediaError):
        await encode.encode(tools, source, replace(whole, picture=worse), worse.segments[0], tmp_path)


def test_an_encoder_is_chosen_once_by_what_works():
    wanted = replace(profile.load("web-multi"))
    hard = replace(wanted, families=tuple(replace(family, encoder="hardware") for family in wanted.families))
    both = {("libx264", "sdr"), ("h264_qsv", "sdr"), ("libsvtav1", "sdr")}
    found = [(family.encoder, family.preset) for family in chosen(hard, both).families]
    assert found == [("h264_qsv", "medium"), ("libsvtav1", "8")]
    assert [family.codec for family in chosen(wanted, {("libx264", "sdr")}).families] == ["h264"]
    with pytest.raises(NoTools, match="no encoder that works for h264 in sdr"):
        chosen(wanted, {("libsvtav1", "sdr")})


async def test_large_rungs_are_not_made_at_once(tools: Tools, make: Make):
    _, whole = await planned(tools, make("2160p hdr10"), profile.load("hdr"))
    assert whole.picture
    found = [[rung.name for rung in batch] for batch in encode.batches(whole.picture.rungs)]
    assert found == [
        ["1080p", "720p", "480p", "360p", "240p"],
        ["2160p-av1-hdr"],
        ["1440p-av1-hdr", "1080p-av1-hdr", "720p-av1-hdr"],
    ]


async def test_colours_of_an_old_source_are_converted_and_told(tools: Tools, make: Make, tmp_path: Path):
    source, whole = await planned(tools, make("old colours"), profile.load("web-h264"))
    (made,) = await every(tools, source, whole, tmp_path)
    assert colours_of(made.files["180p"].read_bytes()) == Colours(1, 1, 1, is_full=False)
    red, green, blue = first_pixel(tools, made.files["180p"])
    assert red > 245
    assert max(green, blue) < 8


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("codec", ["h264", "hevc", "av1"])
async def test_joined_segments_never_empty_the_buffer_of_a_player(
    tools: Tools, make: Make, tmp_path: Path, codec: str
):
    presets = {"h264": "veryfast", "hevc": "ultrafast", "av1": "10"}
    family = replace(HEVC, codec=codec, preset=presets[codec])
    noisy = make("noisy")
    source, whole = await planned(tools, noisy, replace(profile.load("web-h264"), families=(family,)))
    assert whole.picture
    made = await every(tools, source, whole, tmp_path)
    (rung,) = whole.picture.rungs
    movies = [fmp4.read(one.files[rung.name].read_bytes()) for one in made]
    sizes = [sample.size for movie in movies for part in movie.fragments for sample in part.samples]
    assert len(movies) > 4
    assert sum(sizes) * 8 / 12 > rung.max_kbps * 600, "the limit is felt"
    assert buffer.lowest_fill(sizes, whole.picture.rate, rung.max_kbps, rung.buffer_kbits) >= 0


def test_a_buffer_is_filled_steadily_and_emptied_by_pictures():
    rate = Fraction(25)
    assert buffer.lowest_fill([500] * 250, rate, 100, 200) == Fraction(9, 10) - Fraction(4, 200)
    assert buffer.lowest_fill([505] * 25_000, rate, 100, 200) < 0
    assert buffer.lowest_fill([0, 0, 26_000], rate, 100, 200) < 0, "no more than it can hold"


async def test_loudness_is_measured_and_brought_to_a_target(tools: Tools, make: Make, tmp_path: Path):
    folder = tmp_path / "a [b],c;d:e'f\\g"
    folder.mkdir()
    web = profile.load("web-h264")
    source, whole = await planned(tools, make("uneven loudness"), web)
    (sound,) = whole.sounds
    plain = await audio.encode(tools, source, whole, sound, folder)
    assert plain.loudness.peak_dbtp == pytest.approx(-6, abs=0.2), "the peak of all, not of the last moment"
    assert (plain.gain_db, -35 < plain.loudness.integrated_lufs < -10) == (0, True)
    count = audio.load(plain.path).movie.count
    quieter = await audio.encode(tools, source, whole, replace(sound, loudness_lufs=-30), folder)
    assert quieter.loudness.integrated_lufs == pytest.approx(-30, abs=0.1)
    louder = await audio.encode(tools, source, whole, replace(sound, loudness_lufs=-5), folder)
    assert louder.loudness.peak_dbtp == pytest.approx(-1, abs=0.1), "not louder than its peaks allow"
    assert audio.load(louder.path).movie.count == count
    assert [entry.name for entry in folder.iterdir()] == [louder.path.name]


@pytest.mark.parametrize(
    ("encoder", "name"),
    [("libopus", "Opus"), ("ac3", "ac-3"), ("eac3", "ec-3"), ("flac", "fLaC"), ("aac", "mp4a.40.2")],
)
def test_codecs_of_sound_that_others_made(tools: Tools, tmp_path: Path, encoder: str, name: str):
    file = tmp_path / "sound.mp4"
    command = [*PICTURE, "sine=duration=0.2:sample_rate=48000", "-c:a", encoder, "-strict", "-2"]
    command += ["-movflags", "+empty_moov+frag_keyframe+delay_moov", file]
    ran = subprocess.run([tools.binaries.ffmpeg, "-v", "error", *command], check=False, timeout=60)
    assert ran.returncode == 0
    assert codec_of(file.read_bytes()) == name


def test_a_codec_that_nobody_knows_and_one_cut_off(tools: Tools, make: Make):
    init = make("plain").read_bytes()
    with pytest.raises(MediaError, match="the codec 'xxxx' is not known"):
        codec_of(init.replace(b"avc1", b"xxxx"))
    with pytest.raises(MediaError, match="avcC is missing"):
        codec_of(init.replace(b"avcC", b"xxxx"))
