"""Compares every picture of a track with the picture of the source that belongs there.

Counting is not enough: a package can have the right number of frames and the wrong ones. Both sides are made
small and grey, and each picture must be at least as near to its own as to those around it. Which picture of
the source belongs to a frame follows from the time of the frame alone, here and without the plan.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import dist, sqrt
from pathlib import Path
from statistics import median

from takeup.media.check.access import Access
from takeup.media.check.decode import NOT_THE_SOURCE
from takeup.media.check.joined import join
from takeup.media.check.places import AROUND, Place, frame_of, steady_rate
from takeup.media.check.tracks import Track
from takeup.media.errors import MediaError
from takeup.media.index import AFTER_KEY_S, Index
from takeup.media.probe import Probe
from takeup.media.source import Source
from takeup.media.survey import survey
from takeup.media.tools import Tools

SHORT = 36
"""Pixels on the short side of the small pictures."""
LONG_MAX = 144
BETTER, LEVELS = 2.0, 0.75
"""Another picture is taken for the right one if it is twice as near, and by more than this of 255 levels."""
STRANGE, STRANGE_LEVELS = 3.0, 3.0
FAR_LEVELS = 6.0
"""A picture this far from its own, or from the usual distance, is looked for everywhere."""
SEARCHES_MAX = 8
NOTHING_LEVELS = 48.0
"""This far apart, two pictures have nothing to do with each other."""
WRONG_MAX = 20


@dataclass(frozen=True, slots=True)
class Original:
    """The source and its frames."""

    source: Source
    probe: Probe
    index: Index | None


@dataclass(frozen=True, slots=True)
class Wrong:
    """A frame with the picture of another; None if of none."""

    frame: int
    like: int | None


@dataclass(slots=True)
class Compared:
    """What was found."""

    original: Original
    frames: dict[str, int] = field(default_factory=dict)
    """How many pictures of each track were compared."""
    wrong: dict[str, list[Wrong]] = field(default_factory=dict)
    """The first ones."""
    wrong_count: dict[str, int] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Where nothing could be compared, and why."""

    @property
    def index(self) -> Index | None:
        """The frames of the source."""
        return self.original.index


async def look_into(tools: Tools, source: Source, folder: Path, frames: Index | None = None) -> Original:
    """The source as it can be cut: one that cannot is copied first. Its frames may be known already."""
    found = await survey(tools, source, folder / "copy.mkv", frames=frames)
    return Original(found.source, found.probe, found.index)


async def compare(
    access: Access,
    tools: Tools,
    track: Track,
    chosen: Sequence[Place],
    found: Compared,
    folder: Path,
    *,
    on_frames: Callable[[int], None],
) -> None:
    """Compare these places of one picture track, one after the other."""
    index, rate = found.original.index, steady_rate(track)
    if index is None or rate is None or not track.pixels:
        return
    size = small(int(track.told["width"]), int(track.told["height"]))
    found.frames[track.name], found.wrong[track.name], found.wrong_count[track.name] = 0, [], 0
    for place in chosen:
        first = frame_of(track, place.pieces[0], rate) + place.skip
        window = Window(max(first - AROUND, 0), first + place.count + AROUND)
        try:
            shown = await _of_track(access, tools, track, place, size, folder)
            right = await _of_source(tools, found.original, rate, window, size, folder)
        except MediaError as error:
            message = str(error).removeprefix(NOT_THE_SOURCE)
            found.faults.append((access.name(place.pieces[0].address), message))
            continue
        wrong = judge(shown, right, first - window.first)
        found.frames[track.name] += len(shown)
        found.wrong_count[track.name] += len(wrong)
        room = WRONG_MAX - len(found.wrong[track.name])
        found.wrong[track.name] += [
            replace(one, frame=one.frame + first, like=None if one.like is None else one.like + window.first)
            for one in wrong[:room]
        ]
        on_frames(place.count)


@dataclass(frozen=True, slots=True)
class Window:
    """Frames from `first` to before `end`."""

    first: int
    end: int


def small(width: int, height: int) -> tuple[int, int]:
    """The size of the small pictures, of about the same shape."""
    scale = SHORT / min(width, height)
    wide, high = (min(max(round(side * scale / 2) * 2, 2), LONG_MAX) for side in (width, height))
    return wide, high


