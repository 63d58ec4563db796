"""Posters and storyboards show what the source shows, upright and at the time they say."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from takeup.media import encode, fmp4, plan, poster, profile, stills, storyboard
from takeup.media.errors import MediaError
from takeup.media.hls import INIT, PIECE
from takeup.media.ladder import Rung
from takeup.media.plan import Plan
from takeup.media.source import look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools
from takeup.media.webvtt import read
from tests.media.building import build
from tests.media.conftest import H264, PICTURE, Make
from tests.media.test_package import ask, packed
from tests.media.worded import make_with, record, words

__all__ = ["record", "words"]


def grey(tools: Tools, file: Path, filters: str = "null") -> bytes:
    """The light of every dot, in all pictures of a file."""
    command = [tools.binaries.ffmpeg, "-v", "error", "-xerror", "-nostdin", "-i", file, "-map", "0:v"]
    command += ["-vf", filters, "-pix_fmt", "gray", "-f", "rawvideo", "-"]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout


async def poster_of(tools: Tools, file: Path, folder: Path) -> tuple[Plan, Path]:
    whole = await build(tools, file, folder, with_stills=True)
    return whole, folder / "out" / poster.NAME


def light(tools: Tools, file: Path) -> float:
    dots = grey(tools, file)
    return sum(dots) / len(dots)


@pytest.mark.parametrize(
    ("name", "size"), [("wide pixels", "524,288"), ("ten bit", "320,180"), ("one frame", "320,180")]
)
async def test_a_poster_is_one_picture_that_every_screen_shows(tools, make: Make, tmp_path, name, size):
    _, file = await poster_of(tools, make(name), tmp_path)
    told = ask(tools, "-count_frames", "-show_entries", "stream=width,height,pix_fmt,nb_read_frames", file)
    assert told == [f"{size},yuvj420p,1"]
    assert 60 < light(tools, file) < 200


async def test_a_turned_source_has_an_upright_poster(tools, make: Make, tmp_path: Path):
    file = tmp_path / "turned.mp4"
    make_with(tools, "-display_rotation", "90", "-i", make("plain"), "-an", "-c", "copy", file)
    (tmp_path / "out").mkdir()
    _, made = await poster_of(tools, file, tmp_path / "out")
    assert ask(tools, "-show_entries", "stream=width,height", made) == ["180,320"]


@pytest.mark.parametrize("segments", [1, 4])
async def test_a_poster_is_not_black_if_anything_is_not(tools, tmp_path: Path, monkeypatch, segments):
    if segments > 1:
        monkeypatch.setattr(plan, "WHOLE_S", 0)
        monkeypatch.setattr(plan, "KEYS_A_FRAGMENT", 1)
        monkeypatch.setattr(plan, "SEGMENT_S", 2)
    file = tmp_path / "dark.mp4"
    dark = "drawbox=c=black:t=fill:enable='lt(t,6)'"
    make_with(tools, *PICTURE, "testsrc2=size=160x90:rate=25:duration=10", "-vf", dark, *H264, file)
    (tmp_path / "out").mkdir()
    _, made = await poster_of(tools, file, tmp_path / "out")
    assert light(tools, made) > 60


async def test_a_source_that_is_black_has_a_black_poster(tools, tmp_path: Path):
    file = tmp_path / "black.mp4"
    make_with(tools, *PICTURE, "color=black:size=160x90:rate=25:duration=2", *H264, file)
    (tmp_path / "out").mkdir()
    _, made = await poster_of(tools, file, tmp_path / "out")
    assert light(tools, made) < 5


async def test_the_poster_of_sound_is_its_cover(tools, record: Path, tmp_path: Path):
    whole, made = await poster_of(tools, record, tmp_path)
    assert whole.picture is None
    assert ask(tools, "-show_entries", "stream=width,height", made) == ["600,500"]
    assert 60 < light(tools, made) < 200


async def test_sound_without_a_cover_has_no_poster(tools, make: Make, tmp_path: Path):
    source = look_at(make("sound"))
    whole = plan.plan((await survey(tools, source)).probe, None, profile.load("web-h264"))
    assert await poster.cover(tools, source, whole, tmp_path) is None
    assert await poster.make(tools, whole, tmp_path) is None
    assert await storyboard.make(tools, whole, tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_sizes_fit_and_are_even():
    assert stills.fitted(3840, 2160, 1280) == (1280, 720)
    assert stills.fitted(1080, 1920, 1280) == (720, 1280)
    assert stills.fitted(854, 480, 160) == (160, 88)
    assert stills.fitted(100, 50, 1280) == (100, 50)
    assert stills.fitted(8192, 2, 160) == (160, 2)


def tiles_of(tools: Tools, folder: Path) -> list[tuple[int, int, bytes]]:
    """Each picture of a storyboard, with its times."""
    found = []
    for cue in read((folder / storyboard.VTT).read_bytes()):
        sheet, *place = re.fullmatch(r"(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)", cue.text).groups()
        left, top, width, height = map(int, place)
        dots = grey(tools, folder / sheet, f"crop={width}:{height}:{left}:{top}")
        assert len(dots) == width * height
        found.append((cue.start_ms, cue.end_ms, dots))
    return found


def unlike(one: bytes, other: bytes) -> float:
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / len(one)


@pytest.mark.parametrize(("name", "most", "times"), [("plain", 1000, range(8)), ("late start", 3, (0, 3, 6))])
async def test_every_tile_shows_the_source_at_its_time(
    tools, make: Make, tmp_path, monkeypatch, name, most, times
):
    whole = await packed(tools, make(name), tmp_path, monkeypatch)
    monkeypatch.setattr(storyboard, "PICTURES_MAX", most)
    monkeypatch.setattr(storyboard, "COLUMNS", 2)
    monkeypatch.setattr(storyboard, "ROWS", 3)
    out = tmp_path / "out"
    before = set(out.iterdir())
    made = await storyboard.make(tools, whole, out)
    assert set(out.iterdir()) - before == set(made)
    assert len(made) == -(-len(times) // 6) + 1
    tiles = tiles_of(tools, out)
    assert [start for start, _, _ in tiles] == [second * 1000 for second in times]
    assert [end for _, end, _ in tiles] == [*(start for start, _, _ in tiles[1:]), 8000]
    frames = grey(tools, make(name), "scale=160:90:out_range=pc")
    pictures = [frames[at : at + 160 * 90] for at in range(0, len(frames), 160 * 90)]
    assert len(pictures) == 200
    for start, _, tile in tiles:
        nearest = min(range(0, 200, 5), key=lambda number: unlike(tile, pictures[number]))
        assert nearest == start * 25 // 1000
        assert unlike(tile, pictures[nearest]) < 12


async def test_a_storyboard_misses_no_piece_in_silence(tools, make: Make, tmp_path, monkeypatch):
    whole = await packed(tools, make("plain"), tmp_path, monkeypatch)
    max((tmp_path / "out").glob("*p/*.m4s")).unlink()
    with pytest.raises(MediaError, match="a storyboard of 8 pictures ends after 6"):
        await storyboard.make(tools, whole, tmp_path / "out")
    with pytest.raises(MediaError, match="there is no rung in it"):
        await storyboard.make(tools, whole, tmp_path)


def test_a_storyboard_is_made_of_the_smallest_rung_that_every_machine_decodes():
    large = Rung("720p", 1280, 720, "h264", "libx264", "veryfast", "sdr", True, 23, 2800, 5600)  # noqa: FBT003
    small = replace(large, name="240p", width=426, height=240)
    others = [replace(small, width=2, codec="av1"), replace(small, width=2, range="hdr")]
    assert storyboard.rung_of([large, small, *others]) == small


async def test_a_storyboard_of_bright_pictures_is_what_every_screen_shows(tools, make: Make, tmp_path: Path):
    source = look_at(make("ten bit"))
    found = await survey(tools, source)
    whole = plan.plan(found.probe, found.index, profile.load("web-h264"))
    assert whole.picture
    bright = replace(whole.picture.rungs[0], range="hdr")
    whole = replace(whole, picture=replace(whole.picture, rungs=(bright,)))
    file = tmp_path / "bright.mp4"
    make_with(tools, "-i", source.path, "-c", "copy", "-movflags", encode.FRAGMENTED, file)
    own = tmp_path / bright.name
    own.mkdir()
    (own / INIT).write_bytes(fmp4.load(file).init)
    (own / PIECE.format(1)).write_bytes(file.read_bytes().removeprefix(fmp4.load(file).init))
    await storyboard.make(tools, whole, tmp_path)
    ((_, end, tile),) = tiles_of(tools, tmp_path)
    flat = grey(tools, source.path, "scale=160:90:out_range=pc")[: 160 * 90]
    assert end == 1000
    assert 60 < sum(tile) / len(tile) < 200
    assert unlike(tile, flat) > 20, "the numbers of an HDR picture are not those of an SDR one"
