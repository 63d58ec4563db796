"""Every frame of a source by its time, from one pass over the packets; nothing is decoded."""

import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, chain, groupby, pairwise, repeat
from statistics import median_low
from typing import Any

from takeup.media.errors import MediaError, TooLarge
from takeup.media.source import Source
from takeup.media.tools import Tools

INDEX_S_MAX = 600.0
LINE_BYTES = 64
FRAMES_MAX = 24 * 3600 * 60
SEEKABLE = ("mov", "matroska")
"""Containers in which a seek finds exactly the packet it was asked for; others are copied into one first."""
AFTER_KEY_S = Fraction(1, 2000)
"""A seek goes so far beyond a key frame: rounding cannot miss it, and the next frame is later still."""
JITTER_TICKS = 2
"""Times are rounded to ticks, the first and the last one too."""


@dataclass(frozen=True, slots=True)
class Index:
    """The frames of one track in the order in which they are shown, in ticks of its time base."""

    time_base: Fraction
    shown: "array[int]"
    keys: "array[int]"
    """The frames at which decoding can begin."""
    end: int
    """When the last frame is over."""
    has_all_times: bool = True

    def to_json(self) -> dict[str, Any]:
        """As it is stored: what lies between the frames, each gap with how often it comes in a row."""
        return {
            "time_base": str(self.time_base),
            "shown": _gaps(self.shown),
            "keys": _gaps(self.keys),
            "end": self.end,
            "has_all_times": self.has_all_times,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Index":
        """As it was stored."""
        shown, keys = (array("q", accumulate(_apart(values[name]))) for name in ("shown", "keys"))
        return cls(**{**values, "time_base": Fraction(values["time_base"]), "shown": shown, "keys": keys})

    @property
    def count(self) -> int:
        """How many frames there are."""
        return len(self.shown)

    @property
    def length_s(self) -> Fraction:
        """From the first frame to the end of the last."""
        return (self.end - self.shown[0]) * self.time_base

    @property
    def interval(self) -> int:
        """What lies between two frames as a rule, in ticks."""
        gaps = [after - before for before, after in pairwise(self.shown)]
        return median_low(gaps) if gaps else max(self.end - self.shown[0], 1)

    @property
    def is_even(self) -> bool:
        """Whether every frame comes at its time, as far as the ticks can tell."""
        if self.count < 2:  # noqa: PLR2004 - one frame is on time
            return True
        first, gaps = self.shown[0], self.count - 1
        span, slack = self.shown[-1] - first, JITTER_TICKS * gaps
        return all(abs((at - first) * gaps - span * number) <= slack for number, at in enumerate(self.shown))

    def key_before(self, tick: int) -> int:
        """The last frame at or before this time at which decoding can begin."""
        place = bisect_right(self.keys, tick)
        return self.keys[max(place - 1, 0)]


def is_seekable(container: str) -> bool:
    """Whether a file of this kind can be cut where it is."""
    return any(name in SEEKABLE for name in container.split(","))


async def index(tools: Tools, source: Source, stream: int, time_base: Fraction) -> Index:
    """Read the times of all packets of one track."""
    with tempfile.TemporaryFile() as lines:
        await tools.ffprobe(
            source, "-select_streams", str(stream), "-show_entries", "packet=pts,duration,flags",
            "-of", "csv=p=0", stdout=lines, wall_s=INDEX_S_MAX,
            bytes_max=FRAMES_MAX * LINE_BYTES,
        )  # fmt: skip
        lines.seek(0)
        return read((line.decode("ascii", "replace") for line in lines), time_base)


def read(lines: Iterable[str], time_base: Fraction) -> Index:
    """The index from lines of `pts,duration,flags`; what an edit list cuts away is left out."""
    shown, keys = array("q"), array("q")
    latest, lasts = -1 << 62, 0
    has_all_times = True
    for line in lines:
        pts, duration, flags = (*line.strip().split(","), "", "")[:3]
        if not flags or "D" in flags:
            continue
        if pts in ("N/A", ""):
            has_all_times = False
            continue
        shown.append(int(pts))
        if "K" in flags:
            keys.append(int(pts))
        if shown[-1] >= latest:
            latest, lasts = shown[-1], int(duration) if duration.isdecimal() else 0
        if len(shown) > FRAMES_MAX:
            raise TooLarge(f"it has more than {FRAMES_MAX} frames")
    if not shown:
        raise MediaError("its picture track has no frames")
    in_order = _ordered(shown)
    key_order = _ordered([*keys, in_order[0]])  # decoding can always begin at the first
    found = Index(time_base, in_order, key_order, latest + 1, has_all_times)
    return replace(found, end=latest + (lasts or found.interval))


def _ordered(times: Iterable[int]) -> "array[int]":
    """Each once; no set is made, for there may be millions."""
    return array("q", (time for time, _ in groupby(sorted(times))))


def _gaps(times: Sequence[int]) -> list[tuple[int, int]]:
    gaps = chain(times[:1], (after - before for before, after in pairwise(times)))
    return [(gap, len(list(again))) for gap, again in groupby(gaps)]


def _apart(gaps: Iterable[tuple[int, int]]) -> Iterator[int]:
    return chain.from_iterable(repeat(gap, again) for gap, again in gaps)
