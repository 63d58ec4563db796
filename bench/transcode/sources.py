"""The sources: moving pictures with detail, motion, cuts and grain, as costly to encode as a film is."""

import subprocess
from pathlib import Path
from typing import NamedTuple

RATE = 30
SCENE_S = 5
PLACES = (
    (-0.743643, 0.131825, 0.004),
    (-0.1592, 1.0317, 0.02),
    (-1.25066, 0.02012, 0.003),
    (0.2855, 0.0115, 0.01),
)
"""Parts of the Mandelbrot set with detail of every size: x, y, how wide."""
PATHS = (("0.5+0.5*sin(t/3)", "0.5+0.5*cos(t/4)"), ("t/12", "0.4+0.3*sin(t/2)"), ("0.9-t/7", "t/9"))
"""How the camera moves over it, as shares of the room that there is."""


class Material(NamedTuple):
    """A source: so many seconds of this size, in which its scenes are shown again and again."""

    name: str
    width: int
    height: int
    seconds: int
    scenes_s: int


SHORT = Material("60 s of 1080p", 1920, 1080, 60, 60)
LONG = Material("10 min of 720p", 1280, 720, 600, 60)
QUICK = {
    "short": Material("4 s of 180p", 320, 180, 4, 4),
    "long": Material("70 s of 180p", 320, 180, 70, 10),
}


def make(ffmpeg: Path, material: Material, folder: Path) -> Path:
    """The file of a source: H.264 as a camera or an editor writes it, with stereo sound."""
    scenes, file = folder / f"scenes-{material.height}.mp4", folder / f"source-{material.height}.mp4"
    _run(
        ffmpeg, "-filter_complex", pictures(material), "-map", "[v]", "-c:v", "libx264",
        "-preset", "superfast", "-crf", "18", "-g", RATE * SCENE_S, "-pix_fmt", "yuv420p",
        "-t", material.scenes_s, scenes,
    )  # fmt: skip
    sound = "aevalsrc=0.3*sin(220*t*(2+sin(t/5)))+0.05*random(0)|0.3*sin(331*t*(2+cos(t/7)))+0.05*random(1)"
    _run(
        ffmpeg, "-stream_loop", material.seconds // material.scenes_s - 1, "-i", scenes,
        "-f", "lavfi", "-i", f"{sound}:s=48000:d={material.seconds}", "-map", "0:v", "-map", "1:a",
        "-c:v", "copy", "-c:a", "aac", "-b:a", "192k", file,
    )  # fmt: skip
    scenes.unlink()
    return file


def pictures(material: Material) -> str:
    """The filters that draw the scenes, one after the other, with grain over all."""
    wide, high = material.width, material.height
    count = -(-material.scenes_s // SCENE_S)
    chains = []
    for number in range(count):
        x, y, scale = PLACES[number % len(PLACES)]
        right, down = PATHS[number % len(PATHS)]
        chains.append(
            f"mandelbrot=s={wide * 2}x{high * 2}:start_x={x}:start_y={y}:start_scale={scale}:maxiter=500,"
            f"trim=end_frame=1,hue=h={number * 40},format=yuv420p,loop=-1:1,setpts=N/{RATE}/TB,fps={RATE},"
            f"crop={wide}:{high}:x='(iw-ow)*({right})':y='(ih-oh)*({down})',"
            f"trim=duration={SCENE_S},setsar=1[s{number}]"
        )
    joined = "".join(f"[s{number}]" for number in range(count))
    moving = f"testsrc2=s={wide // 4}x{high // 4}:r={RATE},format=yuv420p[m]"
    over = "overlay=x='(W-w)*(0.5+0.4*sin(t))':y='(H-h)*(0.5+0.4*cos(t/1.7))':shortest=1"
    grain = "noise=alls=6:allf=t+u"
    return ";".join([*chains, moving, f"{joined}concat=n={count}[c]", f"[c][m]{over},{grain}[v]"])


def _run(ffmpeg: Path, *arguments: object) -> None:
    subprocess.run([ffmpeg, "-v", "error", "-nostdin", "-y", *map(str, arguments)], check=True)
