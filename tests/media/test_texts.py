"""Words of a source in its package: every text at its time, in pieces that fit those of the picture."""

import asyncio
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import m3u8
import pytest

from takeup.media import package, plan, probe, profile, texts, webvtt
from takeup.media.plan import Plan
from takeup.media.source import look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools
from tests.media.conftest import PICTURE, Make
from tests.media.test_package import ask, packed
from tests.media.test_transcode import takeup
from tests.media.worded import film, make_with, phone, record, words

__all__ = ["film", "phone", "record", "words"]

DASH = "{urn:mpeg:dash:schema:mpd:2011}"
ENGLISH = [
    webvtt.Cue(500, 1500, "<i>Hello</i> &amp; goodbye"),
    webvtt.Cue(1750, 4250, "across two edges"),
    webvtt.Cue(7000, 8000, "until the end"),
]


@pytest.fixture(scope="module")
def shown(tools: Tools, film: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    """The film as a package."""
    folder = tmp_path_factory.mktemp("shown")
    with pytest.MonkeyPatch.context() as patched:
        whole = asyncio.run(packed(tools, film, folder, patched))
    return whole, folder / "out"


def cues_of(file: Path) -> list[webvtt.Cue]:
    return webvtt.read(file.read_bytes())


def test_every_text_is_there_at_its_time_and_clean(shown):
    _, out = shown
    assert cues_of(out / "text-1" / "text.vtt") == ENGLISH
    assert cues_of(out / "text-2" / "text.vtt") == [
        webvtt.Cue(1000, 3000, "une ligne\n<b>grasse</b> --&gt; fin")
    ]
    assert cues_of(out / "text-3" / "text.vtt") == [webvtt.Cue(2000, 3000, "Sign: EXIT &lt;now&gt;")]


def test_pieces_fit_those_of_the_picture_and_hold_what_crosses_their_edges(tools: Tools, shown):
    whole, out = shown
    rung = whole.picture.rungs[0].name
    picture = m3u8.load(str(out / rung / "index.m3u8"))
    shown_at = ask(
        tools, "-select_streams", "v", "-show_entries", "frame=pts_time", out / rung / "index.m3u8"
    )
    first = min(float(line.strip(",")) for line in shown_at)
    for number in (1, 2, 3):
        text = m3u8.load(str(out / f"text-{number}" / "index.m3u8"))
        assert text.target_duration == picture.target_duration
        assert [piece.duration for piece in text.segments] == [piece.duration for piece in picture.segments]
        assert text.is_endlist
        for piece in text.segments:
            words = (out / f"text-{number}" / piece.uri).read_text()
            (ticks,) = re.findall(r"^X-TIMESTAMP-MAP=MPEGTS:(\d+),LOCAL:00:00:00.000$", words, re.MULTILINE)
            assert int(ticks) / 90_000 == pytest.approx(first, abs=1e-5)
    held = [[cue.start_ms for cue in cues_of(out / "text-1" / f"{n:05d}.vtt")] for n in (1, 2, 3, 4)]
    assert held == [[500, 1750], [1750], [1750], [7000]]


def test_somebody_else_reads_the_pieces_as_one_track(tools: Tools, shown):
    _, out = shown
    lines = ask(tools, "-show_entries", "packet=pts_time,duration_time", out / "text-1" / "index.m3u8")
    found = [tuple(round(float(part) * 1000) for part in line.split(",")[:2]) for line in lines]
    assert found == [(cue.start_ms, cue.end_ms - cue.start_ms) for cue in ENGLISH]


def test_a_master_playlist_offers_the_texts_by_language_and_name(shown):
    whole, out = shown
    master = m3u8.load(str(out / package.MASTER))
    offered = [media for media in master.media if media.type == "SUBTITLES"]
    assert [(media.language, media.default, media.forced) for media in offered] == [
        ("eng", "YES", "NO"),
        ("fra", "NO", "NO"),
        ("eng", "NO", "YES"),
    ]
    assert len({media.name for media in offered}) == 3
    assert {(media.group_id, media.autoselect) for media in offered} == {("text", "YES")}
    assert all((out / media.uri).is_file() for media in offered)
    assert len(master.playlists) == len(whole.picture.rungs)
    assert {variant.stream_info.subtitles for variant in master.playlists} == {"text"}
    lines = (out / package.MASTER).read_text().splitlines()
    assert not any("SUBTITLES" in line for line in lines if "I-FRAME-STREAM-INF" in line)


def test_a_manifest_offers_the_whole_files(shown):
    _, out = shown
    root = ET.parse(out / package.MANIFEST).getroot()  # noqa: S314 - we wrote it
    sets = root.findall(f".//{DASH}AdaptationSet")
    assert len({found.get("id") for found in sets}) == len(sets)
    offered = [found for found in sets if found.get("mimeType") == "text/vtt"]
    roles = [[role.get("value") for role in found.iter(f"{DASH}Role")] for found in offered]
    assert [found.get("lang") for found in offered] == ["eng", "fra", "eng"]
    assert roles == [["subtitle", "main"], ["subtitle"], ["forced-subtitle"]]
    files = [found.findtext(f".//{DASH}BaseURL") for found in offered]
    assert all(file and (out / file).is_file() for file in files)


def test_chapters_are_kept_on_the_time_line_of_the_result(shown):
    whole, out = shown
    assert Plan.from_json(whole.to_json()) == whole
    found = [(cue.start_ms, cue.end_ms, cue.text) for cue in cues_of(out / "chapters.vtt")]
    assert found == [(0, 3000, 'First "part" &lt;b&gt;'), (3000, 8000, "Chapter 2")]
    listed = json.loads((out / "chapters.json").read_text())
    assert [(one["start-time"], one["duration"]) for one in listed] == [(0.0, 3.0), (3.0, 5.0)]
    assert listed[0]["titles"] == [{"language": "und", "title": 'First "part" <b>'}]
    (data,) = m3u8.load(str(out / package.MASTER)).session_data
    assert (data.data_id, data.uri) == ("com.apple.hls.chapters", "chapters.json")


async def test_words_in_mp4(tools: Tools, phone: Path, tmp_path: Path):
    source = look_at(phone)
    found = await survey(tools, source)
    whole = plan.plan(found.probe, found.index, profile.load("web-h264"))
    (text,) = whole.texts
    assert (text.codec, text.language) == ("mov_text", "deu")
    assert cues_of(await texts.encode(tools, source, whole, text, tmp_path)) == ENGLISH
    assert [entry.name for entry in tmp_path.iterdir()] == [texts.name_of(text)]
    assert [chapter.start_s for chapter in whole.chapters] == [0, 3]


async def test_sound_has_words_and_chapters_too(tools: Tools, record: Path, tmp_path, monkeypatch):
    await packed(tools, record, tmp_path, monkeypatch)
    out = tmp_path / "out"
    assert cues_of(out / "text-1" / "text.vtt") == ENGLISH
    master = m3u8.load(str(out / package.MASTER))
    assert [variant.stream_info.subtitles for variant in master.playlists] == ["text"]
    assert "MPEGTS:1920," in (out / "text-1" / "00001.vtt").read_text(), "one packet of sound comes before it"
    assert len(json.loads((out / "chapters.json").read_text())) == 2
    root = ET.parse(out / package.MANIFEST).getroot()  # noqa: S314 - we wrote it
    assert [found.get("id") for found in root.iter(f"{DASH}AdaptationSet")] == ["1", "2"]


async def test_a_source_without_words_makes_no_files_of_them(tools: Tools, make: Make, tmp_path, monkeypatch):
    await packed(tools, make("sound"), tmp_path, monkeypatch)
    assert not [*(tmp_path / "out").glob("text*"), *(tmp_path / "out").glob("chapters*")]
    text = (tmp_path / "out" / package.MASTER).read_text()
    assert "SUBTITLES" not in text
    assert "SESSION-DATA" not in text


async def test_letters_that_make_no_sense_harm_nobody(tools: Tools, tmp_path: Path):
    broken = b"1\n00:00:00,500 --> 00:00:01,000\ncaf\xe9 \xff\n\n2\n00:00:01,000 --> 00:00:01,500\n"
    (tmp_path / "a.srt").write_bytes(broken + b"x" * 100_000 + b"\n")
    file = tmp_path / "a.mkv"
    make_with(tools, *PICTURE, "sine=duration=2", "-i", tmp_path / "a.srt", "-c:s", "copy", file)
    source = look_at(file)
    whole = plan.plan((await survey(tools, source)).probe, None, profile.load("web-h264"))
    cues = cues_of(await texts.encode(tools, source, whole, whole.texts[0], tmp_path))
    assert [cue.text[:10] for cue in cues] == ["caf\ufffd \ufffd", "x" * 10]
    assert len(cues[1].text) == webvtt.CUE_CHARS_MAX


def test_subtitles_that_are_pictures_are_left_out_and_told():
    sound = {"index": 0, "codec_type": "audio", "channels": 2, "time_base": "1/48000"}
    drawn = {"index": 1, "codec_type": "subtitle", "codec_name": "hdmv_pgs_subtitle"}
    report = {
        "streams": [sound, {**drawn, "tags": {"language": "ger"}}],
        "format": {"format_name": "matroska"},
    }
    whole = plan.plan(probe.read(report), None, profile.load("web-h264"))
    assert whole.texts == ()
    assert whole.notes == ("subtitle track 1 (hdmv_pgs_subtitle, ger) is not text and is left out",)


async def test_a_copy_that_can_be_cut_keeps_the_languages(tools: Tools, make: Make, tmp_path: Path):
    file = tmp_path / "a.ts"
    make_with(tools, "-i", make("plain"), "-c", "copy", "-metadata:s:a:0", "language=fra", file)
    found = await survey(tools, look_at(file), tmp_path / "copy.mkv")
    assert found.is_copied
    assert [track.language for track in found.probe.audio] == ["fra"]


def test_a_dry_run_lists_the_texts(film: Path, tmp_path: Path):
    ran = takeup(tmp_path, "transcode", film, "--dry-run")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"3 +eng +- +yes", ran.stdout)
    assert "2 chapters" in ran.stderr
