"""A stream that is made again while people play it: whole versions only, rungs kept, and a way back."""

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from takeup.media.tools import Tools
from tests.cli.conftest import environment
from tests.media.conftest import PICTURE
from tests.media.test_transcode import contents, takeup

SOURCE = "testsrc2=size=640x360:rate=10:duration=4"


@pytest.fixture(scope="module")
def source(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("again") / "movie.mp4"
    made = [*PICTURE, SOURCE, *PICTURE, "sine=duration=4", "-c:v", "libx264", "-preset", "ultrafast", file]
    subprocess.run([tools.binaries.ffmpeg, "-v", "error", *made], check=True, timeout=60)
    return file


@pytest.fixture(scope="module")
def home(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a first version of the stream."""
    folder = tmp_path_factory.mktemp("home")
    ran = takeup(folder, "transcode", source, "-o", "out")
    assert ran.returncode == 0, ran.stdout
    return folder


def played(stream: Path) -> str:
    """The version that somebody gets who enters now and plays everything that he is led to."""
    seen: list[str] = []
    waiting = ["master.m3u8"]
    while waiting:
        name = waiting.pop()
        text = (stream / name).read_text()
        assert text.startswith("#EXTM3U"), name
        assert name == "master.m3u8" or text.endswith("#EXT-X-ENDLIST\n"), name
        folder = Path(name).parent
        for address in re.findall(r'URI="([^"]+)"', text) + [
            a for a in text.splitlines() if a[:1] not in ("#", "")
        ]:
            if address.endswith(".m3u8"):
                waiting.append(str(folder / address))
            elif not address.endswith(".json"):
                assert (stream / folder / address).stat().st_size > 0
                seen.append(str(folder / address))
    versions = {name.split("/")[0] for name in seen}
    assert len(versions) == 1, f"a mixture of {versions}"
    return versions.pop()


def test_who_plays_sees_whole_versions_while_new_ones_are_made(home: Path, source: Path):
    command = [sys.executable, "-m", "takeup.cli.main", "transcode", source, "-o", "out", "--again"]
    seen: list[str] = []
    with subprocess.Popen(command, cwd=home, env=environment(), stderr=subprocess.DEVNULL) as running:
        while running.poll() is None:
            seen.append(played(home / "out"))
    seen.append(played(home / "out"))
    assert running.returncode == 0
    assert seen == sorted(seen)
    assert set(seen) == {"v1", "v2"}
    assert contents(home / "out" / "v1" / "360p") == contents(home / "out" / "v2" / "360p")
    ran = takeup(home, "rollback", "out")
    assert (ran.returncode, ran.stdout) == (0, "version 1 is served instead of 2; there are: 1, 2\n")
    assert played(home / "out") == "v1"


def test_a_failing_retranscode_leaves_what_is_served_untouched(home: Path, source: Path, tmp_path: Path):
    before, entered = contents(home / "out"), played(home / "out")
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
    ran = takeup(home, "transcode", broken, "-o", "out")
    assert (ran.returncode, "failed" in ran.stdout) == (1, True)
    assert (contents(home / "out"), played(home / "out")) == (before, entered)


def test_some_rungs_are_made_anew_and_the_others_kept(home: Path, source: Path):
    before = (home / "out" / "current").readlink()
    ran = takeup(home, "transcode", source, "-o", "out", "--rungs", "240p")
    assert ran.returncode == 0, ran.stdout
    now = (home / "out" / "current").readlink()
    assert now != before
    for rung in ("240p", "360p"):
        assert contents(home / "out" / before / rung) == contents(home / "out" / now / rung)
    assert played(home / "out") == str(now)
    ran = takeup(home, "transcode", source, "-o", "out", "--rungs", "1p,240p")
    assert "there is no rung 1p; there are: 360p, 240p" in ran.stdout


def test_what_is_kept_must_be_of_the_same_source(home: Path, tools: Tools, tmp_path: Path):
    other = tmp_path / "other.mp4"
    made = [*PICTURE, SOURCE.replace("duration=4", "duration=5"), "-c:v", "libx264", other]
    subprocess.run([tools.binaries.ffmpeg, "-v", "error", *made], check=True, timeout=60)
    ran = takeup(home, "transcode", other, "-o", "out", "--rungs", "240p")
    assert (ran.returncode, "was made of another source" in ran.stdout) == (1, True)
    ran = takeup(home, "transcode", other, "-o", "new", "--rungs", "240p")
    assert (ran.returncode, "no version is published to take the others from" in ran.stdout) == (1, True)


def test_published_early_the_lowest_rung_comes_first_and_the_rest_follows(tools: Tools, tmp_path: Path):
    large = tmp_path / "large.mp4"
    made = [*PICTURE, "testsrc2=size=1920x1080:rate=5:duration=1", "-c:v", "libx264", large]
    subprocess.run([tools.binaries.ffmpeg, "-v", "error", *made], check=True, timeout=60)
    ran = takeup(tmp_path, "transcode", large, "-o", "out", "--early")
    assert ran.returncode == 0, ran.stdout
    with closing(sqlite3.connect(tmp_path / "takeup-data" / "takeup.db")) as connection:
        ((early,),) = connection.execute("SELECT result FROM tasks WHERE stage = 'early'").fetchall()
    assert json.loads(early)["verdict"].startswith("checked: ")
    names = [{p.name for p in (tmp_path / "out" / v).glob("*p")} for v in ("v1", "v2")]
    assert names == [{"240p", "720p"}, {"240p", "360p", "480p", "720p", "1080p"}]
    assert contents(tmp_path / "out" / "v1" / "720p") == contents(tmp_path / "out" / "v2" / "720p")
    assert played(tmp_path / "out") == "v2"


def test_scratch_and_what_was_made_on_the_way_are_gone_at_the_end(home: Path):
    data = home / "takeup-data"
    left = [file.name for file in data.rglob("*") if file.is_file() and "artifacts" in file.parts]
    kept_of_failed = [name for name in left if name != "manifest.json"]
    assert kept_of_failed == []
    assert not list((data / "scratch").glob("*"))
    assert takeup(home, "verify", "--artifacts").returncode == 0
