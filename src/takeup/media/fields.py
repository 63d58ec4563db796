"""Whether the pictures of a source are really made of two fields: by looking, for marks are often wrong."""

import re
from dataclasses import replace
from fractions import Fraction

from takeup.media.errors import MediaError, ToolStarved
from takeup.media.index import Index
from takeup.media.probe import Probe, Video
from takeup.media.source import Source
from takeup.media.tools import Tools

CAN_BE = (
    "mpeg2video", "h264", "vc1", "dvvideo", "prores", "dnxhd", "hevc", "mpeg4", "huffyuv", "v210",
    "rawvideo", "ffv1", "utvideo", "mjpeg",
)  # fmt: skip
OFTEN_UNMARKED = ("mpeg2video", "h264", "dvvideo", "prores")
LINES = (480, 486, 512, 576, 608, 1080, 1088)
RATES = (Fraction(25), Fraction(30000, 1001))
CLOSE = Fraction(1, 100)
PLACES = (Fraction(1, 6), Fraction(1, 2), Fraction(5, 6))
FRAMES = 40
SHORT_S = 10
"""A source so short is looked at in one place, its first."""
LONG_S = 4
NEAR_S = Fraction(1, 1000)
"""A little after the frame that is meant, so that rounding cannot miss it."""
LOOK_S_MAX = 20.0
SHARES = {"progressive": Fraction(19, 20), "": Fraction(1, 2), "unknown": Fraction(1, 2)}
MARKED_SHARE = Fraction(1, 5)
"""How many of the pictures must look like two fields, by the mark: the look errs too, on fine patterns."""
SEEN_MIN = 10
"""With fewer that look like anything, the mark counts."""
COUNT_LINE = re.compile(r"lavfi\.idet\.(single|multiple)\.(tff|bff|progressive)=\s*(\d+)")


async def look(tools: Tools, source: Source, facts: Probe, index: Index) -> Probe:
    """The facts with `is_interlaced` as it was seen, where it was worth a look."""
    video = facts.video
    if video is None or not is_doubtful(video):
        return facts
    fields = whole = 0
    for key in places(index):
        seen = await _count(tools, source, video, key * index.time_base)
        fields += sum(count for (_, kind), count in seen.items() if kind != "progressive")
        whole += sum(count for (_, kind), count in seen.items() if kind == "progressive")
    if fields + whole < SEEN_MIN:
        return facts
    enough = SHARES.get(video.field_order, MARKED_SHARE)
    return replace(facts, video=replace(video, is_interlaced=Fraction(fields, fields + whole) >= enough))


def is_doubtful(video: Video) -> bool:
    """Whether a look is worth its time: marked as fields or not at all, or of a kind often marked wrong."""
    if video.codec not in CAN_BE:
        return False
    if video.field_order != "progressive":
        return True
    lines = min(video.width, video.height) if video.rotation % 180 == 0 else max(video.width, video.height)
    near = any(video.rate is not None and abs(video.rate - rate) < CLOSE for rate in RATES)
    return near and lines in LINES and video.codec in OFTEN_UNMARKED


def places(index: Index) -> list[int]:
    """Where to look, in ticks: at frames at which decoding can begin, so that nothing is decoded in vain."""
    if index.length_s < SHORT_S:
        return [index.shown[0]]
    length = index.end - index.shown[0]
    return sorted({index.key_before(index.shown[0] + int(place * length)) for place in PLACES})


async def _count(tools: Tools, source: Source, video: Video, at_s: Fraction) -> dict[tuple[str, str], int]:
    """How many pictures after this time look like two fields, and how many like one, each judged twice."""
    seek = ["-seek_timestamp", "1", "-ss", f"{float(at_s + NEAR_S):.6f}", "-noaccurate_seek"]
    before = ["-xerror", *seek, "-t", str(LONG_S), "-noautorotate"]
    seen: dict[tuple[str, str], int] = {}
    after = [
        "-map", f"0:{video.stream}", "-vf", "idet,metadata=mode=print:file=-", "-frames:v", str(FRAMES),
        "-f", "null", "-",
    ]  # fmt: skip
    try:
        ended = await tools.ffmpeg(source, before, after, wall_s=LOOK_S_MAX)
    except (MediaError, ToolStarved):  # what cannot be decoded says nothing; the encode may get over it
        return seen
    for way, kind, count in COUNT_LINE.findall(ended.stdout):  # each picture tells the sum so far
        seen[way, kind] = int(count)
    return seen
