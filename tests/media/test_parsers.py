"""Packages, read by parsers that are not ours: what they find is what the folder holds."""

from fractions import Fraction
from pathlib import Path

import m3u8
import pytest
from mpegdash.parser import MPEGDASHParser

from takeup.media import package
from takeup.media.plan import Plan
from tests.media.conftest import Make
from tests.media.test_package import packed


@pytest.fixture
async def whole(tools, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A package with three languages, in `out`."""
    return await packed(tools, make("languages"), tmp_path, monkeypatch)


def test_a_parser_of_hls_finds_every_stream_and_every_piece(whole: Plan, tmp_path: Path):
    out = tmp_path / "out"
    picture = whole.picture
    assert picture
    master = m3u8.load(str(out / package.MASTER))
    assert master.is_variant
    assert master.is_independent_segments
    assert [
        (one.uri, one.stream_info.resolution, one.stream_info.frame_rate) for one in master.playlists
    ] == [
        (f"{rung.name}/index.m3u8", (rung.width, rung.height), float(picture.rate)) for rung in picture.rungs
    ]
    for one in master.playlists:
        told = one.stream_info
        assert (told.audio, told.closed_captions, told.video_range) == ("sound", "NONE", "SDR")
        assert told.average_bandwidth <= told.bandwidth
        assert [media.language for media in one.media] == ["eng", "fra", "deu"]
    assert [(media.type, media.uri, media.default) for media in master.media] == [
        ("AUDIO", f"sound-{number}/index.m3u8", "YES" if number == 2 else "NO") for number in (1, 2, 3)
    ]
    assert [one.uri for one in master.iframe_playlists] == [
        f"{rung.name}/keys.m3u8" for rung in picture.rungs
    ]
    for uri in [*(one.uri for one in master.playlists), *(media.uri for media in master.media)]:
        listing = m3u8.load(str(out / uri))
        assert (listing.playlist_type, listing.is_endlist, listing.media_sequence) == ("vod", True, 1)
        assert sum(piece.duration for piece in listing.segments) == pytest.approx(
            float(whole.length_s), abs=0.05
        )
        assert max(round(piece.duration) for piece in listing.segments) <= listing.target_duration
        folder = (out / uri).parent
        assert (folder / listing.segment_map[0].uri).is_file()
        assert sorted(piece.uri for piece in listing.segments) == sorted(f.name for f in folder.glob("*.m4s"))


def test_a_parser_of_dash_finds_every_stream_and_every_piece(whole: Plan, tmp_path: Path):
    out = tmp_path / "out"
    picture = whole.picture
    assert picture
    manifest = MPEGDASHParser.parse(str(out / package.MANIFEST))
    assert (manifest.type, manifest.media_presentation_duration) == (
        "static",
        f"PT{float(whole.length_s):g}S",
    )
    (period,) = manifest.periods
    pictures, *sounds = period.adaptation_sets
    assert [(one.id, one.width, one.height) for one in pictures.representations] == [
        (rung.name, rung.width, rung.height) for rung in picture.rungs
    ]
    assert [one.lang for one in sounds] == ["eng", "fra", "deu"]
    for found in period.adaptation_sets:
        (template,) = found.segment_templates
        (line,) = template.segment_timelines
        lengths = [run.d for run in line.Ss for _ in range((run.r or 0) + 1)]
        length = Fraction(sum(lengths), template.timescale)
        assert length == pytest.approx(whole.length_s, abs=0.05)
        for one in found.representations:
            named = template.media.replace("$RepresentationID$", one.id)
            numbers = range(template.start_number, template.start_number + len(lengths))
            pieces = [out / named.replace("$Number%05d$", f"{number:05d}") for number in numbers]
            assert pieces == sorted((out / one.id).glob("*.m4s"))
            assert sum(piece.stat().st_size for piece in pieces) * 8 / length <= one.bandwidth
            init = out / template.initialization.replace("$RepresentationID$", one.id)
            assert one.codecs.split(".")[0].encode() in init.read_bytes()
