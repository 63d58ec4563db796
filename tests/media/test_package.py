"""Packages, read by somebody else: every frame there, sound and picture together, rates and codecs true."""

import re
import subprocess
import xml.etree.ElementTree as ET
from array import array
from fractions import Fraction
from pathlib import Path

import pytest

from takeup.media import audio, encode, fmp4, package, plan, streams
from takeup.media.errors import MediaError
from takeup.media.plan import Plan
from takeup.media.tools import Tools
from tests.media.building import build
from tests.media.conftest import Make, frame_hashes

SHORT_S = 2


async def packed(tools: Tools, file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A package of this source, in segments of about two seconds."""
    monkeypatch.setattr(plan, "WHOLE_S", 0)
    monkeypatch.setattr(plan, "KEY_EVERY_S", 1)
    monkeypatch.setattr(plan, "KEYS_A_FRAGMENT", 2)
    return await build(tools, file, folder, segment_s=SHORT_S)


def ask(tools: Tools, *arguments: str | Path) -> list[str]:
    command = [tools.binaries.ffprobe, "-v", "error", "-of", "csv=p=0", *arguments]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert ended.stderr == ""
    return ended.stdout.split()


def decode(tools: Tools, *arguments: str | Path) -> bytes:
    command = [tools.binaries.ffmpeg, "-v", "warning", "-xerror", "-nostdin", *arguments, "-"]
    ended = subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert ended.stderr == b""
    return ended.stdout


@pytest.mark.parametrize("name", ["plain", "film", "uneven", "fast", "one frame", "late start"])
async def test_every_frame_of_every_rung_is_there_and_at_its_time(
    tools, make: Make, tmp_path, name, monkeypatch
):
    whole = await packed(tools, make(name), tmp_path, monkeypatch)
    picture = whole.picture
    assert picture
    for rung in picture.rungs:
        lines = ask(
            tools,
            "-select_streams",
            "v",
            "-show_entries",
            "frame=pts",
            tmp_path / "out" / rung.name / "index.m3u8",
        )
        shown = sorted(int(line.strip(",")) for line in lines)
        ticks = picture.rate.denominator
        assert shown == [2 * ticks + n * ticks for n in range(picture.frames)]


async def test_sound_and_picture_start_and_end_together_without_a_gap(
    tools, make: Make, tmp_path, monkeypatch
):
    whole = await packed(tools, make("plain"), tmp_path, monkeypatch)
    assert whole.picture
    master = tmp_path / "out" / package.MASTER
    starts = dict(
        line.split(",")[:2]
        for line in ask(tools, "-show_entries", "stream=codec_type,start_time", master)
        if line
    )
    silence = Fraction(audio.PACKET, audio.SAMPLE_RATE)
    assert float(starts["audio"]) + float(silence) == pytest.approx(float(starts["video"]), abs=1 / 48_000)
    sound = array("h", decode(tools, "-i", master, "-map", "0:a", "-ac", "1", "-f", "s16le"))
    played = sound[audio.PACKET :]
    assert abs(len(played) - audio.length(whole)) <= audio.PACKET
    window = audio.SAMPLE_RATE // 100
    loud = [
        max(map(abs, played[at : at + window])) for at in range(0, audio.length(whole) - 2 * window, window)
    ]
    assert min(loud[1:]) > 1000, "the tone never stops, at no joint either"


async def test_a_master_playlist_tells_the_truth(tools, make: Make, tmp_path, monkeypatch):
    whole = await packed(tools, make("languages"), tmp_path, monkeypatch)
    assert whole.picture
    out = tmp_path / "out"
    text = (out / package.MASTER).read_text()
    assert re.findall(r'TYPE=AUDIO,.*?LANGUAGE="(\w+)",DEFAULT=(\w+)', text) == [
        ("eng", "NO"),
        ("fra", "YES"),
        ("deu", "NO"),
    ]
    assert text.count("#EXT-X-I-FRAME-STREAM-INF") == len(whole.picture.rungs)
    variants = re.findall(
        r"STREAM-INF:BANDWIDTH=(\d+),AVERAGE-BANDWIDTH=(\d+),CODECS=\"(.*?)\".*\n(.*)/index", text
    )
    assert [name for *_, name in variants] == [rung.name for rung in whole.picture.rungs]
    sound = max(_sizes(out / f"sound-{n}") for n in (1, 2, 3)) * 8 / float(whole.length_s)
    for peak, mean, codecs, name in variants:
        real = _sizes(out / name) * 8 / float(whole.length_s) + sound
        assert int(mean) == pytest.approx(real, rel=0.02)
        assert int(peak) >= int(mean) * 0.99
        assert re.fullmatch(r"avc1\.6400[0-9a-f]{2},mp4a\.40\.2", codecs)
        told = ask(
            tools, "-select_streams", "v", "-show_entries", "stream=width,height", out / name / "index.m3u8"
        )
        rung = next(rung for rung in whole.picture.rungs if rung.name == name)
        assert told[0].strip(",") == f"{rung.width},{rung.height}"
        assert f"RESOLUTION={rung.width}x{rung.height}" in text


def _sizes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.m4s"))


async def test_playlists_agree_with_each_other_and_with_their_files(tools, make: Make, tmp_path, monkeypatch):
    whole = await packed(tools, make("plain"), tmp_path, monkeypatch)
    targets = set()
    for playlist in (tmp_path / "out").glob("*/index.m3u8"):
        text = playlist.read_text()
        targets.add(re.findall(r"TARGETDURATION:(\d+)", text)[0])
        lengths = [float(length) for length in re.findall(r"EXTINF:([\d.]+)", text)]
        assert max(lengths) <= int(targets.copy().pop())
        assert sum(lengths) == pytest.approx(float(whole.length_s), abs=0.05)
        files = re.findall(r"^\d+\.m4s$", text, re.MULTILINE)
        assert sorted(files) == sorted(file.name for file in playlist.parent.glob("*.m4s"))
        assert text.endswith("#EXT-X-ENDLIST\n")
    assert len(targets) == 1


async def test_a_manifest_knows_the_time_of_every_file(tools, make: Make, tmp_path, monkeypatch):
    whole = await packed(tools, make("languages"), tmp_path, monkeypatch)
    assert whole.picture
    out = tmp_path / "out"
    root = ET.parse(out / package.MANIFEST).getroot()  # noqa: S314 - we wrote it
    name = "{urn:mpeg:dash:schema:mpd:2011}"
    assert root.get("mediaPresentationDuration") == "PT8S"
    sets = root.findall(f".//{name}AdaptationSet")
    assert [found.get("lang") for found in sets] == [None, "eng", "fra", "deu"]
    for found in sets:
        template = found.find(f"{name}SegmentTemplate")
        assert template is not None
        zero, scale = int(template.get("presentationTimeOffset", "")), int(template.get("timescale", ""))
        times, place = [], 0
        for run in template.iter(f"{name}S"):
            place = int(run.get("t", place))
            for _ in range(int(run.get("r", 0)) + 1):
                times.append(place)
                place += int(run.get("d", 0))
        assert 0 <= Fraction(zero - times[0], scale) <= Fraction(audio.PACKET, audio.SAMPLE_RATE)
        assert Fraction(place - zero, scale) == pytest.approx(whole.length_s, abs=0.03)
        for one in found.iter(f"{name}Representation"):
            files = sorted((out / one.get("id", "")).glob("*.m4s"))
            assert len(files) == len(times)
            for file, time in zip(files, times, strict=True):
                data = file.read_bytes()
                at = fmp4.need(data, b"moof", b"traf", b"tfdt").content
                lead = zero if one.get("width") else 0
                assert int.from_bytes(data[at + 4 : at + 12]) + lead == time


async def test_a_key_frame_by_its_range_is_one_picture(tools, make: Make, tmp_path, monkeypatch):
    await packed(tools, make("plain"), tmp_path, monkeypatch)
    folder = next((tmp_path / "out").glob("*p"))
    found = re.findall(r"BYTERANGE:(\d+)@(\d+)\n(\S+)", (folder / "keys.m3u8").read_text())
    assert len(found) == 8
    for length, start, name in found[:3]:
        piece = (folder / name).read_bytes()[int(start) : int(start) + int(length)]
        (tmp_path / "key.mp4").write_bytes((folder / "init.mp4").read_bytes() + piece)
        assert len(frame_hashes(tools, "-i", str(tmp_path / "key.mp4"))) == 1


async def test_sound_alone_makes_a_package_too(tools, make: Make, tmp_path, monkeypatch):
    whole = await packed(tools, make("sound"), tmp_path, monkeypatch)
    assert whole.picture is None
    sound = decode(tools, "-i", tmp_path / "out" / package.MASTER, "-ac", "1", "-f", "s16le")
    assert len(sound) / 2 / audio.SAMPLE_RATE == pytest.approx(2.0, abs=0.05)
    assert "RESOLUTION" not in (tmp_path / "out" / package.MASTER).read_text()


@pytest.fixture
def strange(tools: Tools, make: Make, tmp_path: Path) -> Path:
    """A segment that another encoder made."""
    file = tmp_path / "strange.mp4"
    options = ["-an", "-c:v", "libx264", "-bf", "0", "-movflags", encode.FRAGMENTED]
    command = [tools.binaries.ffmpeg, "-v", "error", "-i", make("plain"), *options, file]
    subprocess.run(command, check=True, timeout=60)
    return file


async def test_segments_of_two_encoders_are_not_joined(
    tools, make: Make, tmp_path, monkeypatch, strange: Path
):
    whole = await packed(tools, make("plain"), tmp_path, monkeypatch)
    assert whole.picture
    first = tmp_path / "work" / "0" / f"{whole.picture.rungs[0].name}.mp4"
    movies = [fmp4.read(file.read_bytes()) for file in (first, strange)]
    with pytest.raises(MediaError, match="were not encoded alike"):
        streams.picture_stream(whole.picture, whole.picture.rungs[0], movies, lambda *_: None)
    with pytest.raises(MediaError, match="frames instead of"):
        streams.picture_stream(whole.picture, whole.picture.rungs[0], movies[:1], lambda *_: None)