async def _of_track(
    access: Access, tools: Tools, track: Track, place: Place, size: tuple[int, int], folder: Path
) -> list[bytes]:
    file, out = folder / "compared", folder / "small"
    try:
        source = await join(access, track, place.pieces, file)
        after = ["-map", "0:v:0", "-vf", _shrunk(size), "-fps_mode", "passthrough", *_raw(out)]
        await tools.ffmpeg(source, (), after, writes=[folder])
        return list(_pictures(out, size))[place.skip :][: place.count]
    finally:
        file.unlink(missing_ok=True)
        out.unlink(missing_ok=True)


async def _of_source(
    tools: Tools, original: Original, rate: Fraction, window: Window, size: tuple[int, int], folder: Path
) -> list[bytes]:
    """The pictures of the source that belong to these frames: each the nearest in time."""
    found = source_frames(original, rate, window)
    if found is None:
        return []
    before, chain = found
    out = folder / "small"
    after = ["-filter_complex", f"{chain},{_shrunk(size)}[o]", "-map", "[o]"]
    try:
        await tools.ffmpeg(
            original.source, before, [*after, "-fps_mode", "passthrough", *_raw(out)], writes=[folder]
        )
        return list(_pictures(out, size))
    finally:
        out.unlink(missing_ok=True)


def source_frames(original: Original, rate: Fraction, window: Window) -> tuple[list[str], str] | None:
    """How the tools read these frames of the source: options before it, and the filters that choose them."""
    index, video = original.index, original.probe.video
    if index is None or video is None:
        return None
    tick = index.key_before(index.shown[0] + int(window.first / rate / index.time_base))
    before = ["-copyts", "-reinit_filter", "0"]
    if window.first:
        begin = tick * index.time_base + AFTER_KEY_S
        before += ["-seek_timestamp", "1", "-ss", f"{float(begin):.6f}", "-noaccurate_seek"]
    chain = [
        f"setpts=PTS-({index.shown[0]})",
        *(["bwdif=mode=send_frame"] if video.is_interlaced else []),
        f"fps=fps={rate}:start_time={float(window.first / rate):.6f}:round=near",
        f"trim=end_frame={window.end - window.first}",
    ]
    return before, f"[0:{video.stream}]{','.join(chain)}"


def _shrunk(size: tuple[int, int]) -> str:
    return f"scale={size[0]}:{size[1]}:flags=area,format=gray"


def _raw(file: Path) -> list[str]:
    return ["-f", "rawvideo", f"file:{file}"]


def _pictures(file: Path, size: tuple[int, int]) -> Iterator[bytes]:
    with file.open("rb") as pictures:
        while len(one := pictures.read(size[0] * size[1])) == size[0] * size[1]:
            yield one


def judge(shown: Sequence[bytes], right: Sequence[bytes], ahead: int) -> list[Wrong]:
    """The frames that show another picture than theirs, which is `ahead` places further in the source's."""
    own = [_apart(picture, right[n + ahead]) for n, picture in enumerate(shown) if n + ahead < len(right)]
    usual = median(own) if own else 0.0
    wrong = []
    searches = 0
    for number, distance in enumerate(own):
        place = number + ahead
        near = range(max(place - AROUND, 0), min(place + AROUND + 1, len(right)))
        found = _nearest(shown[number], right, near, distance) if distance > LEVELS else None
        if found is None and distance > max(FAR_LEVELS, STRANGE * usual + STRANGE_LEVELS):
            if searches < SEARCHES_MAX:
                searches += 1
                found = _nearest(shown[number], right, range(len(right)), distance)
            if found is None and distance > NOTHING_LEVELS:
                wrong.append(Wrong(number, None))
        if found is not None:
            wrong.append(Wrong(number, found))
    return wrong


def _nearest(picture: bytes, right: Sequence[bytes], places: range, own: float) -> int | None:
    """The place of a picture that fits clearly better than its own."""
    distances = {place: _apart(picture, right[place]) for place in places}
    best = min(distances, key=lambda place: distances[place])
    is_better = own > BETTER * distances[best] and own - distances[best] > LEVELS
    return best if is_better else None


def _apart(one: bytes, other: bytes) -> float:
    """How far two pictures are apart, in levels of grey."""
    return dist(one, other) / sqrt(len(one))
