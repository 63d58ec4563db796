"""Two hours at 23.976 frames a second: picture and sound are together at the end as at the beginning."""

import array
import json
import subprocess
from fractions import Fraction
from pathlib import Path

import pytest

from takeup.media.tools import Tools
from tests.media.conftest import PICTURE
from tests.media.test_transcode import takeup

RATE = Fraction(24000, 1001)
EVERY = 1440
"""Frames from one flash to the next; a beep begins with each."""
HERTZ = 48_000
LOUD = 0.2
LENGTH_S = 7200


def film(tools: Tools, folder: Path) -> Path:
    file = folder / "film.mkv"
    period = float(EVERY / RATE)
    flash = f"drawbox=enable='eq(mod(n,{EVERY}),0)':color=white:t=fill"
    picture = f"color=black:size=64x36:rate={RATE}:duration={LENGTH_S},{flash}"
    sound = f"aevalsrc='if(lt(mod(t,{period}),0.05),sin(2*PI*1000*t),0)':s={HERTZ}:d={LENGTH_S}"
    options = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "240", "-c:a", "flac"]
    made = [*PICTURE, picture, *PICTURE, sound, *options, file]
    subprocess.run([tools.binaries.ffmpeg, "-v", "error", "-y", *made], check=True, timeout=900)
    return file


def flash_and_beep(tools: Tools, stream: Path, near_s: float) -> tuple[float, float]:
    """When the first flash and the first beep from here on are."""
    seek = ["-ss", f"{near_s:.3f}", "-copyts", "-i", str(stream / "master.m3u8")]
    tell = ["-map", "0:v:0", "-vf", "showinfo", "-frames:v", "200", "-f", "null", "-"]
    told = subprocess.run(
        [tools.binaries.ffmpeg, "-nostdin", "-hide_banner", *seek, *tell],
        check=True, capture_output=True, text=True, timeout=120,
    ).stderr  # fmt: skip
    frames = [line for line in told.splitlines() if "mean:[" in line]
    white = next(line for line in frames if float(line.split("mean:[")[1].split()[0]) > 128)
    flash = float(white.split("pts_time:")[1].split()[0])
    start = flash - 1
    cut = [
        "-map",
        "0:a:0",
        "-af",
        f"atrim=start={start}:end={start + 2},asetpts=PTS-STARTPTS",
        "-f",
        "f32le",
        "-",
    ]
    seek[1] = f"{start - 3:.3f}"
    data = subprocess.run(
        [tools.binaries.ffmpeg, "-v", "error", "-nostdin", *seek, *cut ],
        check=True, capture_output=True, timeout=120,
    ).stdout  # fmt: skip
    samples = array.array("f", data)
    first = next(number for number, value in enumerate(samples) if abs(value) > LOUD)
    return flash, start + first / HERTZ


@pytest.mark.timeout(3600)
def test_two_hours_do_not_drift_by_a_millisecond(tools: Tools, tmp_path: Path):
    made = film(tools, tmp_path)
    command = ["transcode", made, "-o", "out", "--json"]
    ran = takeup(tmp_path, *command, timeout_s=3000)
    assert ran.returncode == 0, ran.stdout
    assert json.loads(ran.stdout)["seconds"] == pytest.approx(LENGTH_S, abs=0.05)
    apart = []
    period = float(EVERY / RATE)
    for number in (1, int(LENGTH_S // period) - 1):
        flash, beep = flash_and_beep(tools, tmp_path / "out", number * period - 4)
        apart.append(beep - flash)
    assert abs(apart[0]) < float(1 / RATE)
    assert abs(apart[1] - apart[0]) < 0.001
    judged = takeup(tmp_path, "check", "out", "--source", made, "--json", timeout_s=3000)
    assert judged.returncode == 0, judged.stdout
