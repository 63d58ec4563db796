"""Segments encoded alone are the same as the whole: every picture once, in order, at its time."""

from dataclasses import replace
from pathlib import Path

import pytest

from takeup.media import encode, fmp4, plan, profile
from takeup.media.plan import Picture, Plan, Segment
from takeup.media.source import Source, look_at
from takeup.media.survey import survey
from takeup.media.tools import Progress, Tools
from tests.media.conftest import Make, frame_hashes

SOURCES = ("plain", "ntsc", "film", "fast", "open gop", "long gop", "uneven", "late start", "webm")


async def planned(tools: Tools, file: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Source, Plan, Picture]:
    """A plan that cuts even a short source."""
    monkeypatch.setattr(plan, "WHOLE_S", 0)
    monkeypatch.setattr(plan, "KEYS_A_FRAGMENT", 1)
    source = look_at(file)
    seen = await survey(tools, source)
    found = plan.plan(seen.probe, seen.index, profile.load("web-h264"), segment_s=2)
    assert found.picture
    assert len(found.picture.segments) > 1
    return source, found, found.picture


@pytest.mark.parametrize("name", SOURCES)
async def test_the_pictures_of_all_segments_are_those_of_the_whole(tools, make: Make, name, monkeypatch):
    source, _, picture = await planned(tools, make(name), monkeypatch)

    def pictures(segment: Segment) -> list[str]:
        chain = encode.pictures_of(picture, segment, picture.rungs).partition(",split=")[0]
        seek = encode.seek_to(picture, segment)
        return frame_hashes(
            tools, *seek, "-i", source.argument, "-filter_complex", f"{chain}[o]", "-map", "[o]"
        )

    whole = pictures(Segment(0, 0, picture.frames, picture.segments[0].seek))
    parts = [pictures(segment) for segment in picture.segments]
    assert [len(part) for part in parts] == [segment.count for segment in picture.segments]
    assert [one for part in parts for one in part] == whole
    decoded = frame_hashes(tools, "-i", source.argument, "-map", "0:v:0", "-fps_mode", "passthrough")
    if name in ("uneven", "fast"):
        assert set(whole) <= set(decoded)
    else:
        assert whole == decoded, "every frame of the source, once"


@pytest.mark.parametrize("name", ["plain", "film", "uneven"])
async def test_encoded_segments_join_to_one_even_track(tools, make: Make, name, monkeypatch, tmp_path: Path):
    source, whole, picture = await planned(tools, make(name), monkeypatch)
    heard: list[Progress] = []
    made = []
    for segment in picture.segments:
        folder = tmp_path / str(segment.number)
        folder.mkdir()
        made.append(await encode.encode(tools, source, whole, segment, folder, on_progress=heard.append))
    assert heard[-1].is_done
    ticks = picture.rate.denominator
    for rung in picture.rungs:
        movies = [fmp4.read(one.files[rung.name].read_bytes()) for one in made]
        assert len({movie.init for movie in movies}) == 1, "one init segment fits all"
        assert {movie.timescale for movie in movies} == {picture.rate.numerator}
        fragments = [fragment for movie in movies for fragment in movie.fragments]
        assert all(fragment.starts_with_key for fragment in fragments)
        assert sum(fragment.duration for fragment in fragments) == picture.frames * ticks
        edges = [sum(len(f.samples) for f in fragments[:n]) for n in range(len(fragments))]
        assert edges == list(range(0, picture.frames, picture.keys_every)), "a key at every place of the grid"


async def test_a_segment_encoded_again_has_the_same_bytes(tools, make: Make, monkeypatch, tmp_path: Path):
    source, whole, picture = await planned(tools, make("plain"), monkeypatch)
    found = []
    for name in ("once", "again"):
        folder = tmp_path / name
        folder.mkdir()
        made = await encode.encode(tools, source, whole, picture.segments[1], folder)
        found.append({rung: file.read_bytes() for rung, file in made.files.items()})
    assert found[0] == found[1]


async def test_a_rung_has_the_same_bytes_whoever_is_made_with_it(tools: Tools, make: Make, tmp_path: Path):
    source = look_at(make("480 lines"))
    seen = await survey(tools, source)
    whole = plan.plan(seen.probe, seen.index, profile.load("web-h264"))
    picture = whole.picture
    assert picture
    (half,) = [rung for rung in picture.rungs if rung.via]
    alone = replace(whole, picture=replace(picture, rungs=(half,)))
    found = []
    for number, one in enumerate((whole, alone)):
        folder = tmp_path / str(number)
        folder.mkdir()
        made = await encode.encode(tools, source, one, picture.segments[0], folder)
        found.append(made.files[half.name].read_bytes())
    assert found[0] == found[1]


async def test_missing_frames_are_noticed(tools, make: Make, monkeypatch, tmp_path: Path):
    source, whole, picture = await planned(tools, make("plain"), monkeypatch)
    last = picture.segments[-1]
    beyond = replace(last, first=last.first + 10_000, seek=last.seek)
    with pytest.raises(encode.MediaError, match="frames instead of"):
        await encode.encode(tools, source, whole, beyond, tmp_path)
