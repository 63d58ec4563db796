"""Rules that need the source: every picture of it once, in order, at its time, and nothing made larger."""

from collections.abc import Iterator

from takeup.media.check.package import Package
from takeup.media.check.places import steady_rate
from takeup.media.check.rule import rule
from takeup.media.probe import square

Found = Iterator[tuple[str, str]]


@rule(
    "C1.frames",
    "There are as many pictures as the source has at this rate",
    "frames",
    "pictures",
    hint="Cut by frame numbers from one index of the source, never by seconds.",
)
def no_frame_is_lost(package: Package) -> Found:
    """Counts of each rung."""
    index = package.compared.index if package.compared else None
    for track in package.pictures if index else ():
        rate = steady_rate(track)
        if index is None or rate is None:
            continue
        wanted = max(round(index.length_s * rate), 1)
        if abs(track.count - wanted) > (0 if index.is_even else 1):
            yield track.name, f"it has {track.count} pictures instead of {wanted}"


@rule(
    "C2.pictures",
    "Every frame shows its own picture of the source",
    "frames",
    "compared",
    hint="Choose pictures by their number; seeking by seconds repeats one and loses another at each cut.",
)
def every_picture_is_right(package: Package) -> Found:
    """Doubled, lost, swapped and strange pictures."""
    found = package.compared
    for where, message in found.faults if found else ():
        yield where, f"it could not be compared: {message}"
    for name, count in found.wrong_count.items() if found else ():
        if not count or found is None:
            continue
        one = found.wrong[name][0]
        like = "no picture around it" if one.like is None else f"picture {one.like} of the source"
        text = f"{count} of {found.frames[name]} pictures are wrong; the first is {one.frame}, which shows"
        yield name, f"{text} {like}"


@rule(
    "C4.length",
    "The picture lasts as long as that of the source",
    "frames",
    "pictures",
    hint="Make the frame rate constant before anything is cut.",
)
def length_is_kept(package: Package) -> Found:
    """The length of each rung against the source's, within a frame."""
    index = package.compared.index if package.compared else None
    for track in package.pictures if index else ():
        if index and abs(track.length_s - index.length_s) > track.sample_s * 3 / 2:
            text = f"it lasts {float(track.length_s):.3f} s, the source {float(index.length_s):.3f} s"
            yield track.name, text


@rule(
    "C7.larger",
    "No rung is larger than the source",
    "frames",
    "pictures",
    hint="Leave out rungs above the size of the source.",
)
def nothing_is_made_larger(package: Package) -> Found:
    """By the short side, with square pixels."""
    video = package.compared.original.probe.video if package.compared else None
    if video is None:
        return
    short = min(square(video.width, video.height, video.pixel_shape))
    for track in package.pictures:
        own = min(int(track.told.get(side) or 0) for side in ("width", "height"))
        if own > short + 2:
            yield track.name, f"its short side has {own} pixels, that of the source {float(short):.0f}"


@rule(
    "C15.source",
    "There is sound if the source has some",
    "source",
    hint="Encode every sound track of the source.",
)
def sound_is_kept(package: Package) -> Found:
    """A package that fell silent, or that speaks where the source is silent."""
    if package.compared is None:
        return
    tracks = package.compared.original.probe.audio
    if tracks and not package.sounds:
        yield "the package", f"the source has {len(tracks)} sound tracks, and there is none"
    if package.sounds and not tracks:
        yield "the package", "there is sound, and the source has none"
