"""Encodes one segment: the source is decoded once, every rung is made of the same pictures.

Pictures are chosen by their number in the plan, never by seconds, so a segment encoded alone is the same as
its part of the whole. One thread an encoder and one build make the bytes the same every time.
"""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from takeup.media.errors import MediaError
from takeup.media.fmp4 import read
from takeup.media.plan import Picture, Plan, Segment
from takeup.media.source import Source
from takeup.media.tools import Progress, Tools

SCALER = "flags=bicubic"
TO_SDR = "scale=out_primaries=bt709:out_transfer=bt709:out_color_matrix=bt709:out_range=tv:intent=perceptual"
FRAGMENTED = "+frag_keyframe+empty_moov+default_base_moof+skip_trailer"


async def encode(
    tools: Tools,
    source: Source,
    plan: Plan,
    segment: Segment,
    folder: Path,
    *,
    on_progress: Callable[[Progress], None] | None = None,
) -> dict[str, Path]:
    """Make the files of one segment, one a rung; they are counted before they are handed over."""
    picture = plan.picture
    if picture is None:
        raise MediaError("the plan has no picture to encode")
    files = {rung.name: folder / f"{rung.name}.mp4" for rung in picture.rungs}
    after = ["-filter_complex", pictures_of(picture, segment), *_outputs(plan, picture, files)]
    await tools.ffmpeg(source, seek_to(picture, segment), after, writes=[folder], on_progress=on_progress)
    for name, file in files.items():
        count = read(file.read_bytes()).count
        if count != segment.count:
            raise MediaError(
                f"segment {segment.number} of {name} has {count} frames instead of {segment.count}"
            )
    return files


def seek_to(picture: Picture, segment: Segment) -> list[str]:
    """Start at a frame that can be decoded; half a frame later, so that rounding cannot miss it."""
    start = segment.seek * picture.time_base + 1 / (2 * picture.rate)
    skip = ["-seek_timestamp", "1", "-ss", decimal(start), "-noaccurate_seek"] if segment.number else []
    return ["-copyts", "-reinit_filter", "0", *skip]  # a source may change its size; the filters go on


def pictures_of(picture: Picture, segment: Segment) -> str:
    """The filters: by number, upright, with square pixels, in every size."""
    rate = f"{picture.rate.numerator}/{picture.rate.denominator}"
    chain = [f"setpts=PTS-({picture.zero})"]
    if picture.deinterlace:
        chain.append("bwdif=mode=send_frame")
    chain += [
        f"fps=fps={rate}:start_time={decimal(segment.first / picture.rate)}:round=near",
        f"trim=end_frame={segment.count}",
        f"settb={picture.rate.denominator}/{picture.rate.numerator}",
        "setpts=N",
    ]
    if picture.tone_map:
        chain += [TO_SDR, "format=yuv420p"]
    sizes = len(picture.rungs)
    split = f"split={sizes}" + "".join(f"[p{n}]" for n in range(sizes))
    scaled = [
        f"[p{n}]scale={rung.width}:{rung.height}:{SCALER},setsar=1,format=yuv420p[v{n}]"
        for n, rung in enumerate(picture.rungs)
    ]
    return ";".join([f"[0:{picture.stream}]" + ",".join([*chain, split]), *scaled])


def _outputs(plan: Plan, picture: Picture, files: dict[str, Path]) -> list[str]:
    options: list[str] = []
    grid = f"keyint={picture.keys_every}:min-keyint={picture.keys_every}:scenecut=0:open-gop=0:threads=1"
    for number, rung in enumerate(picture.rungs):
        options += [
            "-map", f"[v{number}]", "-c:v", plan.encoder, "-preset", plan.preset, "-profile:v", "high",
            "-crf", str(rung.crf), "-maxrate", f"{rung.max_kbps}k", "-bufsize", f"{rung.buffer_kbits}k",
            "-x264-params", grid, "-threads", "1",
            "-map_metadata", "-1", "-map_chapters", "-1",
            "-video_track_timescale", str(timescale(picture.rate)),
            "-f", "mp4", "-use_editlist", "0", "-movflags", FRAGMENTED, f"file:{files[rung.name]}",
        ]  # fmt: skip
    return options


def timescale(rate: Fraction) -> int:
    """Ticks a second in which every frame has a whole number of ticks."""
    return rate.numerator


def decimal(seconds: Fraction) -> str:
    """A time as ffmpeg reads it, to the microsecond."""
    micros = round(seconds * 1_000_000)
    return f"{micros // 1_000_000}.{micros % 1_000_000:06d}"
