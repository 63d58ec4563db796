"""A short video with sound to try things with, drawn by ffmpeg: no file is shipped for it."""

import re
from pathlib import Path

from takeup.child.run import Watch, run_child
from takeup.core.errors import InvalidInput
from takeup.media.binaries import Binaries
from takeup.media.failures import failure

SIZE = re.compile(r"[1-9]\d{2,3}x[1-9]\d{2,3}")
RATE = 30
WALL_S = 120.0
PICTURE = (
    "gradients=size={size}:rate={rate}:duration={seconds}:c0=0x1b2a49:c1=0xe07a5f:c2=0x3d405b:c3=0xf2cc8f:nb_colors=4:"
    "speed=0.02:seed=7[back];testsrc2=size=192x108:rate={rate}:duration={seconds}[clock];"
    "life=size=96x54:rate={rate}:seed=3:mold=8:ratio=0.1:death_color=0x3d405b:life_color=0xf2cc8f,"
    "trim=duration={seconds}[cells];[back][clock]overlay=x='(W-w)/2+W/4*sin(t)':y='(H-h)/2'[both];"
    "[both][cells]overlay=x=20:y=H-h-20,format=yuv420p[v]"
)
SOUND = (
    "sine=frequency=220:duration={seconds}:sample_rate=48000[low];sine=frequency=330:beep_factor=4:duration={seconds}:"
    "sample_rate=48000[high];[low][high]amix=inputs=2:duration=first,aformat=channel_layouts=stereo[a]"
)


async def make_sample(binaries: Binaries, file: Path, seconds: int, size: str) -> None:
    """Write the sample; nothing but ffmpeg itself is read."""
    if not SIZE.fullmatch(size):
        raise InvalidInput(f"the size {size!r} is not of the form 1280x720")
    values = {"size": size, "rate": RATE, "seconds": seconds}
    graph = ";".join((PICTURE.format(**values), SOUND.format(**values)))
    command = (
        binaries.ffmpeg, "-v", "error", "-nostdin", "-y",
        "-filter_complex", graph, "-map", "[v]", "-map", "[a]",
        "-c:v", "libx264", "-preset", "ultrafast", "-crf", "20", "-g", "150", "-c:a", "aac", "-b:a", "128k",
        f"file:{file}",
    )  # fmt: skip
    ended = await run_child(command, watch=Watch(wall_s=WALL_S))
    if ended.exit_code != 0 or ended.stopped:
        raise failure(ended)
