"""How good the pictures of a track are: VMAF against the source, in places from all over it.

The reference is the source in the size of the largest rung, and a smaller rung is brought to that size as a
player would do it: so rungs can be compared with each other.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import fmean

from takeup.media.check.access import Access
from takeup.media.check.compare import Original, Window, source_frames
from takeup.media.check.joined import join
from takeup.media.check.places import Place, frame_of, steady_rate
from takeup.media.check.tracks import Track
from takeup.media.errors import MediaError
from takeup.media.tools import Tools, opening

PLACES = 10
LOG = "vmaf.json"
DIGITS = 2
LOWEST_SHARE = 100
"""The lowest of so many frames is told beside the mean: one bad second is what people see."""


@dataclass(frozen=True, slots=True)
class Quality:
    """What was measured of one track."""

    mean: float
    lowest: float
    """One frame in a hundred is worse."""
    frames: int


def pool(scores: Sequence[float]) -> Quality:
    """The scores of single frames as one."""
    lowest = sorted(scores)[len(scores) // LOWEST_SHARE]
    return Quality(round(fmean(scores), DIGITS), round(lowest, DIGITS), len(scores))


@dataclass(frozen=True, slots=True)
class Meter:
    """Measures tracks of one package against one source, all in the same size."""

    access: Access
    tools: Tools
    original: Original
    size: tuple[int, int]
    folder: Path

    async def measure(
        self, track: Track, chosen: Sequence[Place], *, on_frames: Callable[[int], None]
    ) -> Quality:
        """VMAF of these places of a track."""
        rate = steady_rate(track)
        if rate is None:
            raise MediaError(f"the pictures of {track.name} do not come evenly, so none can be told its own")
        scores: list[float] = []
        for place in chosen:
            scores += await self._place(track, place, rate)
            on_frames(place.count)
        if not scores:
            raise MediaError(f"nothing of {track.name} could be measured")
        return pool(scores)

    async def _place(self, track: Track, place: Place, rate: Fraction) -> list[float]:
        first = frame_of(track, place.pieces[0], rate) + place.skip
        found = source_frames(self.original, rate, Window(first, first + place.count))
        if found is None:
            return []
        before, right = found
        shown = f"[1:v:0]trim=start_frame={place.skip}:end_frame={place.skip + place.count}"
        width, height = self.size
        alike = f"setpts=N/({rate})/TB,scale={width}:{height}:flags=bicubic,setsar=1,format=yuv420p"
        graph = (
            f"{right},{alike}[right];{shown},{alike}[shown];"
            f"[shown][right]libvmaf=log_fmt=json:log_path={LOG}:shortest=1"
        )
        file, log = self.folder / "measured", self.folder / LOG
        try:
            joined = await join(self.access, track, place.pieces, file)
            after = [*opening(), "-i", joined.argument, "-filter_complex", graph, "-f", "null", "-"]
            await self.tools.ffmpeg(
                self.original.source, before, after, writes=[self.folder], cwd=self.folder
            )
            return [frame["metrics"]["vmaf"] for frame in json.loads(log.read_text())["frames"]]
        finally:
            file.unlink(missing_ok=True)
            log.unlink(missing_ok=True)
