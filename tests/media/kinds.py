"""Sources of every kind that people hand in, made when they are needed; each a few seconds and small."""

import subprocess
from pathlib import Path

from tests.media.conftest import H264, PICTURE

SIZE = "testsrc2=size=192x108:rate=25:duration=4"
SINE = "sine=duration=4"
BRIGHT = "format=yuv420p10le,setparams=color_primaries=bt2020:color_trc={}:colorspace=bt2020nc"
SRT = "1\n00:00:00,500 --> 00:00:02,000\nHello\n\n2\n00:00:02,500 --> 00:00:03,500\nGood-bye\n"
CHAPTERS = (
    ";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=2000\ntitle=One\n"
    "[CHAPTER]\nTIMEBASE=1/1000\nSTART=2000\nEND=4000\ntitle=Two\n"
)
FILES = {"words.srt": SRT, "chapters.txt": CHAPTERS}
"""What some recipes read beside themselves."""


def rate(fps: str, size: str = "192x108", seconds: float = 3) -> tuple[str, ...]:
    return (*PICTURE, f"testsrc2=size={size}:rate={fps}:duration={seconds}", *H264)


KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "plain": ("mp4", (*PICTURE, SIZE, *PICTURE, SINE, *H264, "-c:a", "aac")),
    "uneven frames": (
        "mkv",
        (*PICTURE, SIZE, "-vf", "select='not(eq(mod(n,7),3))',setpts=PTS+0.011*mod(N\\,3)/TB",
         "-fps_mode", "vfr", *H264),
    ),
    "open gop": (
        "mp4",
        (*PICTURE, SIZE, *H264, "-preset", "medium", "-x264-params", "open-gop=1:bframes=3:keyint=30"),
    ),
    "edit list": (
        "mp4",
        (*PICTURE, SIZE, *PICTURE, SINE, *H264, "-g", "500", "-keyint_min", "500", "-sc_threshold", "0",
         "-c:a", "aac"),
    ),
    "late start": (
        "mkv", (*PICTURE, SIZE, *PICTURE, SINE, *H264, "-c:a", "aac", "-output_ts_offset", "5.3"),
    ),
    "turned by 90": ("mp4", (*PICTURE, SIZE, *H264)),
    "turned by 180": ("mp4", (*PICTURE, SIZE, *H264)),
    "odd size": ("mkv", (*PICTURE, "testsrc2=size=193x109:rate=25:duration=2", "-c:v", "ffv1")),
    "wide pixels": (
        "mp4", (*PICTURE, "testsrc2=size=180x144:rate=25:duration=2", "-vf", "setsar=16/11", *H264),
    ),
    "portrait": ("mp4", rate("25", "108x192")),
    "cinema": ("mp4", rate("24", "252x108")),
    "old television": ("mp4", rate("25", "144x108")),
    "fields": (
        "mp4",
        (*PICTURE, "testsrc2=size=192x108:rate=50:duration=2", "-vf",
         "tinterlace=interleave_top,fieldorder=tff", *H264, "-flags", "+ildct+ilme"),
    ),
    "hdr10": ("mkv", (*PICTURE, SIZE, "-vf", BRIGHT.format("smpte2084"), *H264)),
    "hlg": ("mkv", (*PICTURE, SIZE, "-vf", BRIGHT.format("arib-std-b67"), *H264)),
    "mono 44.1 kHz": (
        "mp4", (*PICTURE, SIZE, *PICTURE, f"{SINE}:sample_rate=44100", *H264, "-c:a", "aac", "-ac", "1"),
    ),
    "surround": (
        "mp4",
        (*PICTURE, SIZE, *PICTURE, f"{SINE},aformat=channel_layouts=5.1", *H264, "-c:a", "aac"),
    ),
    "front speakers": (
        "mkv",
        (*PICTURE, SIZE, *PICTURE, f"{SINE},aformat=channel_layouts=3.0", *H264, "-c:a", "flac"),
    ),
    "blu-ray": ("m2ts", (*PICTURE, SIZE, *PICTURE, f"{SINE}:sample_rate=48000", *H264, "-c:a", "pcm_bluray")),
    "three languages": (
        "mkv",
        (*PICTURE, SIZE, *PICTURE, SINE, "-map", "0", "-map", "1", "-map", "1", "-map", "1",
         "-metadata:s:a:0",
         "language=eng", "-metadata:s:a:1", "language=fra", "-metadata:s:a:2", "language=deu", *H264,
         "-c:a", "aac"),
    ),
    "no sound": ("mp4", (*PICTURE, SIZE, *H264)),
    "longer sound": ("mkv", (*PICTURE, SIZE, *PICTURE, "sine=duration=6", *H264, "-c:a", "aac")),
    "shorter sound": ("mkv", (*PICTURE, SIZE, *PICTURE, "sine=duration=2", *H264, "-c:a", "aac")),
    "late sound": (
        "mkv", (*PICTURE, SIZE, "-itsoffset", "1.3", *PICTURE, "sine=duration=2", *H264, "-c:a", "aac"),
    ),
    "words and chapters": (
        "mkv",
        (*PICTURE, SIZE, "-i", "words.srt", "-i", "chapters.txt", "-map", "0", "-map", "1",
         "-map_chapters", "2",
         "-metadata:s:s:0", "language=eng", *H264, "-c:s", "srt"),
    ),
    "23.976": ("mp4", rate("24000/1001")),
    "29.97": ("mp4", rate("30000/1001")),
    "50": ("mp4", rate("50")),
    "60": ("mp4", rate("60")),
    "120": ("mp4", rate("120", seconds=2)),
    "keys only": ("mp4", (*rate("120", seconds=2), "-g", "1")),
    "one frame": ("mp4", (*PICTURE, "testsrc2=size=192x108:rate=25", "-frames:v", "1", *H264)),
    "two dots": ("mkv", (*PICTURE, "testsrc2=size=2x2:rate=25:duration=2", "-c:v", "ffv1")),
    "long gop": ("mp4", (*PICTURE, SIZE, *H264, "-g", "500", "-keyint_min", "500", "-sc_threshold", "0")),
    "avi": ("avi", (*PICTURE, SIZE, *PICTURE, SINE, "-c:v", "mpeg4", "-bf", "2", "-g", "30", "-c:a", "mp3")),
    "webm": (
        "webm",
        (*PICTURE, SIZE, *PICTURE, SINE, "-c:v", "libvpx-vp9", "-b:v", "200k", "-cpu-used", "8", "-g", "40",
         "-c:a", "libopus"),
    ),
    "mpeg-ts": ("ts", (*PICTURE, SIZE, *PICTURE, SINE, *H264, "-c:a", "aac", "-shortest")),
    "mpeg-ps": ("mpg", (*PICTURE, SIZE, *PICTURE, SINE, "-c:v", "mpeg2video", "-c:a", "mp2")),
    "gif": ("gif", (*PICTURE, "testsrc2=size=96x54:rate=10:duration=2")),
}  # fmt: skip
SECOND = {
    "turned by 90": ("-display_rotation", "90"),
    "turned by 180": ("-display_rotation", "180"),
    "edit list": ("-ss", "0.7"),
}
"""Recipes with a second pass that copies the pictures, and only writes down what is to be done with them."""


def made(ffmpeg: Path, name: str, folder: Path) -> Path:
    """The source of this kind."""
    for file, text in FILES.items():
        (folder / file).write_text(text)
    ending, recipe = KINDS[name]
    steps: list[tuple[str, ...]] = [(*recipe, f"source.{ending}")]
    if name in SECOND:
        steps.append((*SECOND[name], "-i", f"source.{ending}", "-c", "copy", f"second.{ending}"))
    for step in steps:
        command = [ffmpeg, "-v", "error", "-nostdin", "-y", *step]
        subprocess.run(command, check=True, timeout=60, cwd=folder)
    return folder / steps[-1][-1]
