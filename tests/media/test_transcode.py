"""`takeup transcode`, the real command: all kinds of sources, errors in one line, kills survived."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from takeup.media.errors import MediaError
from takeup.media.plan import Plan
from takeup.media.source import look_at
from takeup.media.tools import Tools
from takeup.stages import transcoding
from takeup.stages.planned import PLAN, Stored
from tests.cli.conftest import environment
from tests.media.conftest import PICTURE, Make

FRAMES = {"languages": 200, "ts": 200}
LONG = "testsrc2=size=320x180:rate=25:duration=130"


def contents_below(found: dict[str, bytes], name: str) -> dict[str, bytes]:
    return {
        path.removeprefix(f"{name}/"): data for path, data in found.items() if path.startswith(f"{name}/")
    }


def takeup(folder: Path, *arguments: object, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "takeup.cli.main", *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=timeout_s, check=False
    )


def count_frames(tools: Tools, playlist: Path) -> int:
    command = [tools.binaries.ffprobe, "-v", "error", "-select_streams", "v:0", "-count_frames"]
    command += ["-show_entries", "stream=nb_read_frames", "-of", "csv=p=0", playlist]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == ""
    return int(ended.stdout.split()[0].strip(","))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but that which names the job."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.name != "version.json"
    }


@pytest.mark.parametrize("name", FRAMES)
def test_a_stream_has_every_frame_of_its_source(tools: Tools, make: Make, tmp_path: Path, name: str):
    ran = takeup(tmp_path, "transcode", make(name), "-o", "out")
    assert ran.returncode == 0, ran.stderr
    assert "the stream is out/master.m3u8" in ran.stdout
    variants = sorted((tmp_path / "out").glob("v1/*p/index.m3u8"))
    assert variants
    assert {count_frames(tools, playlist) for playlist in variants} == {FRAMES[name]}
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []
    assert takeup(tmp_path, "verify").returncode == 0


def test_what_is_done_is_not_done_again_and_a_changed_source_is(make: Make, tmp_path: Path):
    source = tmp_path / "movie.mp4"
    source.write_bytes(make("plain").read_bytes())
    assert takeup(tmp_path, "transcode", source).returncode == 0
    stream = tmp_path / "movie-stream"
    first = contents(stream)
    again = takeup(tmp_path, "transcode", source)
    assert (again.returncode, "served already" in again.stderr) == (0, True)
    assert contents(stream) == first
    shutil.rmtree(stream)
    assert takeup(tmp_path, "transcode", source).returncode == 0
    assert contents(stream) == first
    source.write_bytes(make("ntsc").read_bytes())
    assert takeup(tmp_path, "transcode", source).returncode == 0
    assert contents(stream / "v1") == contents_below(first, "v1")
    assert contents(stream / "v2") != contents(stream / "v1")


def test_a_dry_run_says_what_would_be_made(make: Make, tmp_path: Path):
    ran = takeup(tmp_path, "transcode", make("languages"), "--dry-run")
    assert ran.returncode == 0
    assert "320×180" in ran.stdout
    assert "fra" in ran.stdout
    assert "200 frames, 25 a second, in 1 segments" in ran.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"just some words", "the source cannot be used"), (b"", "is empty"), (None, "cannot be read")],
)
def test_a_source_that_is_none_is_told_in_one_line_and_not_tried_again(tmp_path: Path, content, says):
    if content is not None:
        (tmp_path / "movie.mp4").write_bytes(content)
    ran = takeup(tmp_path, "transcode", "movie.mp4", "-o", "out")
    assert ran.returncode == 1
    told = ran.stdout + ran.stderr
    assert says in told
    assert "Traceback" not in told
    assert not (tmp_path / "out").exists()
    if content:
        with closing(sqlite3.connect(tmp_path / "takeup-data" / "takeup.db")) as connection:
            found = connection.execute(
                "SELECT status, attempt FROM tasks WHERE stage = 'validate'"
            ).fetchall()
        assert found == [("FAILED", 1)]


def test_where_nothing_can_be_written_is_told_before_any_work(make: Make, tmp_path: Path):
    (tmp_path / "file").touch()
    ran = takeup(tmp_path, "transcode", make("plain"), "-o", "file/out")
    assert (ran.returncode, "file/out cannot be written" in ran.stderr) == (1, True)


def test_a_disk_that_is_nearly_full_is_told(make: Make, tmp_path: Path):
    command = [sys.executable, "-m", "takeup.cli.main", "transcode", make("plain")]
    env = environment(TAKEUP_DISK_RESERVE_MB="900000000")
    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        assert "nothing is run until there is room" in running.stderr.readline()
        running.terminate()


@pytest.fixture
def changing(tools: Tools, tmp_path: Path) -> Path:
    """A source whose picture changes its size half-way."""
    parts = [tmp_path / f"{size}.ts" for size in ("320x180", "160x120")]
    for part in parts:
        made = [
            *PICTURE,
            f"testsrc2=size={part.stem}:rate=25:duration=2",
            "-c:v",
            "libx264",
            "-bf",
            "0",
            part,
        ]
        subprocess.run([tools.binaries.ffmpeg, "-v", "error", *made], check=True, timeout=60)
    joined = tmp_path / "joined.mkv"
    join = ["-i", f"concat:{parts[0]}|{parts[1]}", "-c", "copy", joined]
    subprocess.run([tools.binaries.ffmpeg, "-v", "error", *join], check=True, timeout=60)
    return joined


def test_a_picture_that_changes_its_size_keeps_the_first(tools: Tools, changing: Path, tmp_path: Path):
    ran = takeup(tmp_path, "transcode", changing, "-o", "out")
    assert ran.returncode == 0, ran.stdout
    planned = takeup(tmp_path, "transcode", changing, "--dry-run").stderr
    (playlist,) = (tmp_path / "out").glob("v1/*p/index.m3u8")
    assert f"{count_frames(tools, playlist)} frames" in planned


def test_a_folder_of_somebody_else_is_left_alone(make: Make, tmp_path: Path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter.txt").write_text("dear")
    ran = takeup(tmp_path, "transcode", make("plain"), "-o", "out")
    assert (ran.returncode, "is no stream that was published" in ran.stderr) == (1, True)
    assert contents(tmp_path / "out") == {"letter.txt": b"dear"}
    ran = takeup(tmp_path, "transcode", make("plain"), "--profile", "nonsense")
    assert (ran.returncode, "there is no profile 'nonsense'" in ran.stderr) == (1, True)


async def test_a_source_that_changed_after_its_plan_is_not_encoded(make: Make, tmp_path: Path):
    source = tmp_path / "movie.mp4"
    source.write_bytes(make("plain").read_bytes())
    planned = takeup(tmp_path, "transcode", source, "--dry-run", "--json")
    whole = Plan.from_json(json.loads(planned.stdout))
    stored = Stored(whole, look_at(source).version, is_copied=False, stages={"encode": ["180p"]})
    (tmp_path / PLAN).write_text(stored.to_json())
    source.write_bytes(make("ntsc").read_bytes())
    context = SimpleNamespace(
        spec={"source": str(source)},
        file=lambda _: source,
        sparse=lambda *_: None,
        inputs=SimpleNamespace(only=lambda *_: SimpleNamespace(path=tmp_path.joinpath)),
        output=tmp_path.joinpath,
        stage="encode",
        segment=0,
    )
    for stage in (transcoding.encode_segment, transcoding.encode_sound):
        with pytest.raises(MediaError, match="was changed after its plan was made"):
            await stage(context)
