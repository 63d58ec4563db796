"""Text tracks: each is taken out once, whole, as WebVTT that begins with the picture and harms nobody."""

import re
from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path

from takeup.media import webvtt
from takeup.media.plan import Plan
from takeup.media.probe import Text
from takeup.media.source import Source
from takeup.media.tools import Tools
from takeup.media.webvtt import Cue

SHIFT_S = 3600
"""Texts are taken out so much later: before zero WebVTT has no times, and ffmpeg would move all of them."""
BYTES_MAX = 16 << 20
CUES_MAX = 50_000
AT_ONCE_MAX = 20
"""More texts at the same time are a drawing, not something to read."""
WITHOUT_END_MS = 5000
WALL_S = 3600.0
"""There may be hours between two texts, so it is not the time between them that tells a hang."""
DRAWING = re.compile(r"m(?: -?[\d.]+){2}(?: [mnlbspc]| -?[\d.]+)*\s*", re.IGNORECASE)
"""Shapes, which ASS keeps among the words."""


async def encode(tools: Tools, source: Source, plan: Plan, text: Text, folder: Path) -> Path:
    """Make the file of one track; what cannot be read in it is left out."""
    file = folder / name_of(text)
    raw = file.with_suffix(".raw")
    after = [
        "-map", f"0:{text.stream}", "-c:s", "webvtt", "-map_metadata", "-1", "-max_error_rate", "1",
        "-f", "webvtt", "-output_ts_offset", str(SHIFT_S), "-fs", str(BYTES_MAX), f"file:{raw}",
    ]  # fmt: skip
    before = ["-copyts", "-sub_charenc_mode", "ignore"]  # letters that make no sense become marks below
    await tools.ffmpeg(source, before, after, writes=[folder], stall_s=WALL_S, wall_s=WALL_S)
    found = webvtt.read(raw.read_bytes() or webvtt.MARK.encode(), goes_on=True)
    raw.unlink()
    file.write_bytes(webvtt.write(tidy(found, plan)))
    return file


def name_of(text: Text) -> str:
    """The file of a track."""
    return f"text-{text.stream}.vtt"


def tidy(cues: Iterable[Cue], plan: Plan) -> list[Cue]:
    """Cues as they are served: clean, in order, within the length, each once, not too many at a time."""
    zero_ms = round((plan.start_s + SHIFT_S) * 1000)
    length_ms = int(plan.length_s * 1000)
    placed = [
        Cue(cue.start_ms - zero_ms, cue.end_ms - zero_ms, webvtt.clean(_words(cue.text))) for cue in cues
    ]
    placed = _ended(sorted(placed, key=lambda cue: cue.start_ms))
    cut = (replace(c, start_ms=max(c.start_ms, 0), end_ms=min(c.end_ms, length_ms)) for c in placed)
    shown = dict.fromkeys(cue for cue in cut if cue.text and cue.start_ms < cue.end_ms)
    return _readable(shown)[:CUES_MAX]


def _words(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not DRAWING.fullmatch(line))


def _ended(cues: list[Cue]) -> list[Cue]:
    """A text without an end is shown until the next one, but not for long."""
    nexts = [after.start_ms for _, after in pairwise(cues)] + [1 << 62]
    return [
        replace(cue, end_ms=min(after, cue.start_ms + WITHOUT_END_MS)) if cue.end_ms <= cue.start_ms else cue
        for cue, after in zip(cues, nexts, strict=False)
    ]


def _readable(cues: Iterable[Cue]) -> list[Cue]:
    kept: list[Cue] = []
    ends: list[int] = []
    for cue in cues:
        while ends and ends[0] <= cue.start_ms:
            heappop(ends)
        if len(ends) < AT_ONCE_MAX:
            heappush(ends, cue.end_ms)
            kept.append(cue)
    return kept
