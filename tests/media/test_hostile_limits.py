"""What takes too much, crashes, floods or talks: bounded, told in one line, tried again only if it helps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from takeup.child.guard import Limits
from takeup.child.run import TAIL_BYTES, Ended, run_child
from takeup.core.errors import InvalidInput
from takeup.media import bounds, probe
from takeup.media.binaries import Binaries
from takeup.media.choice import choose
from takeup.media.errors import LimitReached, MediaError, NotMedia, TooLarge, ToolStarved
from takeup.media.plan import plan
from takeup.media.profile import load
from takeup.media.source import look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools
from tests.cli.conftest import environment
from tests.media import hostile
from tests.media.conftest import Make
from tests.media.jobs import run_jobs
from tests.media.test_probe import STREAM, report

MIB = 1 << 20
RAW = ["-c:v", "rawvideo", "-f", "matroska"]
MEMORY_MB_MAX = 400
PROFILE = """
name = "mine"
[audio]
codec = "aac"
kbps_a_channel = 64
[[families]]
codec = "h264"
encoder = "libx264"
preset = "PRESET"
range = "sdr"
critical = true
rungs = [{ short = 720, crf = 23, max_kbps = 2800 }]
"""


def tool(folder: Path, body: str) -> Path:
    """A program that stands where ffmpeg or ffprobe should."""
    file = folder / "tool"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return file


def encoded(tools: Tools, file: Path, *options: object) -> Path:
    command = [tools.binaries.ffmpeg, "-v", "error", "-nostdin", "-y", *options, file]
    subprocess.run(command, check=True, timeout=60)
    return file


async def test_s80_more_work_than_a_job_may_be_is_refused(tools: Tools, make: Make):
    found = await survey(tools, look_at(make("plain")))
    whole = plan(found.probe, found.index, await choose(tools.binaries, load("web-h264")))
    bounds.check_work(whole, 1)
    with pytest.raises(TooLarge, match=r"transcode_max_gigapixels allows 0.01"):
        bounds.check_work(whole, 0.01)
    assert whole.picture
    few = bounds.time_for(1, whole.picture.rungs)
    assert bounds.START_S < few < bounds.time_for(1000, whole.picture.rungs)


def test_s80_more_frames_than_the_time_has_room_for():
    with pytest.raises(TooLarge, match="3600000 frames in 10 s"):
        probe.read(report({**STREAM, "nb_frames": "3600000"}))


async def test_s81_attachments_and_long_titles_are_cut_away(tools: Tools, make: Make, tmp_path: Path):
    font, words = tmp_path / "font.ttf", tmp_path / "words.txt"
    font.write_text(hostile.CANARY)
    title = "long" * 250_000
    chapters = [f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={n}000\nEND={n}999\ntitle={title}\n" for n in range(3)]
    words.write_text(";FFMETADATA1\n" + "".join(chapters))
    many = [word for _ in range(40) for word in ("-attach", font)]
    kind = ["-metadata:s:t", "mimetype=font/ttf", "-map_metadata", "1", "-map", "0:v", "-c", "copy"]
    inputs = ["-i", make("plain"), "-f", "ffmetadata", "-i", words]
    found = await survey(tools, look_at(encoded(tools, tmp_path / "talk.mkv", *inputs, *many, *kind)))
    assert [len(chapter.title) for chapter in found.probe.chapters] == [200] * 3
    too_many = [word for _ in range(500) for word in ("-attach", font)]
    file = encoded(tools, tmp_path / "more.mkv", *inputs, *too_many, *kind)
    found = await survey(tools, look_at(file))
    assert found.index
    assert found.index.count == 200, "what is attached is left out, however much it is"


async def test_s82_a_tool_that_takes_too_long_is_stopped(tools: Tools, make: Make, tmp_path: Path):
    endless = ["-vf", "loop=loop=-1:size=100", *RAW, f"file:{tmp_path / 'out'}"]
    with pytest.raises(ToolStarved, match=r"limits: .* took too long"):
        await tools.ffmpeg(look_at(make("plain")), [], endless, writes=[tmp_path], wall_s=0.5)


async def test_s83_memory_is_bounded(tools: Tools, make: Make, tmp_path: Path):
    few = Tools(tools.binaries, limits=Limits(memory_bytes=150 * MIB))
    greedy = ["-vf", "scale=4096:4096,reverse", *RAW, f"file:{tmp_path / 'out'}"]
    with pytest.raises(ToolStarved, match=r"limits: .* got no more memory"):
        await few.ffmpeg(look_at(make("plain")), [], greedy, writes=[tmp_path])


async def test_s84_files_are_bounded(tools: Tools, make: Make, tmp_path: Path):
    out = tmp_path / "out"
    with pytest.raises(LimitReached, match=f"limits: .* wrote a file of more than {MIB} bytes"):
        await tools.ffmpeg(
            look_at(make("plain")), [], [*RAW, f"file:{out}"], writes=[tmp_path], bytes_max=MIB
        )
    assert out.stat().st_size <= MIB


@pytest.mark.parametrize("name", ["pipe", "device", "folder", "link to a device", "link to nothing"])
def test_s86_what_is_no_file_is_not_opened(tmp_path: Path, name: str):
    place = tmp_path / "movie.mp4"
    {
        "pipe": lambda: os.mkfifo(place),
        "device": lambda: place.symlink_to("/dev/zero"),
        "folder": place.mkdir,
        "link to a device": lambda: place.symlink_to("/dev/fd/0"),
        "link to nothing": lambda: place.symlink_to("gone"),
    }[name]()
    with pytest.raises(NotMedia, match=r"is not a regular file|cannot be read"):
        look_at(place)


async def test_s87_a_source_that_is_swapped_while_it_is_read(tools: Tools, make: Make, tmp_path: Path):
    file = tmp_path / "movie.mp4"
    file.write_bytes(make("plain").read_bytes())

    async def swap(*command: object, **options: object) -> Ended:
        ended = await run_child(*command, **options)  # type: ignore[arg-type]
        file.write_bytes(make("ntsc").read_bytes())
        return ended

    with pytest.raises(MediaError, match=r"movie.mp4 was changed while it was read"):
        await probe.probe(Tools(tools.binaries, swap), look_at(file))


@pytest.mark.parametrize("way", ["another file", "the same file"])
async def test_s87_a_swap_that_hides_its_size_and_time(tools: Tools, make: Make, tmp_path: Path, way: str):
    file, other = tmp_path / "movie.mp4", tmp_path / "other.mp4"
    file.write_bytes(make("plain").read_bytes())
    before = file.stat()

    async def swap(*command: object, **options: object) -> Ended:
        ended = await run_child(*command, **options)  # type: ignore[arg-type]
        target = other if way == "another file" else file
        target.write_bytes(bytes(before.st_size))
        os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
        target.rename(file)
        return ended

    source = look_at(file)
    with pytest.raises(MediaError, match=r"movie.mp4 was changed while it was read"):
        await probe.probe(Tools(tools.binaries, swap), source)
    assert look_at(file).version == source.version, "so a look at size and time alone sees nothing"


async def test_s87_a_link_to_a_source_is_no_change(tools: Tools, make: Make, tmp_path: Path):
    file = tmp_path / "movie.mp4"
    file.write_bytes(make("plain").read_bytes())

    async def back_up(*command: object, **options: object) -> Ended:
        ended = await run_child(*command, **options)  # type: ignore[arg-type]
        (tmp_path / "backup.mp4").hardlink_to(file)
        return ended

    found = await probe.probe(Tools(tools.binaries, back_up), look_at(file))
    assert found.video


async def test_s89_words_of_strangers(tools: Tools, make: Make, tmp_path: Path):
    ugly = "<script>\n\x1b[31m\u202eevil"
    words = [
        "-metadata",
        f"title={ugly}",
        "-metadata:s:a:0",
        f"title={ugly}",
        "-metadata:s:a:0",
        "language=x;y",
    ]
    file = encoded(tools, tmp_path / "ugly.mkv", "-i", make("plain"), "-c", "copy", *words)
    (sound,) = (await probe.probe(tools, look_at(file))).audio
    assert (sound.title, sound.language) == ("<script> [31m evil", "")
    file.write_bytes(file.read_bytes().replace(b"evil", b"\xff\xfe\xc3\x28"))
    (sound,) = (await probe.probe(tools, look_at(file))).audio
    assert sound.title.startswith("<script> [31m")
    huge = tmp_path / "huge.txt"
    huge.write_text(f";FFMETADATA1\ntitle={'x' * 10_000_000}\n[STREAM]\ntitle={'y' * 10_000_000}\n")
    inputs = ["-i", make("sound"), "-f", "ffmetadata", "-i", huge, "-map_metadata", "1"]
    file = encoded(
        tools, tmp_path / "huge.mkv", *inputs, "-map_metadata:s:a:0", "1:s:0", "-map", "0:a", "-c", "copy"
    )
    assert file.stat().st_size > 20_000_000
    (sound,) = (await probe.probe(tools, look_at(file))).audio
    assert sound.title == "y" * 200


async def test_s90_where_it_was_filmed_is_not_told(tools: Tools, make: Make, tmp_path: Path):
    place = "+48.8577+002.2950/"
    words = ["-metadata", f"location={place}", "-metadata", f"com.apple.quicktime.location.ISO6709={place}"]
    words += ["-metadata", "title=Our house", "-movflags", "use_metadata_tags", "-map_metadata", "0"]
    marked = encoded(tools, tmp_path / "home.mp4", "-i", make("plain"), "-c", "copy", *words)
    stream = encoded(
        tools, tmp_path / "home.ts", "-i", make("ts"), "-c", "copy", "-metadata", "title=Our house"
    )
    assert place.encode() in marked.read_bytes()
    for done in await run_jobs(tmp_path / "data", [marked, stream]):
        assert done.job.status == "completed", done.tasks
    made = [file for file in (tmp_path / "streams").rglob("*") if file.is_file()]
    assert len(made) > 4
    for file in made:
        assert b"48.8577" not in file.read_bytes(), file
        assert b"Our house" not in file.read_bytes(), file


@pytest.mark.parametrize("value", ["fast -f lavfi", "fast:crf=0", "", "-y", "fast\\n-y"])
def test_s91_a_profile_holds_names_and_numbers_alone(tmp_path: Path, value: str):
    (tmp_path / "mine.toml").write_text(PROFILE.replace("PRESET", value))
    with pytest.raises(InvalidInput, match="preset"):
        load(str(tmp_path / "mine.toml"))
    (tmp_path / "mine.toml").write_text(PROFILE.replace("PRESET", "fast").replace("23", '"23 -y"'))
    with pytest.raises(InvalidInput, match="crf"):
        load(str(tmp_path / "mine.toml"))


async def test_s92_a_flood_of_words_is_not_kept(tools: Tools, make: Make, tmp_path: Path):
    flood = tool(tmp_path, "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx >&2; done")
    kept: list[Ended] = []

    async def run(*command: object, **options: object) -> Ended:
        kept.append(await run_child(*command, **options))  # type: ignore[arg-type]
        return kept[-1]

    flooding = Tools(Binaries(flood, flood, "a test"), run)
    with pytest.raises(ToolStarved, match="took too long") as told:
        await flooding.ffmpeg(look_at(make("plain")), [], ["out"], wall_s=0.5)
    assert (len(kept[0].stderr), len(str(told.value)) < 600) == (TAIL_BYTES, True)


async def test_s93_what_crashes_a_tool_twice_is_given_up(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    crashing = tool(tmp_path, "echo 'about to' >&2; kill -SEGV $$")
    monkeypatch.setenv("TAKEUP_FFPROBE_PATH", str(crashing))
    monkeypatch.setenv("TAKEUP_FFMPEG_PATH", str(crashing))
    monkeypatch.setenv("TAKEUP_RECOVERY_INTERVAL", "0.2")
    (done,) = await run_jobs(tmp_path / "data", [make("plain")])
    task = done.tasks["validate"]
    assert (done.job.status, task.attempt) == ("failed", 2)
    assert task.error == (
        "tool_crashed: tool crashed (SIGSEGV): about to; the same as the last time, so it is not tried again"
    )


# Its own peak is asked of /proc: that of getrusage counts the process which started it, too.
MEASURE = """
import asyncio, json, resource, sys
from pathlib import Path
from takeup.core.errors import TakeupError
from takeup.media.binaries import find
from takeup.media.source import look_at
from takeup.media.survey import survey
from takeup.media.tools import Tools
async def main():
    told = []
    for name in sys.argv[1:]:
        try:
            await survey(Tools(find()), look_at(Path(name)))
            told.append("")
        except TakeupError as error:
            told.append(str(error))
    children_kb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    own_kb = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    print(json.dumps([told, [children_kb // 1024, own_kb // 1024]]))
asyncio.run(main())
"""


def test_s83_no_source_takes_much_memory_to_be_refused(tools: Tools, make: Make, tmp_path: Path):
    short = make("one frame").read_bytes()
    (tmp_path / "many.mp4").write_bytes(
        hostile.changed(short, hostile.many_frames(100_000, 256)) + bytes(100_000)
    )
    files = [tmp_path / "many.mp4", *(hostile.make_source(tools, tmp_path, name) for name in hostile.RECIPES)]
    command = [sys.executable, "-c", MEASURE, *map(str, files)]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=True)
    told, peaks = json.loads(ran.stdout)
    assert all(told[1:]), told
    assert max(peaks) < MEMORY_MB_MAX, peaks
